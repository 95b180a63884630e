package exchange

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// EventKind is the kind of an Event.
type EventKind uint8

// The event kinds, and the fields that each has. Their numbers are part of the journal's format and never change.
const (
	AccountOpened   EventKind = 1 // Account, Balance
	SymbolMade      EventKind = 2 // Symbol
	SharesDeposited EventKind = 3 // Symbol, Account, Deposited
	OrderAccepted   EventKind = 4 // Order, Account, Symbol, Terms, Shares, Fills
	OrderCanceled   EventKind = 5 // Order, Account, Symbol, Terms, Shares (those canceled)
	SymbolHalted    EventKind = 6 // Symbol, Reason
	SymbolResumed   EventKind = 7 // Symbol

	OrdersCanceled EventKind = 8 // Account, Cancels

	// OrderContinued is a further part of an order that meets more than FillsMax resting
	// orders; its first part is an OrderAccepted or an OrderReplaced.
	OrderContinued EventKind = 9 // Order, Account, Symbol, Terms, Shares (open before this part), Before, Fills

	// OrderReduced is an amend that keeps the order's id and place: Order, Account, Symbol, Terms, Shares (those removed,
	// 0 for an amend that only uses a ref), Amend.
	OrderReduced EventKind = 10
	// OrderReplaced is an amend that cancels the remainder of an order and enters a new order in its place:
	// the fields of OrderAccepted, for the new order, and Amend.
	OrderReplaced EventKind = 11

	AccountRuled EventKind = 12 // Account, AccountRules (all of its rules from now on)
	SymbolRuled  EventKind = 13 // Symbol, SymbolRules (all of its rules from now on)
	SwitchSet    EventKind = 14 // Account, Due: the dead man's switch; 0 disarms it

	eventKindMax = SwitchSet
)

// EventKinds ranges over all kinds of events.
func EventKinds() iter.Seq[EventKind] {
	return func(yield func(EventKind) bool) {
		for k := AccountOpened; k <= eventKindMax && yield(k); k++ {
		}
	}
}

