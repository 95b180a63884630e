package exchange

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Terms is what a client says of an order that stays as it is for as long as the order is
// known. A command, an order, a record, a ref, a snapshot and a row have it as a whole and
// hand it on as a whole, so that a new field needs no code on the way: only here.
//
// Its methods have a pointer, so that an order on its way is not copied for them.
type Terms struct {
	Side  Side
	TIF   TimeInForce
	Post  bool // it is refused where it would execute at once
	Type  OrderType
	STP   SelfTrade // in effect: as sent, or the account's default
	Limit Price     // of a Market order the protection price
}

// packed is Terms except the limit, in the byte that records, books and digests have of it:
// from the lowest bit on two bits of side, two of tif, one of post, one of type, two of stp.
type packed uint8

// Where packed has what.
const (
	packedTIF  = 2
	packedPost = 4
	packedType = 5
	packedSTP  = 6
)

// pack returns what is not the limit.
func (t *Terms) pack() packed {
	p := packed(t.Side) | packed(t.TIF)<<packedTIF | packed(t.Type)<<packedType | packed(t.STP)<<packedSTP
	if t.Post {
		p |= 1 << packedPost
	}
	return p
}

// terms returns what pack was called for, with its limit. A byte that pack does not return
// becomes Terms that fail check.
func (p packed) terms(limit Price) (t Terms) {
	p.unpack(&t, limit)
	return t
}

// unpack makes t what terms returns.
func (p packed) unpack(t *Terms, limit Price) {
	t.Side, t.TIF, t.Post = p.side(), TimeInForce(p>>packedTIF&3), p>>packedPost&1 != 0
	t.Type, t.STP, t.Limit = OrderType(p>>packedType&1), SelfTrade(p>>packedSTP), limit
}

// side returns the side alone.
func (p packed) side() Side { return Side(p & 3) }

// words says what t has, for errors.
func (t *Terms) words() string {
	return fmt.Sprintf("%s at %s, type %s, tif %s, post %t, stp %s", t.Side, t.Limit, t.Type, t.TIF, t.Post, t.STP)
}

// marketBuy reports whether an order holds exactly what its fills cost.
func (t *Terms) marketBuy() bool { return t.Type == Market && t.Side == Buy }

// plain reports whether an order has no instructions: every program reads its records.
func (t *Terms) plain() bool { return uint8(t.TIF)|uint8(t.Type)|uint8(t.STP) == 0 && !t.Post }

// mayRest reports whether what remains of such an order may stay in the book.
func (t *Terms) mayRest() bool { return t.TIF == GTC }

// check reports whether an order may have such terms.
func (t *Terms) check() bool {
	return (t.Side == Buy || t.Side == Sell) && mayOrder(int64(t.Limit)) && t.TIF <= FOK && t.STP <= CancelBoth &&
		!(t.Type == Market && t.TIF == GTC) && !(t.Post && t.TIF != GTC)
}

// Text says in words what an order of so many shares of a symbol asks for, as in
// "buy 100 SPY at 145.67".
func (t *Terms) Text(shares Shares, sym Symbol) string {
	return fmt.Sprintf("%s %s %s at %s", t.Side, shares, sym, t.Limit)
}

// appendTerms appends what a record has of an order behind its names.
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

// Note makes e the record of what o has done at a symbol, without a ref and fills. shares
// are those that the kind's comment names.
func (e *Event) Note(kind EventKind, o *Order, sym Symbol, shares Shares, now int64) {
	*e = Event{} // in place: a literal with values of o would be made elsewhere and copied
	e.Kind, e.Time, e.Account, e.Symbol = kind, now, o.Account.ID, sym
	e.Order, e.Terms, e.Shares = o.ID, o.Terms, shares
}

// Open returns what is open of an order after e, an OrderAccepted, OrderReplaced or OrderContinued.
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

// orderTerms reads what appendOrder wrote behind the names.
func (r *eventReader) orderTerms(e *Event) { r.terms(&e.Terms, &e.Shares) }

// checkOrder is Check for what orders and cancels have in common, and for fills.
func (e *Event) checkOrder() error {
	for _, f := range e.Fills {
		if _, err := ParseAccountID(string(f.Account)); err != nil {
			return fmt.Errorf("%w: order %d: fill with order %d: %w", ErrEvent, e.Order, f.Resting, err)
		}
	}
	return e.checkNumbers()
}

// checkNumbers is checkOrder except for the accounts of the fills.
func (e *Event) checkNumbers() error {
	if e.Order == 0 || e.Order > orderIDMax || !e.Terms.check() || !mayOrder(int64(e.Shares)) {
		return fmt.Errorf("%w: order %d: %s %s at %s", ErrEvent, e.Order, e.Side, e.Shares, e.Limit)
	}
	if e.Kind == OrderContinued && !e.checkContinued() {
		return fmt.Errorf("%w: order %d: a part of %d fills after %d", ErrEvent, e.Order, len(e.Fills), e.Before)
	}
	left := e.Shares
	for i := range e.Fills {
		f := &e.Fills[i]
		if f.Resting == 0 || f.Resting >= e.Order || f.Shares <= 0 || f.Shares > left || !mayOrder(int64(f.Price)) {
			return fmt.Errorf("%w: order %d: fill of %s at %s with order %d", ErrEvent, e.Order, f.Shares, f.Price, f.Resting)
		}
		left -= f.Shares
	}
	if e.Kind == OrderCanceled {
		return nil
	}
	return e.checkMore(left)
}

// checkContinued reports whether e may be a further part of an order: it does something, and comes after
// another one that did.
func (e *Event) checkContinued() bool {
	begun := e.Before > 0 || e.Before == 0 && e.STP == CancelOldest // which has canceled orders of its account
	return begun && e.Before < math.MaxInt32 && (len(e.Fills) > 0 || len(e.Own) > 0 || e.Rest > 0)
}

// mayOrder reports whether an order may have such a number of shares, or such a limit.
func mayOrder(units int64) bool { return 0 < units && units < orderUnitsMax }
