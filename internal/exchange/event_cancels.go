package exchange

import (
	"cmp"
	"encoding/binary"
	"fmt"
)

// Cancel is one order canceled by an OrdersCanceled event, with all of its open
// shares.
type Cancel struct {
	Order  OrderID
	Symbol Symbol
	Terms
	Shares Shares // shares canceled
}

// Compare defines the order of an event's cancels: by symbol, then by order id.
func (c *Cancel) Compare(d *Cancel) int {
	return cmp.Or(cmp.Compare(c.Symbol, d.Symbol), cmp.Compare(c.Order, d.Order))
}

// Cancel returns an OrderCanceled event with the same effect as the i-th cancel of e, an
// OrdersCanceled event.
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

// cancelBytesMin is the minimum encoded size of a cancel: it limits how many of them a
// record of a given length can claim to have.
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

// checkCancels is Check for the cancels of an event. There must be at least one, unless a dead man's
// switch fired for an account without open orders, and they must be sorted without duplicates.
func (e *Event) checkCancels() error {
	if len(e.Cancels) == 0 && e.Cause != BySwitch {
		return fmt.Errorf("%w: %s without orders, of account %s", ErrEvent, e.Kind, e.Account)
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
			return fmt.Errorf("%w: %s: order %d of %s is out of order", ErrEvent, e.Kind, c.Order, c.Symbol)
		}
	}
	return nil
}
