package exchange

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Bits of the flags byte of OrderAccepted and OrderReplaced.
const (
	flagUnsentLimit  = 0x01
	flagUnsentSTP    = 0x02
	flagOnDisconnect = 0x04
	flagTaken        = 0x08 // Rest and Own follow; also of an OrderContinued
	flagHold         = 0x10 // Hold follows
)

// flagRules is the flag of a SymbolMade that is followed by SymbolRules.
const flagRules = 0x01

// NeedsVersion returns the version of encoded events that a program must support to read this one: 4 if it uses
// features of version 4, else 3.
func (e *Event) NeedsVersion() int {
	if e.Kind > OrderContinued || e.flags() != 0 || e.Order != 0 && !e.plain() {
		return 4
	}
	for i := range e.Cancels {
		if !e.Cancels[i].plain() {
			return 4
		}
	}
	return 3
}

// flags returns the flags byte of e's record.
func (e *Event) flags() (flags byte) {
	switch e.Kind {
	case OrderAccepted, OrderReplaced:
		if flags = byte(e.Unsent); e.OnDisconnect {
			flags |= flagOnDisconnect
		}
		if e.Hold != (Cash{}) {
			flags |= flagHold
		}
		fallthrough
	case OrderContinued:
		if e.Rest != 0 || len(e.Own) > 0 {
			flags |= flagTaken
		}
	case SymbolMade:
		if e.SymbolRules != nil && *e.SymbolRules != (SymbolRules{}) {
			flags = flagRules
		}
	case OrdersCanceled:
		flags = byte(e.Cause)
	case AccountOpened, SharesDeposited, OrderCanceled, SymbolHalted, SymbolResumed, OrderReduced, AccountRuled,
		SymbolRuled, SwitchSet:
	}
	return flags
}

// setFlags sets the fields of e that are encoded in its flags. It returns an error for a flag that its kind does
// not have.
func (e *Event) setFlags(flags byte) error {
	known := byte(0)
	switch e.Kind {
	case OrderAccepted, OrderReplaced:
		known = flagUnsentLimit | flagUnsentSTP | flagOnDisconnect | flagTaken | flagHold
		e.Unsent, e.OnDisconnect = Unsent(flags&(flagUnsentLimit|flagUnsentSTP)), flags&flagOnDisconnect != 0
	case OrderContinued:
		known = flagTaken
	case SymbolMade:
		known = flagRules
	case OrdersCanceled:
		if e.Cause = CancelCause(flags); e.Cause <= ByBlock {
			return nil
		}
	case AccountOpened, SharesDeposited, OrderCanceled, SymbolHalted, SymbolResumed, OrderReduced, AccountRuled,
		SymbolRuled, SwitchSet:
	}
	if unknown := flags &^ known; unknown != 0 {
		return fmt.Errorf("%w: %s with unknown flags %#02x", ErrEvent, e.Kind, unknown)
	}
	return nil
}

func appendOrder(dst []byte, e *Event) []byte {
	dst = binary.AppendUvarint(dst, uint64(e.Order))
	dst = appendString(dst, e.Account)
	dst = appendString(dst, e.Symbol)
	return appendTerms(dst, &e.Terms, e.Shares)
}

func (r *eventReader) order(e *Event) {
	e.Order = OrderID(r.uvarint())
	e.Account, e.Symbol = AccountID(r.string()), Symbol(r.string())
	r.orderTerms(e)
}

// orderTerms reads what appendOrder wrote after the names.
func (r *eventReader) orderTerms(e *Event) { r.terms(&e.Terms, &e.Shares) }

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

// hasMore reports whether optional fields may follow the fields of e. Most records have none.
func (e *Event) hasMore(flags byte) bool {
	return flags != 0 && (e.Kind == OrderAccepted || e.Kind == OrderContinued) ||
		e.Kind == OrderReduced || e.Kind == OrderReplaced
}

// appendMore appends the optional fields of an order: Hold, Rest, Own, Amend.
func appendMore(dst []byte, e *Event, flags byte) []byte {
	if flags&flagHold != 0 {
		dst = appendInt128(dst, Int128(e.Hold))
	}
	if flags&flagTaken != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Rest))
		dst = binary.AppendUvarint(dst, uint64(len(e.Own)))
		for i := range e.Own {
			dst = appendOwn(dst, &e.Own[i])
		}
	}
	if e.Kind == OrderReduced || e.Kind == OrderReplaced {
		dst = appendAmendment(dst, e.Kind, e.Amend)
	}
	return dst
}

