package wire

import (
	"errors"
	"fmt"
	"strconv"

	"outcry/internal/exchange"
)

// Order holds the attributes of an <order> as sent, valid or not. An absent optional attribute is "".
type Order struct{ Sym, Amount, Limit, Type, TIF, Post, STP, COD, Report, Ref string }

// orderAttribute describes an attribute of an <order>: its name, its field in an Order, and how its value
// is read into a command. The error of read names the value.
type orderAttribute struct {
	name     string
	optional bool
	of       func(o *Order) *string
	read     func(c *exchange.Command, value string) error
}

// orderAttributes are all attributes of an <order>, in the order in which they are read and written.
var orderAttributes = [...]orderAttribute{
	{name: "sym", of: func(o *Order) *string { return &o.Sym },
		read: func(c *exchange.Command, v string) (err error) { c.Symbol, err = exchange.ParseSymbol(v); return err }},
	{name: "amount", of: func(o *Order) *string { return &o.Amount }, read: readAmount},
	{name: "limit", optional: true, of: func(o *Order) *string { return &o.Limit }, read: readLimit},
	{name: "type", optional: true, of: func(o *Order) *string { return &o.Type },
		read: func(c *exchange.Command, v string) (err error) { c.Type, err = exchange.ParseOrderType(v); return err }},
	{name: "tif", optional: true, of: func(o *Order) *string { return &o.TIF },
		read: func(c *exchange.Command, v string) (err error) { c.TIF, err = exchange.ParseTimeInForce(v); return err }},
	{name: "post", optional: true, of: func(o *Order) *string { return &o.Post },
		read: func(c *exchange.Command, v string) (err error) {
			c.Post, err = exchange.ParseYes("post", v)
			return err
		}},
	{name: "stp", optional: true, of: func(o *Order) *string { return &o.STP },
		read: func(c *exchange.Command, v string) (err error) { c.STP, err = exchange.ParseSelfTrade(v); return err }},
	{name: "cod", optional: true, of: func(o *Order) *string { return &o.COD },
		read: func(c *exchange.Command, v string) (err error) {
			c.OnDisconnect, err = exchange.ParseYes("cod", v)
			return err
		}},
	{name: "report", optional: true, of: func(o *Order) *string { return &o.Report }, read: readReport},
	{name: "ref", optional: true, of: func(o *Order) *string { return &o.Ref },
		read: func(c *exchange.Command, v string) (err error) { c.Ref, err = exchange.ParseRef(v); return err }},
}

func readAmount(c *exchange.Command, v string) (err error) {
	c.Side, c.Shares, err = exchange.ParseAmount(v)
	return err
}

func readLimit(c *exchange.Command, v string) (err error) {
	c.Limit, err = exchange.ParseLimit(v)
	return err
}

// full is the only valid value of the attribute report.
const full = "full"

func readReport(c *exchange.Command, v string) error {
	c.Report = v == full
	if !c.Report {
		return fmt.Errorf("report %s is not %s", strconv.Quote(clip(v)), full)
	}
	return nil
}

// orderNames are the names of all attributes of an <order>.
var orderNames = func() (all []string) {
	for _, a := range orderAttributes {
		all = append(all, a.name)
	}
	return all
}()

// decodeOrder reads an <order> into c.
func (r *Request) decodeOrder(e *element, c *exchange.Command) error {
	c.Kind, c.OnDisconnect = exchange.PlaceOrder, r.onDisconnect
	if err := first(onlyAttributes(e, orderNames...), noContent(e)); err != nil {
		return err
	}
	_, typed := e.attr("type") // an order with a type needs no limit here
	for i := range orderAttributes {
		a := &orderAttributes[i]
		value, has := e.attr(a.name)
		switch {
		case has:
			if err := a.read(c, value); err != nil {
				return err
			}
		case !a.optional || a.name == "limit" && !typed:
			return errMissing(e, a.name)
		}
	}
	return r.checkTerms(e, c)
}

// checkTerms returns an error if attributes of an <order> that are valid by themselves contradict each
// other. A market order without tif becomes an IOC.
func (r *Request) checkTerms(e *element, c *exchange.Command) error {
	_, timed := e.attr("tif")
	market := c.Type == exchange.Market
	if market && !timed {
		c.TIF = exchange.IOC
	}
	switch {
	case market && c.TIF == exchange.GTC:
		return errors.New("a market order is IOC or FOK, not GTC")
	case market && c.Post:
		return errors.New("a market order cannot be a post")
	case c.Post && c.TIF != exchange.GTC:
		return fmt.Errorf("a post rests, so it cannot be %s", c.TIF)
	case c.OnDisconnect && r.Connectionless:
		return errors.New("cod concerns a connection, and requests over HTTP have none")
	}
	return nil
}

// acceptsInOrder reports whether the value is valid for the named attribute of an <order>.
func acceptsInOrder(name, value string) bool {
	for i := range orderAttributes {
		if a := &orderAttributes[i]; a.name == name {
			return a.read(new(exchange.Command), value) == nil
		}
	}
	return false
}

// Place adds an order with the given attributes, and returns t.
func (t *Transactions) Place(o Order) *Transactions {
	t.body = append(t.body, "<order"...)
	for i := range orderAttributes {
		a := &orderAttributes[i]
		if value := *a.of(&o); value != "" || !a.optional || a.name == "limit" && o.Type == "" {
			t.body = appendAttr(t.body, a.name, value)
		}
	}
	t.body = append(t.body, "/>"...)
	return t
}

// setFrom sets the fields of o from the attributes that an answer repeats.
func (o *Order) setFrom(e *element) {
	for i := range orderAttributes {
		a := &orderAttributes[i]
		*a.of(o), _ = e.attr(a.name)
	}
}