// String returns the name used in a printed journal.
func (k EventKind) String() string {
	switch k {
	case AccountOpened:
		return "account"
	case SymbolMade:
		return "symbol"
	case SharesDeposited:
		return "place"
	case OrderAccepted:
		return "order"
	case OrderCanceled:
		return "cancel"
	case SymbolHalted:
		return "halt"
	case SymbolResumed:
		return "resume"
	case OrdersCanceled:
		return "cancel-all"
	case OrderContinued:
		return "continue"
	case OrderReduced:
		return "reduce"
	case OrderReplaced:
		return "replace"
	case AccountRuled:
		return "account-rules"
	case SymbolRuled:
		return "symbol-rules"
	case SwitchSet:
		return "switch"
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is everything that one command did, as one journal record. It refers to accounts and orders by their ids, so
// that it can be read without any state. Fields that its kind does not name are zero.
type Event struct {
	Kind         EventKind
	Unsent       Unsent // Terms that the client did not send; set in OrderAccepted and OrderReplaced
	OnDisconnect bool   // cod: cancel the order when its connection ends; set in OrderAccepted and OrderReplaced
	Cause        CancelCause

	Time      int64 // time of the event, nanoseconds since the Unix epoch
	Account   AccountID
	Symbol    Symbol
	Balance   Cash
	Deposited Position
	Order     OrderID
	Terms
	Shares  Shares
	Before  int    // number of fills in the order's earlier parts
	Fills   []Fill // fills of this part, in the order of matching
	Ref     Ref    // client order id, in the kinds that may have one; "" if the client sent none
	Reason  string // reason of a halt
	Cancels []Cancel

	// Hold is set in OrderAccepted and OrderReplaced for an unfinished market buy: the cost of its further
	// parts.
	Hold Cash

	// Rest and Own are set in OrderAccepted, OrderReplaced and OrderContinued.
	Rest Shares // shares of the order itself that this record cancels: all that remain after its fills
	// Own lists the account's resting orders that self-trade prevention canceled, in the order in which they were
	// met. Their Symbol is empty: it is the event's.
	Own []Cancel

	Amend        *Amendment // set in OrderReduced and OrderReplaced
	AccountRules *AccountRules
	SymbolRules  *SymbolRules // set in SymbolRuled, and in a SymbolMade with a tick or a lot
	Due          int64        // in SwitchSet: when the switch fires, nanoseconds since the Unix epoch
}

// Unsent is a set of the order Terms that the client did not send. Two requests with the same ref are the same if
// they sent the same values.
type Unsent uint8

// Bits of Unsent.
const (
	UnsentLimit Unsent = 1 << iota // market order: the exchange chose the protection price
	UnsentSTP                      // the account's default was used
)

// Sent returns the terms that the client sent; the others are zero.
func (e *Event) Sent() Terms {
	t := e.Terms
	if e.Unsent&UnsentLimit != 0 {
		t.Limit = 0
	}
	if e.Unsent&UnsentSTP != 0 {
		t.STP = TradeWithSelf
	}
	return t
}

// CancelCause is who or what caused an OrdersCanceled event.
type CancelCause uint8

// The causes.
const (
	ByOperator   CancelCause = iota // an operator; also in all records before version 4
	ByClient                        // <cancel-all>
	ByDisconnect                    // the connection of orders with cod ended
	BySwitch                        // the dead man's switch fired and is off now; there may be no cancels
	ByBlock                         // the account was blocked
)

// Why returns the reason of orders canceled for this cause; a block counts as a cancel by an operator. If the
// cancels of a dead man's switch need several records, all but the last one are recorded as canceled by the owner.
func (c CancelCause) Why() WhyCanceled {
	switch c {
	case ByClient:
		return CanceledByOwner
	case ByDisconnect:
		return CanceledDisconnect
	case BySwitch:
		return CanceledTimer
	case ByOperator, ByBlock:
	}
	return CanceledByOperator
}

// RestWhy returns why the Rest of e's order was canceled, or NotCanceled if it has none. It uses the record alone:
// for an IOC or market order with stp newest that stopped at an order of its own account, it returns CanceledRest,
// because the record does not say why the order stopped.
func (e *Event) RestWhy() WhyCanceled {
	switch {
	case e.Rest == 0:
		return NotCanceled
	case e.TIF == GTC, e.STP == CancelBoth && len(e.Own) > 0:
		return CanceledSTP
	}
	return CanceledRest
}

// Amendment is the part of an OrderReduced or an OrderReplaced that describes the amend. A chain is an order
// and the orders that replaced it, one after another.
type Amendment struct {
	First    OrderID // first order of the chain
	Amount   Shares  // new total as the client sent it, 0 if it sent none
	Limit    Price   // new limit as the client sent it, 0 if it sent none
	Executed Shares  // shares executed by the whole chain, before this record
	Open     Shares  // in OrderReduced: open shares of the order after it
	Old      Cancel  // in OrderReplaced: the order that was replaced, and its open shares
}

// Cancel is an order that an event canceled, with all of its open shares: an entry of Cancels or Own, or Amend.Old.
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

// OwnCancel returns an OrderCanceled event with the same effect as the cancel of the i-th order in e.Own.
func (e *Event) OwnCancel(i int) Event { return e.cancelEvent(&e.Own[i]) }

// OldCancel returns an OrderCanceled event for the order that e, an OrderReplaced, replaces.
func (e *Event) OldCancel() Event { return e.cancelEvent(&e.Amend.Old) }

func (e *Event) cancelEvent(c *Cancel) Event {
	return Event{Kind: OrderCanceled, Time: e.Time, Account: e.Account, Symbol: e.Symbol, Order: c.Order, Terms: c.Terms,
		Shares: c.Shares}
}

// Note sets e to the record of what o did in a symbol, without a ref and fills. The comment of each event kind says
// what its Shares are.
func (e *Event) Note(kind EventKind, o *Order, sym Symbol, shares Shares, now int64) {
	*e = Event{} // in place: a literal with values of o would be built elsewhere and copied
	e.Kind, e.Time, e.Account, e.Symbol = kind, now, o.Account.ID, sym
	e.Order, e.Terms, e.Shares = o.ID, o.Terms, shares
}

// NoteMore sets the fields of e, made by Note, that order instructions need: whether o is canceled when its
// connection ends, how many of its shares were canceled at once, and the orders of Book.Own. e keeps the slice own.
func (e *Event) NoteMore(o *Order, own []Cancel) {
	e.OnDisconnect = o.OnDisconnect && e.Kind != OrderContinued && e.Kind != OrderCanceled && e.Kind != OrderReduced
	if e.Own = own; o.AtOnce && e.Kind != OrderCanceled && e.Kind != OrderReduced {
		e.Rest = o.Canceled
	}
}

// Open returns the open shares of the order after e, an OrderAccepted, OrderReplaced or OrderContinued.
func (e *Event) Open() Shares {
	open := e.Shares - e.Rest
	for i := range e.Fills {
		open -= e.Fills[i].Shares
	}
	return open
}

// Same reports whether two events are equal.
func (e *Event) Same(f *Event) bool {
	return e.Kind == f.Kind && e.Time == f.Time && e.Account == f.Account && e.Symbol == f.Symbol && e.Ref == f.Ref &&
		e.Balance == f.Balance && e.Deposited == f.Deposited && e.Reason == f.Reason &&
		e.Order == f.Order && e.Terms == f.Terms && e.Shares == f.Shares && e.Before == f.Before &&
		slices.EqualFunc(e.Fills, f.Fills, Fill.same) && slices.Equal(e.Cancels, f.Cancels) && e.sameMore(f)
}

// sameMore is Same for the fields that version 4 added.
func (e *Event) sameMore(f *Event) bool {
	return e.Unsent == f.Unsent && e.OnDisconnect == f.OnDisconnect && e.Hold == f.Hold && e.Rest == f.Rest &&
		slices.Equal(e.Own, f.Own) && equal(e.Amend, f.Amend) && e.Cause == f.Cause && e.Due == f.Due &&
		equal(e.SymbolRules, f.SymbolRules) && e.AccountRules.same(f.AccountRules)
}

// equal reports whether two pointers are both nil or point to equal values.
func equal[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
