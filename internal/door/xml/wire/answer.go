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
	// Kind is "created", "opened", "status", "canceled", "error", "amended", "canceled-all",
	// "cancel-after", "account", "orders", "fills" or "session".
	Kind                 string
	Order                           // what it repeats; Sym and Ref of other requests too
	ID                   string     // of an amended the order as it was named
	By                   string     // of an amended: the order that replaced it
	Error                string     // the text of an error
	Open                 string     // shares that are open, of a status
	Canceled, CanceledAt string     // shares that were canceled, and when, in seconds since the Unix epoch
	Replaced             string     // the order that replaced it, of a status
	Reduced, ReducedAt   string     // shares that amends took off in place, and when, of a status or an amended
	Executed             []Executed // oldest first
	Count, Seconds       string     // of a canceled-all, and of a cancel-after
	Balance, Held        string     // of an account
	Parts                []Part     // of an account, an orders or a fills: its positions, orders or fills
	More                 bool       // there are further executions, orders or fills than those
	After                string     // of an orders or a fills with More: after what to ask for the next
}

// Executed is one execution in an Answer: shares, dollars a share, and seconds
// since the Unix epoch.
type Executed struct{ Shares, Price, Time string }

// Part is one of the elements in the view of an account.
type Part struct {
	Name  string // "position", "order" or "fill"
	attrs []xml.Attr
}

// Get returns the value of an attribute, "" if it is absent.
func (p *Part) Get(name string) string {
	value, _ := (&element{attrs: p.attrs}).attr(name)
	return value
}

// ParseReply reads a reply's XML, of any size, into its answers in their order. The error
// names the first thing that a reply must have and this one has not. Attributes and elements
// that it does not know are ignored: an exchange that is newer may tell more.
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

// answerKind is what an element of <results> must have, and may have in it.
type answerKind struct {
	needs []string // attributes
	parts []string // elements
}

// Elements that tell what has become of an order.
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

// parse reads an element of <results>.
func (a *Answer) parse(e *element, kind answerKind) error {
	if err := needsAttributes(e, kind.needs); err != nil {
		return err
	}
	a.Order.take(e)
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
				return fmt.Errorf("<%s> stands where <%s> has none", part.name, e.name)
			}
			continue
		}
		if err := a.parsePart(part); err != nil {
			return err
		}
	}
	if a.Open != "" && a.Canceled != "" {
		return fmt.Errorf("<canceled> stands where <%s> has none", e.name)
	}
	return nil
}

// partNeeds are the attributes that a part of an answer must have.
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

// parsePart reads an element in an answer. Only executions, positions, orders and fills may be
// there more than once.
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
		return fmt.Errorf("<%s> stands where <%s> has none", e.name, a.Kind)
	}
	return nil
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
