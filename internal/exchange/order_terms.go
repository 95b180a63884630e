package exchange

import (
	"encoding/binary"
	"fmt"
)

// Terms is what a client says of an order that stays as it is for as long as the order is
// known. A command, an order, a record, a ref, a snapshot and a row have it as a whole and
// hand it on as a whole, so that a new field needs no code on the way: only here.
type Terms struct {
	Side  Side
	Limit Price
}

// packed is Terms except the limit, in the byte that records, books and digests have of it.
type packed uint8

// pack returns what is not the limit.
func (t Terms) pack() packed { return packed(t.Side) }

// terms returns what pack was called for, with its limit. A byte that pack does not return
// becomes Terms that fail check.
func (p packed) terms(limit Price) Terms { return Terms{Side: Side(p), Limit: limit} }

// side returns the side alone.
func (p packed) side() Side { return Side(p) }

// check reports whether an order may have such terms.
func (t Terms) check() bool { return (t.Side == Buy || t.Side == Sell) && mayOrder(int64(t.Limit)) }

// Text says in words what an order of so many shares of a symbol asks for, as in
// "buy 100 SPY at 145.67".
func (t Terms) Text(shares Shares, sym Symbol) string {
	return fmt.Sprintf("%s %s %s at %s", t.Side, shares, sym, t.Limit)
}

// appendTerms appends what a record has of an order behind its names.
func appendTerms(dst []byte, t Terms, shares Shares) []byte {
	dst = binary.AppendUvarint(append(dst, byte(t.pack())), uint64(shares))
	return binary.AppendUvarint(dst, uint64(t.Limit))
}

// terms reads what appendTerms wrote.
func (r *eventReader) terms() (Terms, Shares) {
	p, shares := packed(r.byte()), Shares(r.uvarint())
	return p.terms(Price(r.uvarint())), shares
}
