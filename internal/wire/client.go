package wire

import (
	"encoding/xml"
	"errors"
	"fmt"
)

// Account is an account that a client asks to open. Values are sent as they are.
type Account struct{ ID, Balance string }

// Placement is a number of shares that a client asks to place with an account.
type Placement struct{ Account, Shares string }

// Create builds a <create> frame's XML. The zero value is an empty one.
type Create struct{ body []byte }

// Account adds an account to be opened.
func (c *Create) Account(a Account) *Create {
	c.body = append(c.body, "<account"...)
	c.body = appendAttr(c.body, "id", a.ID)
	c.body = appendAttr(c.body, "balance", a.Balance)
	c.body = append(c.body, "/>"...)
	return c
}

// Symbol adds a symbol to be made, and shares to be placed in it.
func (c *Create) Symbol(sym string, placements ...Placement) *Create {
	c.body = append(c.body, "<symbol"...)
	c.body = append(appendAttr(c.body, "sym", sym), '>')
	for _, p := range placements {
		c.body = append(c.body, "<account"...)
		c.body = append(appendAttr(c.body, "id", p.Account), '>')
		c.body = appendText(c.body, p.Shares)
		c.body = append(c.body, "</account>"...)
	}
	c.body = append(c.body, "</symbol>"...)
	return c
}

// Append appends the XML.
func (c *Create) Append(dst []byte) []byte {
	dst = append(dst, "<create>"...)
	dst = append(dst, c.body...)
	return append(dst, "</create>"...)
}

// Transactions builds a <transactions> frame's XML for one account.
type Transactions struct {
	account string
	body    []byte
}

// NewTransactions returns one without children.
func NewTransactions(account string) *Transactions { return &Transactions{account: account} }

// Order adds an order. A negative amount sells.
func (t *Transactions) Order(sym, amount, limit string) *Transactions {
	t.body = append(t.body, "<order"...)
	t.body = appendAttr(t.body, "sym", sym)
	t.body = appendAttr(t.body, "amount", amount)
	t.body = appendAttr(t.body, "limit", limit)
	t.body = append(t.body, "/>"...)
	return t
}

// Query adds a query of an order.
func (t *Transactions) Query(id string) *Transactions {
	t.body = append(t.body, "<query"...)
	t.body = append(appendAttr(t.body, "id", id), "/>"...)
	return t
}

// Cancel adds a cancel of an order.
func (t *Transactions) Cancel(id string) *Transactions {
	t.body = append(t.body, "<cancel"...)
	t.body = append(appendAttr(t.body, "id", id), "/>"...)
	return t
}

// Append appends the XML.
func (t *Transactions) Append(dst []byte) []byte {
	dst = append(dst, "<transactions"...)
	dst = append(appendAttr(dst, "id", t.account), '>')
	dst = append(dst, t.body...)
	return append(dst, "</transactions>"...)
}

// Answer is one element of a reply, with its values as they were sent.
type Answer struct {
	Kind                   string // "created", "opened", "status", "canceled" or "error"
	Sym, Amount, Limit, ID string
	Error                  string // the text of an error
	Open                   string // shares that are open, of a status
	Canceled, CanceledAt   string // shares that were canceled, and when
	Executed               []Executed
}

// Executed is one execution in an Answer.
type Executed struct{ Shares, Price, Time string }

// ParseReply reads a reply's XML. The error says that it is not one.
func ParseReply(reply []byte) ([]Answer, error) {
	root, err := parseDocument(reply)
	if err != nil {
		return nil, fmt.Errorf("wire: reply: %w", err)
	}
	if root.name != "results" {
		return nil, fmt.Errorf("wire: reply: the root is <%s> and not <results>", clip(root.name))
	}
	answers := make([]Answer, 0, len(root.children))
	for _, e := range root.children {
		a, err := parseAnswer(e)
		if err != nil {
			return nil, fmt.Errorf("wire: reply: %w", err)
		}
		answers = append(answers, a)
	}
	return answers, nil
}

func parseAnswer(e *element) (Answer, error) {
	a := Answer{Kind: e.name}
	err := readAttrs(e.attrs, map[string]*string{"sym": &a.Sym, "amount": &a.Amount, "limit": &a.Limit, "id": &a.ID})
	if err != nil {
		return a, err
	}
	switch e.name {
	case "error":
		a.Error = string(e.text)
		return a, noChildren(e)
	case "created", "opened":
		return a, noContent(e)
	case "status", "canceled":
	default:
		return a, fmt.Errorf("unknown element <%s>", clip(e.name))
	}
	for _, part := range e.children {
		switch part.name {
		case "open":
			err = readAttrs(part.attrs, map[string]*string{"shares": &a.Open})
		case "canceled":
			err = readAttrs(part.attrs, map[string]*string{"shares": &a.Canceled, "time": &a.CanceledAt})
		case "executed":
			var x Executed
			err = readAttrs(part.attrs, map[string]*string{"shares": &x.Shares, "price": &x.Price, "time": &x.Time})
			a.Executed = append(a.Executed, x)
		default:
			err = fmt.Errorf("unknown element <%s>", clip(part.name))
		}
		if err == nil {
			err = noContent(part)
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// readAttrs puts attributes where known says; any other is an error.
func readAttrs(attrs []xml.Attr, known map[string]*string) error {
	for _, attr := range attrs {
		to := known[rawName(attr.Name)]
		if to == nil {
			return errors.New("unknown attribute " + clip(rawName(attr.Name)))
		}
		*to = attr.Value
	}
	return nil
}
