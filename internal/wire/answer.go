package wire

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
)

// Answer is one element of a reply, with its values as they were sent. Those that
// a kind does not have are "".
type Answer struct {
	Kind                 string // "created", "opened", "status", "canceled" or "error"
	Order                       // what it repeats; Sym and Ref of other requests too
	ID                   string
	Error                string     // the text of an error
	Open                 string     // shares that are open, of a status
	Canceled, CanceledAt string     // shares that were canceled, and when, in seconds since the Unix epoch
	Executed             []Executed // oldest first
}

// Executed is one execution in an Answer: shares, dollars a share, and seconds
// since the Unix epoch.
type Executed struct{ Shares, Price, Time string }

// ParseReply reads a reply's XML, of any size, into its answers in their order. It
// is strict: the error names the first thing that no reply has.
func ParseReply(reply []byte) ([]Answer, error) {
	root, err := parseDocument(reply, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("wire: reply: %w", err)
	}
	if root.name != "results" || len(root.attrs) > 0 || !isBlank(root.text) {
		return nil, fmt.Errorf("wire: reply: <%s> is not a <results> of answers", clip(root.name))
	}
	answers := make([]Answer, len(root.children))
	for i, e := range root.children {
		if err := answers[i].parse(e); err != nil {
			return nil, fmt.Errorf("wire: reply: answer %d: %w", i+1, err)
		}
	}
	return answers, nil
}

// parse reads an element of <results>.
func (a *Answer) parse(e *element) error {
	a.Kind = e.name
	a.Order.take(e)
	a.ID, _ = e.attr("id")
	if _, named := e.attr("ref"); named {
		e = e.without("ref")
	}
	switch e.name {
	case "error":
		a.Error = string(e.text)
		return first(onlyAttributes(e, repeatedNames[:]...), noChildren(e))
	case "created":
		return first(onlyAttributes(e, "sym", "id"), noContent(e))
	case "opened":
		return first(needsAttributes(e, neededNames), needsAttributes(e, []string{"id"}),
			onlyAttributes(e, repeatedNames[:]...), noContent(e))
	case "status", "canceled":
		if err := exactAttributes(e, "id"); err != nil {
			return err
		}
		for i, part := range e.children {
			if err := a.parsePart(part, i == 0); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("unknown element <%s>", clip(e.name))
}

// without returns e without an attribute that any answer may have.
func (e *element) without(name string) *element {
	other := *e
	other.attrs = slices.DeleteFunc(slices.Clone(e.attrs), func(a xml.Attr) bool { return rawName(a.Name) == name })
	return &other
}

// parsePart reads an element of <status> or <canceled>. Only the first may tell
// what is open or was canceled.
func (a *Answer) parsePart(e *element, isFirst bool) (err error) {
	switch {
	case e.name == "executed":
		err = exactAttributes(e, "shares", "price", "time")
		var x Executed
		x.Shares, _ = e.attr("shares")
		x.Price, _ = e.attr("price")
		x.Time, _ = e.attr("time")
		a.Executed = append(a.Executed, x)
	case e.name == "canceled" && isFirst:
		err = exactAttributes(e, "shares", "time")
		a.Canceled, _ = e.attr("shares")
		a.CanceledAt, _ = e.attr("time")
	case e.name == "open" && isFirst && a.Kind == "status":
		err = exactAttributes(e, "shares")
		a.Open, _ = e.attr("shares")
	default:
		err = fmt.Errorf("<%s> stands where <%s> has none", clip(e.name), a.Kind)
	}
	return first(err, noContent(e))
}

// exactAttributes returns an error if an element's attributes are not just
// those.
func exactAttributes(e *element, names ...string) error {
	return first(needsAttributes(e, names), onlyAttributes(e, names...))
}

// needsAttributes returns an error if an element lacks one of those attributes.
func needsAttributes(e *element, names []string) error {
	for _, name := range names {
		if _, ok := e.attr(name); !ok {
			return errMissing(e, name)
		}
	}
	return nil
}
