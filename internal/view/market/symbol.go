package market

import (
	"fmt"
	"strings"

	"outcry/internal/exchange"
)

// symbol is the market of one symbol.
type symbol struct {
	name       exchange.Symbol
	bids, asks levels
	traded     exchange.Traded
	tape       tape
	halt       *exchange.Halt // nil while the symbol accepts orders
	rules      exchange.SymbolRules
	seq        uint64 // last record that changed anything

	// unfinished is the order whose further parts are still to come, 0 if there is none. It is not in the levels, so that
	// no reader sees a crossed book.
	unfinished exchange.OrderID
	waits      bool // in Feed.pending; used only by Run

	bookSeq uint64   // last record that changed a level's total
	touched bool     // whether the current record has changed a level's total
	heard   *heard   // nil without listeners
	candles *candles // nil before the first trade
}

// slots counts the places in the rings of all symbols.
type slots struct{ trades, candles int }

func newSymbol(name exchange.Symbol, seq uint64) *symbol {
	return &symbol{name: name, bids: levels{up: 1}, asks: levels{up: -1}, tape: tape{first: 1}, seq: seq,
		bookSeq: seq}
}

// change changes the open shares at a price. ok is false if the result would be negative, and then the level is
// unchanged.
func (s *symbol) change(l *levels, price exchange.Price, by exchange.Position) (ok bool) {
	s.touched = true
	if s.heard != nil {
		s.heard.marks.note(l, price)
	}
	return l.add(price, by)
}

// side returns the levels of a side and of the opposite side.
func (s *symbol) side(side exchange.Side) (own, opposite *levels) {
	if side == exchange.Buy {
		return &s.bids, &s.asks
	}
	return &s.asks, &s.bids
}

// execute applies an order, or a further part of it, with its fills and cancels. The error names a level that has fewer
// open shares than the order takes from it; s is unusable then.
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

// rest adds an order's open shares to its level. An order that crosses is not added: further parts of it will follow.
// The error says that an order of this kind cannot rest.
func (s *symbol) rest(id exchange.OrderID, t *exchange.Terms, open exchange.Shares) error {
	own, opposite := s.side(t.Side)
	switch {
	case open <= 0:
		return fmt.Errorf("market: order %d for %s has %s open", id, s.name, open)
	case opposite.meets(t.Limit):
		s.unfinished = id
		return nil
	case t.TIF != exchange.GTC:
		return fmt.Errorf("market: order %d for %s is %s, and is resting at %s", id, s.name, t.TIF, t.Limit)
	}
	s.change(own, t.Limit, open.Position())
	return nil
}

// note applies an event of an order, a halt, the end of a halt, or new rules. The error says what is impossible in
// the event; s is unusable then.
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
			return fmt.Errorf("market: order %d for %s continues, but is not unfinished", e.Order, s.name)
		}
		return s.execute(e, room)
	case exchange.OrderCanceled, exchange.OrderReduced:
		return s.cancel(&exchange.Cancel{Order: e.Order, Terms: e.Terms, Shares: e.Shares})
	case exchange.SymbolRuled:
		s.rules = *e.SymbolRules
	case exchange.SymbolHalted:
		s.halt = &exchange.Halt{Since: e.Time, Reason: strings.Clone(e.Reason)}
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

// replace applies an order that replaces another one.
func (s *symbol) replace(e *exchange.Event, room *slots) error {
	old := &e.Amend.Old
	if err := s.cancel(old); err != nil {
		return err
	}
	if err := s.execute(e, room); err != nil {
		return err
	}
	if len(e.Fills)+len(e.Own) == 0 && e.Limit == old.Limit && e.Open() == old.Shares {
		s.touched = false // the total of the level is unchanged
	}
	return nil
}

// cancel subtracts canceled shares from their level. An amend may cancel no shares. The error says that the level
// has fewer; s is unusable then.
func (s *symbol) cancel(e *exchange.Cancel) error {
	own, _ := s.side(e.Side)
	if e.Shares != 0 && !s.change(own, e.Limit, (-e.Shares).Position()) {
		return fmt.Errorf("market: %s of order %d for %s at %s are canceled, which is more than is open there",
			e.Shares, e.Order, s.name, e.Limit)
	}
	return nil
}
