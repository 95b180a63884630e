package exchange

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Terms is what a client specifies for an order and what never changes afterwards. Commands, orders,
// records, refs, snapshots and database rows embed and copy it as a whole, so that a new
// field needs new code only here.
//
// Its methods have pointer receivers, so that a call does not copy the order that embeds it.
type Terms struct {
	Side  Side
	TIF   TimeInForce
	Post  bool // post only: the order is rejected if it would execute at once
	Type  OrderType
	STP   SelfTrade // in effect: as sent, or the account's default
	Limit Price     // for a Market order the protection price
}

// packed is Terms without the limit, in the byte that records, books and digests use:
// from the lowest bit, two bits of side, two of tif, one of post, one of type, two of stp.
type packed uint8

// Bit offsets in packed; the side is at 0.
const (
	packedTIF  = 2
	packedPost = 4
	packedType = 5
	packedSTP  = 6
)

// pack returns t without its limit, packed.
func (t *Terms) pack() packed {
	p := packed(t.Side) | packed(t.TIF)<<packedTIF | packed(t.Type)<<packedType | packed(t.STP)<<packedSTP
	if t.Post {
		p |= 1 << packedPost
	}
	return p
}

// terms returns the Terms that were packed into p, with a limit. If pack cannot have returned p,
// the result fails check.
func (p packed) terms(limit Price) (t Terms) {
	p.unpack(&t, limit)
	return t
}

// unpack sets t to the result of terms.
func (p packed) unpack(t *Terms, limit Price) {
	t.Side, t.TIF, t.Post = p.side(), TimeInForce(p>>packedTIF&3), p>>packedPost&1 != 0
	t.Type, t.STP, t.Limit = OrderType(p>>packedType&1), SelfTrade(p>>packedSTP), limit
}

// side returns only the side.
func (p packed) side() Side { return Side(p & 3) }

// words returns t in words, for errors.
func (t *Terms) words() string {
	return fmt.Sprintf("%s at %s, type %s, tif %s, post %t, stp %s", t.Side, t.Limit, t.Type, t.TIF, t.Post, t.STP)
}

// marketBuy reports whether this is a market buy. A market buy holds exactly what its fills cost.
func (t *Terms) marketBuy() bool { return t.Type == Market && t.Side == Buy }

// plain reports whether an order has no instructions. Programs of every version can read its records.
func (t *Terms) plain() bool { return uint8(t.TIF)|uint8(t.Type)|uint8(t.STP) == 0 && !t.Post }

// mayRest reports whether the remainder of such an order may stay in the book.
func (t *Terms) mayRest() bool { return t.TIF == GTC }

// check reports whether the terms are valid.
func (t *Terms) check() bool {
	return (t.Side == Buy || t.Side == Sell) && validOrderUnits(int64(t.Limit)) && t.TIF <= FOK && t.STP <= CancelBoth &&
		!(t.Type == Market && t.TIF == GTC) && !(t.Post && t.TIF != GTC)
}

// Text returns an order of `shares` shares of a symbol in words, such as
// "buy 100 SPY at 145.67".
func (t *Terms) Text(shares Shares, sym Symbol) string {
	return fmt.Sprintf("%s %s %s at %s", t.Side, shares, sym, t.Limit)
}

// appendTerms appends the encoded terms and shares of an order; in a record they follow the names.
func appendTerms(dst []byte, t *Terms, shares Shares) []byte {
	dst = binary.AppendUvarint(append(dst, byte(t.pack())), uint64(shares))
	return binary.AppendUvarint(dst, uint64(t.Limit))
}

// terms reads what appendTerms wrote.
func (r *eventReader) terms(t *Terms, shares *Shares) {
	p := packed(r.byte())
	*shares = Shares(r.uvarint())
	p.unpack(t, Price(r.uvarint()))
}

// Note sets e to the record of what o did in a symbol, without a ref and fills. The comment of
// the event kind says what shares are.
func (e *Event) Note(kind EventKind, o *Order, sym Symbol, shares Shares, now int64) {
	*e = Event{} // in place: a literal with values of o would be built elsewhere and copied
	e.Kind, e.Time, e.Account, e.Symbol = kind, now, o.Account.ID, sym
	e.Order, e.Terms, e.Shares = o.ID, o.Terms, shares
}

