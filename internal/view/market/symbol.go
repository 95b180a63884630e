package market

import (
	"fmt"

	"outcry/internal/exchange"
)

// symbol is what is known of a symbol.
type symbol struct {
	name       exchange.Symbol
	bids, asks levels
	traded     exchange.Traded
	tape       tape
	halt       *exchange.Halt // nil while it takes orders
	rules      exchange.SymbolRules
	seq        uint64 // of the last record that changed anything

	// unfinished is an order whose next part is to come, 0 if there is none. It is not in
	// the levels: nobody is shown a crossed book.
	unfinished exchange.OrderID
	waits      bool // to be published; Run's own

	bookSeq uint64   // of the last record that changed a level's total
	touched bool     // whether the record that is being taken in has done so
	heard   *heard   // nil while nobody listens
	candles *candles // nil before the first trade
}

// slots are how many places the rings of all symbols have together.
type slots struct{ trades, candles int }

func newSymbol(name exchange.Symbol, seq uint64) *symbol {
	return &symbol{name: name, bids: levels{up: 1}, asks: levels{up: -1}, tape: tape{first: 1}, seq: seq,
		bookSeq: seq}
}

// change changes what is open at a price. ok is false, and nothing has changed, if it would be less than
// nothing.
func (s *symbol) change(l *levels, price exchange.Price, by exchange.Position) (ok bool) {
	s.touched = true
	if s.heard != nil {
		s.heard.marks.note(l, price)
	}
	return l.add(price, by)
}

// side returns the levels of a side and of the one that it trades with.
func (s *symbol) side(side exchange.Side) (own, opposite *levels) {
	if side == exchange.Buy {
		return &s.bids, &s.asks
	}
	return &s.asks, &s.bids
}

// execute takes in an order, or a further part of it, with what it did. The error says
// which level does not hold what the order took from it; s is unusable then.
func (s *symbol) execute(e *exchange.Event, room *slots) error {
	_, opposite := s.side(e.Side)
	for i := range e.Fills {
		f := &e.Fills[i]
		if !s.change(opposite, f.Price, (-f.Shares).Position()) {
			return fmt.Errorf("market: order %d takes %s of %s at %s, which is more than is open there",
				e.Order, f.Shares, s.name, f.Price)
		}
		t := e.Trade(i)
		s.traded.Add(&t)
		s.tape.add(t, &room.trades)
		s.candle(&t, &room.candles)
	}
	for i := range e.Own {
		if err := s.cancel(&e.Own[i]); err != nil {
			return err
		}
	}
	s.unfinished = 0
	if open := e.Open(); open > 0 {
		return s.rest(e.Order, &e.Terms, open)
	}
	return nil
}

// rest adds what is open of an order to its level, unless it crosses: then a part of it
// is to come. The error says that such an order cannot rest.
func (s *symbol) rest(id exchange.OrderID, t *exchange.Terms, open exchange.Shares) error {
	own, opposite := s.side(t.Side)
	switch {
	case open <= 0:
		return fmt.Errorf("market: order %d for %s has %s open", id, s.name, open)
	case opposite.meets(t.Limit):
		s.unfinished = id
		return nil
	case t.TIF != exchange.GTC:
		return fmt.Errorf("market: order %d for %s is %s, and rests at %s", id, s.name, t.TIF, t.Limit)
	}
	s.change(own, t.Limit, open.Position())
	return nil
}

// note takes in an event of an order, a halt or its end. The error says what cannot be;
// s is unusable then.
func (s *symbol) note(e *exchange.Event, room *slots) error {
	if s.unfinished != 0 && (e.Kind != exchange.OrderContinued || e.Order != s.unfinished) {
		return fmt.Errorf("market: %s of order %d for %s, while order %d is unfinished",
			e.Kind, e.Order, s.name, s.unfinished)
	}
	switch e.Kind {
	case exchange.OrderReplaced:
		return s.replace(e, room)
	case exchange.OrderAccepted:
		return s.execute(e, room)
	case exchange.OrderContinued:
		if s.unfinished == 0 {
			return fmt.Errorf("market: order %d for %s goes on, and is not unfinished", e.Order, s.name)
		}
		return s.execute(e, room)
	case exchange.OrderCanceled, exchange.OrderReduced:
		return s.cancel(&exchange.Cancel{Order: e.Order, Terms: e.Terms, Shares: e.Shares})
	case exchange.SymbolRuled:
		s.rules = *e.SymbolRules
	case exchange.SymbolHalted:
		s.halt = &exchange.Halt{Since: e.Time, Reason: e.Reason}
	case exchange.SymbolResumed:
		s.halt = nil
	case exchange.AccountOpened, exchange.SymbolMade, exchange.SharesDeposited, exchange.OrdersCanceled,
		exchange.AccountRuled, exchange.SwitchSet:
		return fmt.Errorf("market: a record of kind %s is not one of a symbol's market", e.Kind)
	default:
		return fmt.Errorf("market: a record of unknown kind %s", e.Kind)
	}
	return nil
}

// replace takes in an order that replaces another one.
func (s *symbol) replace(e *exchange.Event, room *slots) error {
	old := &e.Amend.Old
	if err := s.cancel(old); err != nil {
		return err
	}
	if err := s.execute(e, room); err != nil {
		return err
	}
	if len(e.Fills)+len(e.Own) == 0 && e.Limit == old.Limit && e.Open() == old.Shares {
		s.touched = false // the total of the level is what it was
	}
	return nil
}

// cancel takes open shares of an order, none of which some amends take, out of its level. The error
// says that they are not there; s is unusable then.
func (s *symbol) cancel(e *exchange.Cancel) error {
	own, _ := s.side(e.Side)
	if e.Shares != 0 && !s.change(own, e.Limit, (-e.Shares).Position()) {
		return fmt.Errorf("market: %s of order %d for %s at %s are canceled, which is more than is open there",
			e.Shares, e.Order, s.name, e.Limit)
	}
	return nil
}