// more reads what appendMore wrote.
func (r *eventReader) more(e *Event) {
	if r.flags&flagHold != 0 {
		if e.Hold = Cash(r.int128()); e.Hold == (Cash{}) {
			r.short = true // AppendEvent never writes this
		}
	}
	if r.flags&flagTaken != 0 {
		e.Rest = Shares(r.uvarint())
		if n := r.uvarint(); n > uint64(len(r.rest))/ownBytesMin {
			r.short = true
		} else if n > 0 {
			e.Own = make([]Cancel, n)
		}
		for i := range e.Own {
			r.own(&e.Own[i])
		}
		if e.Rest == 0 && len(e.Own) == 0 {
			r.short = true
		}
	}
	if e.Kind == OrderReduced || e.Kind == OrderReplaced {
		e.Amend = r.amendment(e.Kind)
	}
}

// appendOwn appends a cancel whose symbol is that of the event.
func appendOwn(dst []byte, c *Cancel) []byte {
	dst = append(binary.AppendUvarint(binary.AppendUvarint(dst, uint64(c.Order)), uint64(c.Shares)), byte(c.pack()))
	return binary.AppendUvarint(dst, uint64(c.Limit))
}

// ownBytesMin is the minimum encoded size of an entry (appendOwn): it limits how many entries a record can claim to
// have.
const ownBytesMin = 4

// own reads what appendOwn wrote.
func (r *eventReader) own(c *Cancel) {
	c.Order, c.Shares = OrderID(r.uvarint()), Shares(r.uvarint())
	p := packed(r.byte())
	p.unpack(&c.Terms, Price(r.uvarint()))
}

func appendAmendment(dst []byte, kind EventKind, a *Amendment) []byte {
	if a == nil {
		a = new(Amendment) // Check rejects it
	}
	dst = binary.AppendUvarint(dst, uint64(a.First))
	dst = binary.AppendUvarint(dst, uint64(a.Amount))
	dst = binary.AppendUvarint(dst, uint64(a.Limit))
	dst = binary.AppendUvarint(dst, uint64(a.Executed))
	if kind == OrderReduced {
		return binary.AppendUvarint(dst, uint64(a.Open))
	}
	return appendOwn(dst, &a.Old)
}

// amendment reads what appendAmendment wrote.
func (r *eventReader) amendment(kind EventKind) *Amendment {
	a := &Amendment{First: OrderID(r.uvarint()), Amount: Shares(r.uvarint()), Limit: Price(r.uvarint()),
		Executed: Shares(r.uvarint())}
	if kind == OrderReduced {
		a.Open = Shares(r.uvarint())
	} else {
		r.own(&a.Old)
	}
	return a
}

// appendRules appends the rules of a symbol; for a SymbolMade only if its flags have flagRules.
func appendRules(dst []byte, rules *SymbolRules, flags byte, kind EventKind) []byte {
	if kind == SymbolMade && flags&flagRules == 0 {
		return dst
	}
	if rules == nil {
		rules = new(SymbolRules)
	}
	dst = binary.AppendUvarint(dst, uint64(rules.Tick))
	dst = binary.AppendUvarint(dst, uint64(rules.Lot))
	dst = binary.AppendUvarint(dst, uint64(rules.Protect))
	return binary.AppendUvarint(dst, uint64(rules.Band))
}

// rules reads what appendRules wrote.
func (r *eventReader) rules(e *Event) {
	if e.Kind == SymbolMade && r.flags&flagRules == 0 {
		return
	}
	e.SymbolRules = &SymbolRules{
		Tick:    Price(r.uvarint()),
		Lot:     Shares(r.uvarint()),
		Protect: r.fraction(),
		Band:    r.fraction(),
	}
	if e.Kind == SymbolMade && *e.SymbolRules == (SymbolRules{}) {
		r.short = true // AppendEvent never writes this
	}
}

func (r *eventReader) fraction() Fraction {
	v := r.uvarint()
	if v > math.MaxUint32 {
		r.short = true
	}
	return Fraction(v)
}

func appendAccountRules(dst []byte, a *AccountRules) []byte {
	if a == nil {
		a = new(AccountRules)
	}
	if a.Block == nil {
		dst = append(dst, 0)
	} else {
		dst = appendText(binary.AppendVarint(append(dst, 1), a.Block.Since), a.Block.Reason)
	}
	dst = binary.AppendUvarint(append(dst, byte(a.STP)), uint64(a.SharesMax))
	return binary.AppendVarint(appendInt128(dst, Int128(a.NotionalMax)), a.OpenMax)
}

// accountRules reads what appendAccountRules wrote.
func (r *eventReader) accountRules() *AccountRules {
	a := new(AccountRules)
	switch r.byte() {
	case 0:
	case 1:
		a.Block = &Halt{Since: r.varint(), Reason: string(r.text())}
	default:
		r.short = true
	}
	a.STP, a.SharesMax = SelfTrade(r.byte()), Shares(r.uvarint())
	a.NotionalMax, a.OpenMax = Cash(r.int128()), r.varint()
	return a
}
