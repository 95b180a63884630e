package exchange

import (
	"fmt"
	"slices"
	"strings"
)

// State is the complete state of an exchange: the ledger, a book for each symbol, and
// the highest order id given out. At start it is rebuilt from a Snapshot and the
// later events of the journal; the engine then hands each book to its goroutine. Not
// safe for concurrent use.
type State struct {
	Ledger  *Ledger
	Books   map[Symbol]*Book // made by List
	Index   *Index           // index of all orders in Books
	Refs    *Refs            // refs of the applied events
	OrderID OrderID
	// Time is the latest time of all applied events, including those before the snapshot: nanoseconds since the
	// Unix epoch, 0 if there are none. An engine gives no later event an earlier time.
	Time int64

	fills   []Fill // reused by Apply
	rebuilt Event  // reused by Apply: the record of the command that it has just executed
}

// NewState returns an exchange without accounts, symbols and orders.
func NewState() *State {
	return &State{Ledger: NewLedger(), Books: make(map[Symbol]*Book), Index: new(Index), Refs: NewRefs()}
}

// List makes a symbol with an empty book, or returns its book if it exists.
func (s *State) List(sym Symbol) *Book {
	if book := s.Books[sym]; book != nil {
		return book
	}
	in, book := s.Ledger.List(sym), s.Index.NewBook()
	s.Books[in.Symbol] = book
	return book
}

// Apply repeats the command that e recorded. An accepted order is reserved, matched and settled as
// it was originally, and the fills must be those recorded. The error says what
// differs, and is a *FillsError if the fills do; the state is then unusable. The state keeps nothing that e refers to.
func (s *State) Apply(e *Event) error {
	s.Time = max(s.Time, e.Time)
	if e.Ref == "" {
		return s.apply(e)
	}
	if a := s.Ledger.Account(e.Account); a != nil {
		if use, used := s.Refs.Find(a, e.Ref); used {
			return fmt.Errorf("exchange: replay: ref %s of account %s used a second time, first by a command of kind %s",
				e.Ref, e.Account, use.Kind)
		}
	}
	if err := s.apply(e); err != nil {
		return err
	}
	s.Refs.Add(s.Ledger.Account(e.Account), Ref(strings.Clone(string(e.Ref))), e.Use())
	return nil
}

// apply is Apply without the ref.
func (s *State) apply(e *Event) error {
	switch e.Kind {
	case AccountOpened:
		if r := s.Ledger.MayOpen(e.Account, e.Balance); r != OK {
			return fmt.Errorf("exchange: replay: account %s opened, but now %s", e.Account, r)
		}
		s.Ledger.Open(e.Account, e.Balance)
		return nil
	case SymbolMade:
		if s.Books[e.Symbol] != nil {
			return fmt.Errorf("exchange: replay: symbol %s was created twice", e.Symbol)
		}
		book := s.List(e.Symbol)
		if e.SymbolRules != nil {
			book.SetRules(*e.SymbolRules)
		}
		return nil
	case OrdersCanceled:
		return s.cancelAll(e)
	case AccountRuled, SwitchSet:
		return s.applyRules(e)
	case SharesDeposited, OrderAccepted, OrderCanceled, SymbolHalted, SymbolResumed, OrderContinued, OrderReduced,
		OrderReplaced, SymbolRuled:
		return s.applyTo(e)
	}
	return fmt.Errorf("exchange: replay: unknown event %s", e.Kind)
}

