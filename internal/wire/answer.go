package wire

import (
	"fmt"
	"math"
)

// Answer is one element of a reply, with its values as they were sent. Those that
// a kind does not have are "".
type Answer struct {
	// Kind is "created", "opened", "status", "canceled", "amended", "canceled-all", "cancel-after", "account",
	// "orders", "fills", "session" or "error".
	Kind                 string
	Order                // what it repeats; Sym and Ref of other requests too
	ID                   string
	Error                string     // the text of an error
	Open                 string     // shares that are open, of a status
	Canceled, CanceledAt string     // shares that were canceled, and when, in seconds since the Unix epoch
	Replaced             string     // the id of the order that has replaced it
	Reduced, ReducedAt   string     // shares that amends took off it in place, and when the newest did
	Executed             []Executed // oldest first
	Cut                  bool       // a report has further executions

	By, NewRef      string // of "amended": the order that has replaced it, and what it repeats
	Count           string // of "canceled-all": orders
	Seconds         string // of "cancel-after"
	Tick, Lot       string // of "created"
	Cancel, Timeout string // of "session"

	Balance, Held string // of "account", with Positions
	Positions     []PositionAnswer
	Orders        []OrderAnswer // of "orders"
	Fills         []FillAnswer  // of "fills"
	After         string        // of a list: after what the next page begins; "" if there is none
}

// Executed is one execution in an Answer: shares, dollars a share, and seconds
// since the Unix epoch.
type Executed struct{ Shares, Price, Time string }

// PositionAnswer is a position in an Answer: shares that are free, and that open sells hold.
type PositionAnswer struct{ Sym, Shares, Held string }

// OrderAnswer is an open order in an Answer: what of it a client has sent, its id, the shares that are open,
// and seconds since the Unix epoch.
type OrderAnswer struct {
	Order
	ID, Open, Time string
}

// FillAnswer is an execution in an Answer, as its account counts it.
type FillAnswer struct{ N, ID, Sym, Side, Shares, Price, Time string }

// ParseReply reads a reply's XML, of any size, into its answers in their order. It
// is strict: the error names the first thing that no reply has.
func ParseReply(reply []byte) ([]Answer, error) { return parseReply(reply, true) }

// ReadReply is ParseReply for clients: attributes and elements that it does not know mean nothing to it, so that
// it reads what a later exchange says.
func ReadReply(reply []byte) ([]Answer, error) { return parseReply(reply, false) }

func parseReply(reply []byte, strict bool) ([]Answer, error) {
	root, err := parseDocument(reply, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("wire: reply: %w", err)
	}
	if root.name != "results" || strict && (len(root.attrs) > 0 || !isBlank(root.text)) {
		return nil, fmt.Errorf("wire: reply: <%s> is not a <results> of answers", clip(root.name))
	}
	answers := make([]Answer, len(root.children))
	for i, e := range root.children {
		p := answerParser{Answer: &answers[i], strict: strict}
		if err := p.parse(e); err != nil {
			return nil, fmt.Errorf("wire: reply: answer %d: %w", i+1, err)
		}
	}
	return answers, nil
}

// answerParser reads one answer.
type answerParser struct {
	*Answer
	strict bool
	rank   int // of the last part of a status
}

// answerAttrs are the attributes that each kind of answer needs, and those that it may have besides.
var answerAttrs = map[string]struct{ needed, more []string }{
	"error":        {nil, repeatedNames[:]},
	"created":      {nil, []string{"sym", "id", "ref", "tick", "lot"}},
	"opened":       {[]string{"sym", "amount", "id"}, repeatedNames[:]},
	"status":       {[]string{"id"}, []string{"ref"}},
	"canceled":     {[]string{"id"}, []string{"ref"}},
	"amended":      {[]string{"id"}, []string{"ref", "by", "amount", "limit", "report", "newref"}},
	"canceled-all": {[]string{"count"}, []string{"sym"}},
	"cancel-after": {[]string{"seconds"}, nil},
	"account":      {[]string{"id", "balance", "held"}, nil},
	"orders":       {},
	"fills":        {},
	"session":      {[]string{"cancel"}, []string{"timeout"}},
}

// parse reads an element of <results>.
func (p *answerParser) parse(e *element) error {
	p.Kind = e.name
	attrs, known := answerAttrs[e.name]
	if !known {
		if p.strict {
			return fmt.Errorf("unknown element <%s>", clip(e.name))
		}
		return nil
	}
	p.take(e)
	err := p.attributes(e, attrs.needed, attrs.more...)
	if _, limited := e.attr("limit"); e.name == "opened" && p.Type == "" && !limited {
		err = first(err, errMissing(e, "limit"))
	}
	switch e.name {
	case "error":
		p.Error = string(e.text)
		return first(err, p.empty(e, false))
	case "status", "canceled", "amended", "opened":
		if e.name == "opened" && p.Report == "" {
			break
		}
		return first(err, p.children(e, p.parsePart))
	case "account", "orders", "fills":
		return first(err, p.children(e, p.parseRow))
	}
	return first(err, p.empty(e, true))
}

