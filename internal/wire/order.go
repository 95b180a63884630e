package wire

import "outcry/internal/exchange"

// Order holds the attributes of an <order>, as a client sends them and a reply repeats
// them, right or wrong. "" is an optional one that is absent.
type Order struct{ Sym, Amount, Limit, Ref string }

// orderAttribute is an attribute of an <order>: how it is called, where an Order has it, and
// how a request's value becomes part of a command. The error of read names the value.
type orderAttribute struct {
	name     string
	optional bool
	of       func(o *Order) *string
	read     func(c *exchange.Command, value string) error
}

// orderAttributes are all of them, in the order in which they are read and written.
var orderAttributes = [...]orderAttribute{
	{name: "sym", of: func(o *Order) *string { return &o.Sym },
		read: func(c *exchange.Command, v string) (err error) { c.Symbol, err = exchange.ParseSymbol(v); return err }},
	{name: "amount", of: func(o *Order) *string { return &o.Amount },
		read: func(c *exchange.Command, v string) (err error) {
			c.Side, c.Shares, err = exchange.ParseAmount(v)
			return err
		}},
	{name: "limit", of: func(o *Order) *string { return &o.Limit },
		read: func(c *exchange.Command, v string) (err error) { c.Limit, err = exchange.ParseLimit(v); return err }},
	{name: "ref", optional: true, of: func(o *Order) *string { return &o.Ref },
		read: func(c *exchange.Command, v string) (err error) { c.Ref, err = exchange.ParseRef(v); return err }},
}

// repeatedNames are the attributes that a reply repeats, of any element, in their order.
var repeatedNames = [...]string{"sym", "amount", "limit", "id", "ref"}

// orderNames are the names of an <order>'s attributes, and neededNames those that it must have.
var orderNames, neededNames = func() (all, needed []string) {
	for _, a := range orderAttributes {
		if all = append(all, a.name); !a.optional {
			needed = append(needed, a.name)
		}
	}
	return all, needed
}()

// decodeOrder reads an <order>.
func decodeOrder(e *element, c *exchange.Command) error {
	c.Kind = exchange.PlaceOrder
	if err := first(onlyAttributes(e, orderNames...), noContent(e)); err != nil {
		return err
	}
	for i := range orderAttributes {
		a := &orderAttributes[i]
		value, has := e.attr(a.name)
		switch {
		case has:
			if err := a.read(c, value); err != nil {
				return err
			}
		case !a.optional:
			return errMissing(e, a.name)
		}
	}
	return nil
}

// takesInOrder reports whether an <order> may have such a value.
func takesInOrder(name, value string) bool {
	for i := range orderAttributes {
		if a := &orderAttributes[i]; a.name == name {
			return a.read(new(exchange.Command), value) == nil
		}
	}
	return false
}

// Place adds an order, and returns t.
func (t *Transactions) Place(o Order) *Transactions {
	t.body = append(t.body, "<order"...)
	for i := range orderAttributes {
		if a := &orderAttributes[i]; !a.optional || *a.of(&o) != "" {
			t.body = appendAttr(t.body, a.name, *a.of(&o))
		}
	}
	t.body = append(t.body, "/>"...)
	return t
}

// take takes what an answer repeats of an order.
func (o *Order) take(e *element) {
	for i := range orderAttributes {
		a := &orderAttributes[i]
		*a.of(o), _ = e.attr(a.name)
	}
}