// applyTo is apply for an event that concerns a single symbol.
func (s *State) applyTo(e *Event) error {
	in, book := s.Ledger.Instrument(e.Symbol), s.Books[e.Symbol]
	if in == nil || book == nil {
		return fmt.Errorf("exchange: replay: %s for symbol %s, which was never created", e.Kind, e.Symbol)
	}
	if id := book.Unfinished(); id != 0 && e.Kind != OrderContinued {
		return fmt.Errorf("exchange: replay: %s for symbol %s, while its order %d is unfinished", e.Kind, e.Symbol, id)
	}
	book.Moment(e.Time)
	switch e.Kind {
	case SharesDeposited:
		if r := s.Ledger.MayDeposit(in, e.Account, e.Deposited); r != OK {
			return fmt.Errorf("exchange: replay: %s of %s deposited with account %s, but now %s",
				e.Deposited, e.Symbol, e.Account, r)
		}
		s.Ledger.Deposit(in, e.Account, e.Deposited)
		return nil
	case OrderAccepted:
		return s.accept(in, book, e)
	case OrderContinued:
		return s.proceed(in, book, e)
	case OrderReplaced:
		return s.replace(in, book, e)
	case OrderReduced:
		return s.reduce(in, book, e)
	case OrderCanceled:
		return s.cancel(in, book, e)
	case SymbolRuled:
		book.SetRules(*e.SymbolRules)
		return nil
	case SymbolHalted:
		if before := book.Halt(&Halt{Since: e.Time, Reason: strings.Clone(e.Reason)}); before != nil {
			return fmt.Errorf("exchange: replay: symbol %s halted, but it is halted since %d", e.Symbol, before.Since)
		}
		return nil
	case SymbolResumed:
		if book.Resume() == nil {
			return fmt.Errorf("exchange: replay: symbol %s resumed, but it was not halted", e.Symbol)
		}
		return nil
	case AccountOpened, SymbolMade, OrdersCanceled, AccountRuled, SwitchSet: // handled in apply
	}
	panic("exchange: an event of kind " + e.Kind.String() + " does not concern a symbol")
}

func (s *State) accept(in *Instrument, book *Book, e *Event) error {
	o := e.newOrder(s.Ledger.Account(e.Account))
	if err := s.mayEnter(book, e, o); err != nil {
		return err
	}
	if r := s.reserve(in, book, o); r != OK {
		return fmt.Errorf("exchange: replay: order %d was accepted, but now %s", e.Order, r)
	}
	s.fills = book.submit(o, e.Time, s.fills[:0], s.Index.replayFills(e))
	if err := s.compareRecord(e, book, o, o.Shares); err != nil {
		return err
	}
	s.Ledger.Settle(in, o, s.fills)
	s.Ledger.ReleaseOwn(in, o.Account, book.Own())
	s.OrderID = max(s.OrderID, e.Order)
	return nil
}

// mayEnter returns an error if o, which e accepted, cannot be accepted now.
func (s *State) mayEnter(book *Book, e *Event, o *Order) error {
	if o.Account == nil || e.Order <= book.newest {
		return fmt.Errorf("exchange: replay: order %d after order %d of %s, account %s",
			e.Order, book.newest, e.Symbol, e.Account)
	}
	if _, taken := s.Index.Book(e.Order); taken {
		return fmt.Errorf("exchange: replay: order id %d of %s is used in another symbol", e.Order, e.Symbol)
	}
	if book.halt != nil {
		return fmt.Errorf("exchange: replay: order %d was accepted, but now %s since %d", e.Order, Halted, book.halt.Since)
	}
	return nil
}

// reserve reserves what an order could spend.
func (s *State) reserve(in *Instrument, book *Book, o *Order) RejectReason {
	if o.marketBuy() {
		return s.Ledger.ReserveMarket(in, o, book.Quote(o).Cost)
	}
	return s.Ledger.Reserve(in, o)
}