// take takes the attributes of an answer.
func (p *answerParser) take(e *element) {
	p.Order.take(e)
	for name, to := range map[string]*string{"id": &p.ID, "by": &p.By, "newref": &p.NewRef, "count": &p.Count,
		"seconds": &p.Seconds, "tick": &p.Tick, "lot": &p.Lot, "cancel": &p.Cancel, "timeout": &p.Timeout,
		"balance": &p.Balance, "held": &p.Held} {
		*to, _ = e.attr(name)
	}
}

// children reads the elements in e.
func (p *answerParser) children(e *element, parse func(*element) error) error {
	for _, child := range e.children {
		if err := parse(child); err != nil {
			return err
		}
	}
	return nil
}

// The parts of a status stand in the order of their ranks.
const (
	rankState = 1 + iota // open or canceled
	rankReplaced
	rankReduced
	rankExecuted
	rankMore
)

// ranks are the ranks of the parts that each kind of answer has.
var ranks = map[string]map[string]int{
	"status": {"open": rankState, "canceled": rankState, "replaced": rankReplaced, "reduced": rankReduced,
		"executed": rankExecuted},
	"canceled": {"canceled": rankState, "replaced": rankReplaced, "reduced": rankReduced, "executed": rankExecuted},
	"opened":   {"open": rankState, "canceled": rankState, "executed": rankExecuted, "more": rankMore},
	"amended": {"open": rankState, "canceled": rankState, "reduced": rankReduced, "executed": rankExecuted,
		"more": rankMore},
}

// parsePart reads a part of what has become of an order.
func (p *answerParser) parsePart(e *element) (err error) {
	rank := ranks[p.Kind][e.name]
	if rank == 0 && !p.strict {
		return nil
	}
	if p.strict && (rank == 0 || rank < p.rank || rank == p.rank && rank != rankExecuted) {
		return fmt.Errorf("<%s> stands where <%s> has none", clip(e.name), p.Kind)
	}
	p.rank = rank
	switch e.name {
	case "executed":
		var x Executed
		err = p.values(e, value{"shares", &x.Shares}, value{"price", &x.Price}, value{"time", &x.Time})
		p.Executed = append(p.Executed, x)
	case "canceled":
		err = p.values(e, value{"shares", &p.Canceled}, value{"time", &p.CanceledAt})
	case "reduced":
		err = p.values(e, value{"shares", &p.Reduced}, value{"time", &p.ReducedAt})
	case "replaced":
		err = p.values(e, value{"id", &p.Replaced})
	case "open":
		err = p.values(e, value{"shares", &p.Open})
	case "more":
		p.Cut = true
		err = p.values(e)
	}
	return err
}

// parseRow reads an element of what an account sees of itself.
func (p *answerParser) parseRow(e *element) error {
	if p.strict && p.After != "" {
		return fmt.Errorf("<%s> stands behind <more>", clip(e.name))
	}
	switch p.Kind + " " + e.name {
	case "account position":
		p.Positions = append(p.Positions, PositionAnswer{})
		x := &p.Positions[len(p.Positions)-1]
		return p.values(e, value{"sym", &x.Sym}, value{"shares", &x.Shares}, value{"held", &x.Held})
	case "orders order":
		var x OrderAnswer
		x.take(e)
		x.ID, _ = e.attr("id")
		x.Open, _ = e.attr("open")
		x.Time, _ = e.attr("time")
		p.Orders = append(p.Orders, x)
		return first(p.attributes(e, []string{"id", "sym", "amount", "limit", "open", "time"}, "post", "stp", "cod"),
			p.empty(e, true))
	case "fills fill":
		p.Fills = append(p.Fills, FillAnswer{})
		x := &p.Fills[len(p.Fills)-1]
		return p.values(e, value{"n", &x.N}, value{"id", &x.ID}, value{"sym", &x.Sym}, value{"side", &x.Side},
			value{"shares", &x.Shares}, value{"price", &x.Price}, value{"time", &x.Time})
	case "orders more", "fills more":
		return p.values(e, value{"after", &p.After})
	}
	if p.strict {
		return fmt.Errorf("<%s> stands where <%s> has none", clip(e.name), p.Kind)
	}
	return nil
}

// value is an attribute, and where its value goes.
type value struct {
	name string
	to   *string
}

// values reads an element that has just those attributes, and nothing in it.
func (p *answerParser) values(e *element, values ...value) error {
	needed := make([]string, len(values))
	for i, v := range values {
		*v.to, _ = e.attr(v.name)
		needed[i] = v.name
	}
	return first(p.attributes(e, needed), p.empty(e, true))
}

// attributes returns an error if an element lacks an attribute that it needs, or has another one.
func (p *answerParser) attributes(e *element, needed []string, more ...string) error {
	for _, name := range needed {
		if _, ok := e.attr(name); !ok {
			return errMissing(e, name)
		}
	}
	if !p.strict {
		return nil
	}
	return onlyAttributes(e, append(more[:len(more):len(more)], needed...)...)
}

// empty returns an error if an element has elements in it, or text where it has none.
func (p *answerParser) empty(e *element, textless bool) error {
	switch {
	case !p.strict:
		return nil
	case textless:
		return noContent(e)
	}
	return noChildren(e)
}
