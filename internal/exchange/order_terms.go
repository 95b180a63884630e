package exchange

import (
	"fmt"
)

// Terms has what a client specifies for an order and never changes afterwards. Commands, orders, records, refs,
// snapshots and database rows embed and copy it as a whole, so that a new field needs new code only here.
//
// Its methods have pointer receivers, so that a call does not copy the order that embeds it.
type Terms struct {
	Side  Side
	TIF   TimeInForce
	Post  bool // post only: the order is rejected if it would execute at once
	Type  OrderType
	STP   SelfTrade // mode in effect: as sent, or the account's default
	Limit Price     // the limit; for a Market order the protection price
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

// Instructions is Terms without the limit, in one byte.
type Instructions struct{ packed }

// Instructions returns t without its limit.
func (t *Terms) Instructions() Instructions { return Instructions{t.pack()} }

// Terms returns the terms with these instructions and a limit.
func (i Instructions) Terms(limit Price) Terms { return i.terms(limit) }

// Side returns the side.
func (i Instructions) Side() Side { return i.side() }

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

// mayRest reports whether the remainder of an order with these terms may stay in the book.
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

// validOrderUnits reports whether units is valid as the shares or the limit of an order.
func validOrderUnits(units int64) bool { return 0 < units && units < orderUnitsMax }

// Instructed reports whether the terms contain order instructions. Old programs cannot read records of such orders.
func (t *Terms) Instructed() bool { return !t.plain() }
