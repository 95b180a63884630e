package faulty

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// node is an XML element.
type node struct {
	name     string
	attrs    [][2]string // name and value
	text     string
	children []*node
}

// get returns an attribute's value, or "" if n does not have it.
func (n *node) get(name string) string {
	for _, a := range n.attrs {
		if a[0] == name {
			return a[1]
		}
	}
	return ""
}

func (n *node) has(name string) bool {
	return slices.ContainsFunc(n.attrs, func(a [2]string) bool { return a[0] == name })
}

// only reports whether n has no attributes except these.
func (n *node) only(names ...string) bool {
	return !slices.ContainsFunc(n.attrs, func(a [2]string) bool { return !slices.Contains(names, a[0]) })
}

// parse parses a document. For a malformed one it returns an error, and also the root with its complete
// children, if there is a root.
func parse(doc []byte, types bool) (*node, error) {
	if !utf8.Valid(doc) {
		return nil, errors.New("not UTF-8")
	}
	above := &node{}
	stack := []*node{above}
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(doc, []byte("\ufeff"))))
	root := func() *node { return slices.Concat(above.children, stack[1:], []*node{nil})[0] }
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return root(), err
		}
		top := stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			for i, a := range t.Attr {
				if slices.ContainsFunc(t.Attr[:i], func(b xml.Attr) bool { return a.Name == b.Name }) {
					return root(), errors.New("an attribute is given twice")
				}
			}
			n := &node{name: written(t.Name)}
			for _, a := range t.Attr {
				n.attrs = append(n.attrs, [2]string{written(a.Name), a.Value})
			}
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
			below := stack[len(stack)-1]
			below.children = append(below.children, top)
		case xml.CharData:
			top.text += string(t)
		case xml.Directive:
			if !types {
				return root(), errors.New("document type declaration")
			}
		}
	}
	if len(stack) > 1 || len(above.children) != 1 || strings.TrimSpace(above.text) != "" {
		return root(), errors.New("not one root")
	}
	return above.children[0], nil
}

// written returns a name with its namespace prefix, which makes it differ from all names of the protocol.
func written(n xml.Name) string {
	if n.Space != "" {
		return n.Space + ":" + n.Local
	}
	return n.Local
}

// escape escapes a value so that reading it back gives the same value.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;",
		"\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;").Replace(s)
}

// The forms of values in the protocol.
var (
	accountID = regexp.MustCompile(`^[0-9]{1,64}$`)
	lenientID = regexp.MustCompile(`^[0-9A-Za-z]{1,64}$`)
	symbol    = regexp.MustCompile(`^[A-Za-z0-9]{1,32}$`)
	orderID   = regexp.MustCompile(`^[0-9]+$`)
	number    = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]{0,8})?|\.[0-9]{1,8})$`)
	leading   = regexp.MustCompile(`^-?[0-9]*`)
)

// The bounds of an order's amount and limit, and of a balance or a deposit.
var (
	orderBound = big.NewRat(9e10, 1)
	givenBound = big.NewRat(1e18, 1)
)

// decimal parses a number whose absolute value must be below bound.
func (x *exchange) decimal(s string, bound *big.Rat) (*big.Rat, error) {
	if x.o.has("lenient-numbers") && !number.MatchString(s) {
		s = leading.FindString(s)
		if strings.Trim(s, "-0") == "" {
			s += "1"
		}
	}
	if !number.MatchString(s) || x.o.Habits.Whole && strings.Contains(s, ".") {
		return nil, errors.New("not a number: " + s)
	}
	v, ok := new(big.Rat).SetString(s)
	if !ok || new(big.Rat).Abs(v).Cmp(bound) >= 0 {
		return nil, errors.New("out of range: " + s)
	}
	return v, nil
}

// show formats a number in its shortest exact form.
func show(v *big.Rat) string {
	s := v.FloatString(16)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
