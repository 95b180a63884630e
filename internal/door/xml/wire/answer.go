package wire

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
)

// Answer is one element of a reply, with its values as they were sent. Values that the element does not
// have are "".
type Answer struct {
	// Kind is "created", "opened", "status", "canceled", "error", "amended", "canceled-all",
	// "cancel-after", "account", "orders", "fills" or "session".
	Kind                 string
	Order                           // attributes repeated from the request; other elements use Sym and Ref too
	ID                   string     // order or account id; in an amended, as the request named the order
	By                   string     // in an amended: id of the order that replaced the old one
	Error                string     // text of an error
	Open                 string     // open shares of the order
	Canceled, CanceledAt string     // canceled shares, and the time in seconds since the Unix epoch
	Replaced             string     // id of the order that replaced this one
	Reduced, ReducedAt   string     // shares that amends removed in place, and the time in seconds since the epoch
	Executed             []Executed // executions, oldest first
	Count, Seconds       string     // Count is in a canceled-all, Seconds in a cancel-after
	Balance, Held        string     // cash of an account, and the part of it that is held
	Parts                []Part     // positions of an account, or elements of an orders or a fills
	More                 bool       // whether further executions, orders or fills were left out
	After                string     // in an orders or a fills with More: the value of after that requests the next page
}

// Executed is one execution in an Answer: shares, dollars a share, and seconds
// since the Unix epoch.
type Executed struct{ Shares, Price, Time string }

// Part is an element within an account, orders or fills answer.
type Part struct {
	Name  string // name of the element: "position", "order" or "fill"
	attrs []xml.Attr
}

// Get returns the value of an attribute, "" if it is absent.
func (p *Part) Get(name string) string {
	value, _ := (&element{attrs: p.attrs}).attr(name)
	return value
}

// ParseReply parses the XML of a reply, of any size, and returns its answers in order. The error names
// the first required thing that is missing. Unknown attributes and elements are ignored, since a newer
// exchange may send more.
func ParseReply(reply []byte) ([]Answer, error) {
	root, err := parseDocument(reply, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("wire: reply: %w", err)
	}
	if root.name != "results" || !isBlank(root.text) {
		return nil, fmt.Errorf("wire: reply: <%s> is not a <results> of answers", clip(root.name))
	}
	answers := make([]Answer, 0, len(root.children))
	for i, e := range root.children {
		known, isKnown := answerKinds[e.name]
		if !isKnown {
			continue
		}
		answers = append(answers, Answer{Kind: e.name})
		if err := answers[len(answers)-1].parse(e, known); err != nil {
			return nil, fmt.Errorf("wire: reply: answer %d: %w", i+1, err)
		}
	}
	return answers, nil
}

// answerKind describes one kind of element in <results>.
type answerKind struct {
	needs []string // required attributes
	parts []string // allowed child elements
}

// Child elements of <status>, <opened> and <canceled>, which describe the state of an order.
var (
	statusParts  = []string{"open", "canceled", "replaced", "reduced", "executed", "more"}
	openedParts  = []string{"open", "canceled", "reduced", "executed", "more"}
	canceledOnes = []string{"canceled", "replaced", "reduced", "executed", "more"}
)

var answerKinds = map[string]answerKind{
	"error":        {},
	"created":      {},
	"session":      {},
	"opened":       {needs: []string{"id", "sym", "amount"}, parts: openedParts},
	"status":       {needs: []string{"id"}, parts: statusParts},
	"canceled":     {needs: []string{"id"}, parts: canceledOnes},
	"amended":      {needs: []string{"id"}, parts: openedParts},
	"canceled-all": {needs: []string{"count"}},
	"cancel-after": {needs: []string{"seconds"}},
	"account":      {needs: []string{"id", "balance", "held"}, parts: []string{"position"}},
	"orders":       {parts: []string{"order", "more"}},
	"fills":        {parts: []string{"fill", "more"}},
}

// parse fills a from an element of <results>. The error names what the element lacks or must not have.
func (a *Answer) parse(e *element, kind answerKind) error {
	if err := needsAttributes(e, kind.needs); err != nil {
		return err
	}
	a.Order.setFrom(e)
	for _, at := range e.attrs {
		switch rawName(at.Name) {
		case "id":
			a.ID = at.Value
		case "by":
			a.By = at.Value
		case "count":
			a.Count = at.Value
		case "seconds":
			a.Seconds = at.Value
		case "balance":
			a.Balance = at.Value
		case "held":
			a.Held = at.Value
		}
	}
	if e.name == "error" {
		a.Error = string(e.text)
		return nil
	}
	if !isBlank(e.text) {
		return fmt.Errorf("<%s> has no text in it", e.name)
	}
	for _, part := range e.children {
		if !slices.Contains(kind.parts, part.name) {
			if slices.Contains(statusParts, part.name) {
				return fmt.Errorf("<%s> is not allowed in <%s>", part.name, e.name)
			}
			continue
		}
		if err := a.parsePart(part); err != nil {
			return err
		}
	}
	if a.Open != "" && a.Canceled != "" {
		return fmt.Errorf("<canceled> is not allowed in <%s>", e.name)
	}
	return nil
}

// partNeeds lists the required attributes of each child element of an answer.
var partNeeds = map[string][]string{
	"open":     {"shares"},
	"canceled": {"shares", "time"},
	"replaced": {"id"},
	"reduced":  {"shares", "time"},
	"executed": {"shares", "price", "time"},
	"position": {"sym", "shares", "held"},
	"order":    {"id", "sym", "amount", "limit", "open", "time"},
	"fill":     {"n", "id", "sym", "side", "shares", "price", "time"},
}

// parsePart reads a child element of an answer. Only executions, positions, orders and fills may occur
// more than once.
func (a *Answer) parsePart(e *element) error {
	if err := needsAttributes(e, partNeeds[e.name]); err != nil {
		return err
	}
	if !isBlank(e.text) {
		return fmt.Errorf("<%s> has no text in it", e.name)
	}
	value := func(name string) string { v, _ := e.attr(name); return v }
	was := ""
	switch e.name {
	case "open":
		was, a.Open = a.Open, value("shares")
	case "canceled":
		was, a.Canceled, a.CanceledAt = a.Canceled, value("shares"), value("time")
	case "replaced":
		was, a.Replaced = a.Replaced, value("id")
	case "reduced":
		was, a.Reduced, a.ReducedAt = a.Reduced, value("shares"), value("time")
	case "executed":
		a.Executed = append(a.Executed, Executed{Shares: value("shares"), Price: value("price"), Time: value("time")})
	case "more":
		a.More, a.After = true, value("after")
	default:
		a.Parts = append(a.Parts, Part{Name: e.name, attrs: e.attrs})
	}
	if was != "" {
		return fmt.Errorf("<%s> is not allowed in <%s>", e.name, a.Kind)
	}
	return nil
}

// needsAttributes returns an error if an element lacks one of the named attributes.
func needsAttributes(e *element, names []string) error {
	for _, name := range names {
		if _, ok := e.attr(name); !ok {
			return errMissing(e, name)
		}
	}
	return nil
}