// Open returns the open shares of the order after e, an OrderAccepted, OrderReplaced or OrderContinued.
func (e *Event) Open() Shares {
	open := e.Shares - e.Rest
	for i := range e.Fills {
		open -= e.Fills[i].Shares
	}
	return open
}

func appendOrder(dst []byte, e *Event) []byte {
	dst = binary.AppendUvarint(dst, uint64(e.Order))
	dst = appendString(dst, e.Account)
	dst = appendString(dst, e.Symbol)
	return appendTerms(dst, &e.Terms, e.Shares)
}

func appendFills(dst []byte, fills []Fill) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(fills)))
	for i := range fills {
		f := &fills[i]
		dst = binary.AppendUvarint(dst, uint64(f.Resting))
		dst = appendString(dst, f.Account)
		dst = binary.AppendUvarint(dst, uint64(f.Shares))
		dst = binary.AppendUvarint(dst, uint64(f.Price))
	}
	return dst
}

// fills reads what appendFills wrote.
func (r *eventReader) fills(e *Event) {
	n := r.uvarint()
	if n > uint64(len(r.rest))/fillBytesMin {
		r.short = true
		return
	}
	for range n {
		e.Fills = append(e.Fills, Fill{Resting: OrderID(r.uvarint()), Account: AccountID(r.string()),
			Shares: Shares(r.uvarint()), Price: Price(r.uvarint())})
	}
}

// count reads a number of fills.
func (r *eventReader) count() int { return int(min(r.uvarint(), math.MaxInt32)) }

func (r *eventReader) order(e *Event) {
	e.Order = OrderID(r.uvarint())
	e.Account, e.Symbol = AccountID(r.string()), Symbol(r.string())
	r.orderTerms(e)
}

// orderTerms reads what appendOrder wrote after the names.
func (r *eventReader) orderTerms(e *Event) { r.terms(&e.Terms, &e.Shares) }

// checkOrder is Check for events of orders, except the account and the symbol of the event.
func (e *Event) checkOrder() error {
	for _, f := range e.Fills {
		if _, err := ParseAccountID(string(f.Account)); err != nil {
			return fmt.Errorf("%w: order %d: fill with order %d: %w", ErrEvent, e.Order, f.Resting, err)
		}
	}
	return e.checkNumbers()
}

// checkNumbers is checkOrder without the accounts of the fills.
func (e *Event) checkNumbers() error {
	if e.Order == 0 || e.Order > orderIDMax || !e.Terms.check() || !validOrderUnits(int64(e.Shares)) {
		return fmt.Errorf("%w: order %d: %s %s at %s", ErrEvent, e.Order, e.Side, e.Shares, e.Limit)
	}
	if e.Kind == OrderContinued && !e.checkContinued() {
		return fmt.Errorf("%w: order %d: a part of %d fills after %d", ErrEvent, e.Order, len(e.Fills), e.Before)
	}
	left := e.Shares
	for i := range e.Fills {
		f := &e.Fills[i]
		if f.Resting == 0 || f.Resting >= e.Order || f.Shares <= 0 || f.Shares > left || !validOrderUnits(int64(f.Price)) {
			return fmt.Errorf("%w: order %d: fill of %s at %s with order %d", ErrEvent, e.Order, f.Shares, f.Price, f.Resting)
		}
		left -= f.Shares
	}
	if e.Kind == OrderCanceled {
		return nil
	}
	return e.checkMore(left)
}

// checkContinued reports whether e is valid as a further part of an order: it does something, and follows
// another part that did something.
func (e *Event) checkContinued() bool {
	begun := e.Before > 0 || e.Before == 0 && e.STP == CancelOldest // it may only have canceled own orders
	return begun && e.Before < math.MaxInt32 && (len(e.Fills) > 0 || len(e.Own) > 0 || e.Rest > 0)
}

// validOrderUnits reports whether units is valid as the shares or the limit of an order.
func validOrderUnits(units int64) bool { return 0 < units && units < orderUnitsMax }
