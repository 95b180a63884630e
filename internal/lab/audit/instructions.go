package audit

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// instructions are an order's attributes other than its amount, limit and ref, as the client sends them.
type instructions struct{ kind, tif, post, stp, cod, report string }

// drawn returns random instructions; half of the time none.
func drawn(r *rand.Rand) (i instructions) {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	if r.IntN(2) == 0 {
		return i
	}
	switch r.IntN(6) {
	case 0:
		i.kind, i.tif = "market", pick("", "IOC", "FOK")
	case 1, 2:
		i.tif = pick("IOC", "FOK")
	case 3:
		i.post = "yes"
	}
	i.stp, i.cod, i.report = pick("", "", "newest", "oldest", "both"), pick("", "", "yes", "no"), pick("", "full")
	return i
}

// inEffect returns the instructions as the tables show them: absent ones have their defaults, and report
// is left out.
func (i instructions) inEffect() instructions {
	if i.tif == "" {
		i.tif = "GTC"
		if i.kind == "market" {
			i.tif = "IOC"
		}
	}
	if i.cod == "no" {
		i.cod = ""
	}
	i.report = ""
	return i
}

// mayRest reports whether the unexecuted shares of an order stay open.
func (i instructions) mayRest() bool { return i.tif != "IOC" && i.tif != "FOK" }

// element returns the order as it is sent, and as its answer repeats it.
func (o *sentOrder) element() wire.Order {
	i := o.instructions
	return wire.Order{Sym: o.sym, Amount: decimal(o.amount), Limit: limitOf(o.limit), Type: i.kind, TIF: i.tif,
		Post: i.post, STP: i.stp, COD: i.cod, Report: i.report, Ref: o.ref}
}

// limitOf returns a limit as it is sent, or "" for 0.
func limitOf(limit int64) string {
	if limit == 0 {
		return ""
	}
	return decimal(limit)
}

// add adds the order or amend to a frame.
func (o *sentOrder) add(t *wire.Transactions) {
	if !o.amends() {
		t.Place(o.element())
		return
	}
	t.Element("amend", wire.Attr{Name: "id", Value: fmt.Sprint(o.old)},
		wire.Attr{Name: "amount", Value: decimal(o.amount)},
		wire.Attr{Name: "limit", Value: limitOf(o.limit)}, wire.Attr{Name: "report", Value: o.instructions.report},
		wire.Attr{Name: "newref", Value: o.ref})
}

// amends reports whether o is an amend. The amount of an amend is the new total, with a serial number;
// its limit is the new limit or 0; its ref is the newref.
func (o *sentOrder) amends() bool { return o.old > 0 }

// amend records a new amend of one of this client's orders before it is sent.
func (c *client) amend(of own) *sentOrder {
	amount := int64(1 + c.r.IntN(2*sharesMax))
	if of.sells {
		amount = -amount
	}
	limit := int64(0)
	if c.r.IntN(2) == 0 {
		limit = c.limit()
	}
	o := c.history.order(of.account, "", amount, limit)
	o.old = of.id
	if c.r.IntN(2) == 0 {
		o.instructions.report = "full"
	}
	if c.r.IntN(2) == 0 {
		o.give()
	}
	return o
}

// mayRefuse reports whether text is an expected error for this order or amend.
func (o *sentOrder) mayRefuse(text string) bool {
	i := o.instructions
	switch {
	case rejectedFor(text, exchange.InsufficientFunds, exchange.InsufficientShares):
		return true
	case rejectedFor(text, exchange.RefUnavailable, exchange.HistoryUnavailable):
		return o.ref != "" || o.amends()
	case rejectedFor(text, exchange.WouldExecute):
		return i.post == "yes" || o.amends()
	case rejectedFor(text, exchange.CannotFill):
		return i.tif == "FOK"
	case rejectedFor(text, exchange.NobodyOpposite), strings.HasPrefix(text, "nobody "): // the text of older versions
		return i.kind == "market"
	}
	return o.amends() && rejectedFor(text, exchange.AlreadyExecuted, exchange.AlreadyCanceled, exchange.AmountExecuted)
}

// recordAmend records the first successful answer to an amend.
func (h *knowledge) recordAmend(o *sentOrder, a *wire.Answer) {
	if number(a.ID) != o.old || a.Amount != decimal(o.amount) || a.Limit != limitOf(o.limit) {
		h.complainLocked("amend %+v is answered with %+v", *o, *a)
	}
	o.fate, o.id, o.reduced = answered, number(a.By), a.Reduced
	h.counts.Amended++
	if o.id > 0 {
		h.recordID(o)
		return
	}
	if a.Reduced == "" || a.Open == "" {
		h.complainLocked("amend %+v changed nothing: %+v", *o, *a)
	}
}

// matchAmend checks that an amend in the tables was sent and not rejected. An amend that replaced its
// order is matched with the new order.
func (h *knowledge) matchAmend(a *amendRow) error {
	if h.bulk.accounts[a.account] {
		return nil
	}
	s := h.orders[serial(a.amount)]
	switch {
	case s == nil || !s.amends() || s.old != a.about || abs(s.amount) != a.amount || s.limit != a.limit:
		return fmt.Errorf("amend %+v is in the tables, but was never sent like this, or appears a second time: %+v", *a, s)
	case s.fate == refused || s.fate == cutOff:
		return fmt.Errorf("amend %+v is in the tables, but was refused, or its frame was never complete", *a)
	case s.done:
		return fmt.Errorf("amend %+v appears a second time", *a)
	case s.fate == answered && a.replaces && s.id != a.order:
		return fmt.Errorf("amend %+v was answered with order %d", *a, s.id)
	case s.fate == answered && !a.replaces && s.reduced != decimal(a.reduced):
		return fmt.Errorf("amend %+v was answered with a reduction of %q", *a, s.reduced)
	}
	if s.fate == sent {
		h.counts.UnknownHappened++
	}
	s.done = true
	return nil
}
