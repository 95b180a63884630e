package script

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"outcry/internal/lab/dialect"
)

// matcher compares replies with a WANT. It compares only what WANT names, and ignores faults of form.
type matcher struct {
	vars  map[string]string // values of the $ names; a reply that matches adds new ones
	fresh map[string]bool   // values that "$new" matched so far; nil outside of at-once
	again string            // a value that "$new" matched twice
	// orders has, by order id, a description of the order, for messages.
	orders map[string]string
}

// answers compares the answers of a reply to doc, which is empty if unknown. If all match, it adds the new
// $ values to vars and returns nil. Otherwise it returns a *wrong that names the first difference.
func (m *matcher) answers(want, got []*dialect.Element, doc string) error {
	if len(want) != len(got) {
		return wrongf("The reply must have %s%s. It has %s%s.", count(len(want), "answer"), afterColon(names(want)),
			count(len(got), "answer"), afterColon(names(got)))
	}
	try := *m
	try.vars, try.fresh = maps.Clone(m.vars), maps.Clone(m.fresh)
	for i, w := range want {
		if err := try.element(w, got[i]); err != "" {
			return wrongf("%s%s.", which(i, len(want), asked(doc, m.orders)), err)
		}
	}
	*m = try
	return nil
}

// which names the answer that a message is about.
func which(i, of int, asked []string) string {
	answer := "The answer"
	if of > 1 {
		answer = fmt.Sprintf("Answer %d of %d", i+1, of)
	}
	if len(asked) == of {
		answer += ", to " + asked[i] + ","
	}
	return answer + " "
}

// element compares an answer. It returns the difference as the end of a sentence whose subject is the answer, or ""
// if they match.
func (m *matcher) element(want, got *dialect.Element) string {
	if want.Name == "any" {
		return ""
	}
	if want.Name != got.Name {
		return otherTag(want, got)
	}
	for _, a := range want.Attrs {
		value, ok := got.Attr(a.Name)
		if !ok {
			return fmt.Sprintf("must have the attribute %s: it is %s", a.Name, show(got))
		}
		if wanted, ok := m.attribute(a, value); !ok {
			return fmt.Sprintf("must have %s=%q: it is %s", a.Name, wanted, show(got))
		}
	}
	if len(want.Children) > 0 && !m.set(want.Children, got.Children) {
		return fmt.Sprintf("must have in it %s, and nothing else; it has %s", showAll(m.filled(want.Children)),
			showAll(got.Children))
	}
	return ""
}

// attribute reports whether got matches an attribute of WANT, and returns the value wanted.
func (m *matcher) attribute(a dialect.Attr, got string) (wanted string, ok bool) {
	switch name, isVar := strings.CutPrefix(a.Value, "$"); {
	case a.Value == "*":
		return "*", true
	case !isVar:
		return a.Value, same(a.Name, a.Value, got)
	case name == "new":
		if m.fresh[canonical(got)] {
			m.again = got
		}
		m.fresh[canonical(got)] = true
		return "", true
	default:
		value, bound := m.vars[name]
		if !bound {
			m.vars[name] = got
			return "", true
		}
		return value, same(a.Name, value, got)
	}
}

// set reports whether got has the wanted children, in any order. It ignores children without shares, which
// are only a fault of form.
func (m *matcher) set(want, got []*dialect.Element) bool {
	got = slices.DeleteFunc(slices.Clone(got), isNothing)
	if len(want) != len(got) {
		return false
	}
	taken := make([]int, len(got)) // for each of got, 1 plus the index of want matched with it, or 0
	var place func(w int, seen []bool) bool
	place = func(w int, seen []bool) bool { // finds a bipartite matching, by augmenting paths
		for g := range got {
			if seen[g] || m.element(want[w], got[g]) != "" {
				continue
			}
			seen[g] = true
			if taken[g] == 0 || place(taken[g]-1, seen) {
				taken[g] = w + 1
				return true
			}
		}
		return false
	}
	for w := range want {
		if !place(w, make([]bool, len(got))) {
			return false
		}
	}
	return true
}

// isNothing reports whether e is an open, canceled or executed with 0 shares.
func isNothing(e *dialect.Element) bool {
	shares, ok := e.Attr("shares")
	n := number(shares)
	return ok && n != nil && n.Sign() == 0
}

// same reports whether two values of an attribute are equal, as numbers if both are.
func same(attribute, want, got string) bool {
	if want == got {
		return true
	}
	w, g := number(want), number(got)
	if attribute == "sym" || w == nil || g == nil {
		return false
	}
	if attribute == "shares" {
		w.Abs(w)
		g.Abs(g)
	}
	return w.Cmp(g) == 0
}

// canonical returns a value in a form in which equal numbers are equal strings.
func canonical(value string) string {
	if n := number(value); n != nil {
		return n.RatString()
	}
	return value
}

// numeric matches the ways in which servers write numbers; some are faults of form, which package dialect reports.
// The bounds stop a hostile number from taking long to parse.
var numeric = regexp.MustCompile(`^\s*[-+]?\$?[-+]?` +
	`([0-9][0-9,]{0,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][-+]?[0-9]{1,2})?\s*$`)

// number parses a number that a server wrote. It returns nil if value is not a number.
func number(value string) *big.Rat {
	if !numeric.MatchString(value) {
		return nil
	}
	n, ok := new(big.Rat).SetString(strings.NewReplacer("$", "", ",", "", " ", "").Replace(strings.TrimSpace(value)))
	if !ok {
		return nil
	}
	return n
}

// otherTag returns the message for an answer whose tag is not the wanted one.
func otherTag(want, got *dialect.Element) string {
	switch {
	case want.Name == "error":
		return "must be refused with <error>, but the server answered " + show(got)
	case got.Name == "error":
		return fmt.Sprintf("must be <%s>, but it was refused: %s", want.Name, show(got))
	}
	return fmt.Sprintf("must be <%s>: it is %s", want.Name, show(got))
}

// filled returns elements with the known values of $ in them.
func (m *matcher) filled(elements []*dialect.Element) []*dialect.Element {
	var out []*dialect.Element
	for _, e := range elements {
		filled := &dialect.Element{Name: e.Name, Children: m.filled(e.Children)}
		for _, a := range e.Attrs {
			if name, ok := strings.CutPrefix(a.Value, "$"); ok {
				if a.Value = "…"; m.vars[name] != "" {
					a.Value = m.vars[name]
				}
			}
			filled.Attrs = append(filled.Attrs, a)
		}
		out = append(out, filled)
	}
	return out
}