// proceed applies an OrderContinued event. It also checks the event's fields about the order before this part:
// execution numbers in a database are derived from e.Before.
func (s *State) proceed(in *Instrument, book *Book, e *Event) error {
	id := book.Unfinished()
	o, _ := book.Find(id)
	if id == 0 || id != e.Order || o.Account.ID != e.Account || o.Terms != e.Terms || o.Open != e.Shares {
		return fmt.Errorf("exchange: replay: %s of order %d of %s to be filled at once, "+
			"now order %d is unfinished, with %s open", e.Shares, e.Order, e.Symbol, id, o.Open)
	}
	if before := len(o.Executions); before != e.Before { // it never rested, so its own parts made all executions
		return fmt.Errorf("exchange: replay: order %d of %s continues after %d executions, but now after %d",
			e.Order, e.Symbol, e.Before, before)
	}
	s.fills = book.proceed(&o, e.Time, s.fills[:0], s.Index.replayFills(e))
	if err := s.compareRecord(e, book, &o, e.Shares); err != nil {
		return err
	}
	s.Ledger.SettleMore(in, &o, s.fills)
	s.Ledger.ReleaseOwn(in, o.Account, book.Own())
	return nil
}

// compareRecord builds the record of what o did, with the fills in s, and compares it with e.
func (s *State) compareRecord(e *Event, book *Book, o *Order, shares Shares) error {
	if !slices.EqualFunc(s.fills, e.Fills, Fill.same) {
		return &FillsError{Order: e.Order, Symbol: e.Symbol, Recorded: slices.Clone(e.Fills), Now: slices.Clone(s.fills)}
	}
	s.rebuilt.Note(e.Kind, o, e.Symbol, shares, e.Time)
	s.rebuilt.NoteMore(o, book.Own())
	if e.Kind != OrderContinued {
		s.rebuilt.Hold = book.HoldOf(o)
	}
	// Unsent has no effect here; e.Amend was compared by replace, the other fields by proceed and Apply.
	s.rebuilt.Unsent, s.rebuilt.Amend = e.Unsent, e.Amend
	s.rebuilt.Before, s.rebuilt.Fills, s.rebuilt.Ref = e.Before, s.fills, e.Ref
	if !s.rebuilt.Same(e) {
		return fmt.Errorf("exchange: replay: %s of order %d of %s was %+v, but now %+v",
			e.Kind, e.Order, e.Symbol, *e, s.rebuilt)
	}
	return nil
}

func (s *State) cancel(in *Instrument, book *Book, e *Event) error {
	o, r := book.Cancel(e.Order, e.Account, e.Time)
	if r == OK {
		s.rebuilt.Note(e.Kind, &o, e.Symbol, o.Canceled, e.Time)
	}
	if r != OK || !s.rebuilt.Same(e) {
		return fmt.Errorf("exchange: replay: %s of order %d of account %s were canceled, but now %s",
			e.Shares, e.Order, e.Account, r)
	}
	s.Ledger.Release(in, &o)
	return nil
}

// cancelAll applies an OrdersCanceled event.
func (s *State) cancelAll(e *Event) error {
	for i := range e.Cancels {
		one := e.Cancel(i)
		if err := s.Apply(&one); err != nil {
			return err
		}
	}
	if e.Cause == BySwitch {
		return s.applyRules(e)
	}
	return nil
}

// ForgetClosed drops from memory the closed orders in the symbols of e, which has been
// applied, and all refs if e has one. A replay of a long history then needs memory for open
// orders only, and does not detect a ref that is used twice.
func (s *State) ForgetClosed(e *Event) {
	if e.Ref != "" {
		s.Refs = NewRefs()
	}
	s.forgetClosed(e.Symbol)
	for i := range e.Cancels {
		s.forgetClosed(e.Cancels[i].Symbol)
	}
}

func (s *State) forgetClosed(sym Symbol) {
	if book := s.Books[sym]; book != nil {
		for book.Forget() != 0 {
		}
	}
}

