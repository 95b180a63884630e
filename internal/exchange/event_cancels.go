package exchange

import (
	"cmp"
	"encoding/binary"
	"fmt"
)

// Cancel is one order of an OrdersCanceled event: all that was open of it is taken
// back.
type Cancel struct {
	Order  OrderID
	Symbol Symbol
	Terms
	Shares Shares // taken back
}

// Compare orders cancels as an event has them: by symbol, then by order.
func (c *Cancel) Compare(d *Cancel) int {
	return cmp.Or(cmp.Compare(c.Symbol, d.Symbol), cmp.Compare(c.Order, d.Order))
}

// Cancel returns the event that the i-th cancel of an OrdersCanceled event would be
// by itself: it has the same effect.
func (e *Event) Cancel(i int) Event {
	c := &e.Cancels[i]
	return Event{Kind: OrderCanceled, Time: e.Time, Account: e.Account,
		Symbol: c.Symbol, Order: c.Order, Terms: c.Terms, Shares: c.Shares}
}

func appendCancels(dst []byte, cancels []Cancel) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(cancels)))
	for i := range cancels {
		c := &cancels[i]
		dst = binary.AppendUvarint(dst, uint64(c.Order))
		dst = appendTerms(appendString(dst, c.Symbol), &c.Terms, c.Shares)
	}
	return dst
}

// cancelBytesMin is the least that an encoded cancel takes: it bounds how many of
// them a record of a given length can claim to have.
const cancelBytesMin = 6

// cancels reads what appendCancels wrote.
func (r *eventReader) cancels() []Cancel {
	n := r.uvarint()
	if n > uint64(len(r.rest))/cancelBytesMin {
		r.short = true
		return nil
	}
	if n == 0 {
		return nil
	}
	all := make([]Cancel, n)
	for i := range all {
		c := &all[i]
		c.Order, c.Symbol = OrderID(r.uvarint()), Symbol(r.string())
		r.terms(&c.Terms, &c.Shares)
	}
	return all
}

// checkCancels is Check for the cancels of an event: there is one at the least, unless the dead man's
// switch of an account without open orders has passed, and they are in order, so that no order is there twice.
func (e *Event) checkCancels() error {
	if len(e.Cancels) == 0 && e.Cause != BySwitch {
		return fmt.Errorf("%w: %s of no order of account %s", ErrEvent, e.Kind, e.Account)
	}
	for i := range e.Cancels {
		c := &e.Cancels[i]
		if _, err := ParseSymbol(string(c.Symbol)); err != nil {
			return fmt.Errorf("%w: %s: order %d: %w", ErrEvent, e.Kind, c.Order, err)
		}
		one := e.Cancel(i)
		if err := one.checkNumbers(); err != nil {
			return err
		}
		if i > 0 && e.Cancels[i-1].Compare(c) >= 0 {
			return fmt.Errorf("%w: %s: order %d of %s is out of its order", ErrEvent, e.Kind, c.Order, c.Symbol)
		}
	}
	return nil
}