// replace applies an OrderReplaced event.
func (s *State) replace(in *Instrument, book *Book, e *Event) error {
	old, err := s.orderToAmend(book, e, e.Amend.Old.Order)
	if err != nil {
		return err
	}
	o := old.Replacement(old.ChainExecuted()+e.Shares, e.Limit)
	o.ID, o.OnDisconnect = e.Order, e.OnDisconnect
	if want := old.Amendment(e.Kind, e.Amend.Amount, e.Amend.Limit, 0); *want != *e.Amend ||
		e.OnDisconnect != old.OnDisconnect {
		return fmt.Errorf("exchange: replay: order %d of %s was replaced as %+v, but now %+v", old.ID, e.Symbol, e.Amend,
			want)
	}
	if err := s.mayEnter(book, e, &o); err != nil {
		return err
	}
	if r := s.Ledger.ReserveInstead(in, &old, &o); r != OK {
		return fmt.Errorf("exchange: replay: order %d was accepted in place of order %d, but now %s", e.Order, old.ID, r)
	}
	s.fills = book.replace(&o, e.Time, s.fills[:0], s.Index.replayFills(e))
	if err := s.compareRecord(e, book, &o, o.Shares); err != nil {
		return err
	}
	s.Ledger.SettleInstead(in, &old, &o, s.fills)
	s.Ledger.ReleaseOwn(in, o.Account, book.Own())
	s.OrderID = max(s.OrderID, e.Order)
	return nil
}

// reduce applies an OrderReduced event.
func (s *State) reduce(in *Instrument, book *Book, e *Event) error {
	o, err := s.orderToAmend(book, e, e.Order)
	if err != nil {
		return err
	}
	want := o.Amendment(e.Kind, e.Amend.Amount, e.Amend.Limit, e.Shares)
	if *want != *e.Amend || o.Terms != e.Terms || want.Open <= 0 {
		return fmt.Errorf("exchange: replay: order %d of %s was reduced as %+v, %s, but now %+v, %s",
			e.Order, e.Symbol, e.Amend, e.words(), want, o.words())
	}
	if e.Shares > 0 {
		o, _ = book.Reduce(e.Order, e.Account, e.Shares, e.Time)
		s.Ledger.ReleaseReduced(in, &o, e.Shares)
	}
	return nil
}

// orderToAmend returns the order that e amends. It must be open.
func (s *State) orderToAmend(book *Book, e *Event, id OrderID) (Order, error) {
	r := book.MayCancel(id, e.Account)
	o, _ := book.Find(id)
	if r != OK {
		return o, fmt.Errorf("exchange: replay: order %d of %s was amended, but now %s", id, e.Symbol, r)
	}
	return o, nil
}

// applyRules applies an AccountRuled or a SwitchSet event, or the effect of an OrdersCanceled event on a switch.
func (s *State) applyRules(e *Event) error {
	a := s.Ledger.Account(e.Account)
	if a == nil {
		return fmt.Errorf("exchange: replay: %s of account %s, which was never opened", e.Kind, e.Account)
	}
	if e.Kind == AccountRuled {
		rules := *e.AccountRules
		if rules.Block != nil {
			rules.Block = &Halt{Since: rules.Block.Since, Reason: strings.Clone(rules.Block.Reason)}
		}
		s.Ledger.SetRules(a, &rules)
	} else {
		s.Ledger.SetSwitch(a, e.Due) // Due is 0 if the switch has fired
	}
	return nil
}

// FillsError reports that a replay matched an order differently than its event records.
type FillsError struct {
	Order         OrderID
	Symbol        Symbol
	Recorded, Now []Fill
}

// Error names the order and both lists of fills.
func (e *FillsError) Error() string {
	return fmt.Sprintf("exchange: replay: order %d of %s was filled %v, but now %v", e.Order, e.Symbol, e.Recorded, e.Now)
}

// First returns the first index, from 0, at which the fills differ, and the two fills
// there; a fill is nil if its list is shorter.
func (e *FillsError) First() (place int, recorded, now *Fill) {
	for i := 0; ; i++ {
		recorded, now = fillAt(e.Recorded, i), fillAt(e.Now, i)
		if recorded == nil || now == nil || !recorded.same(*now) {
			return i, recorded, now
		}
	}
}

func fillAt(fills []Fill, i int) *Fill {
	if i < len(fills) {
		return &fills[i]
	}
	return nil
}
