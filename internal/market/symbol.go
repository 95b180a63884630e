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
	seq        uint64         // of the last record that changed anything
	waits      bool           // to be published; Run's own
}

func newSymbol(name exchange.Symbol, seq uint64) *symbol {
	return &symbol{name: name, bids: levels{up: 1}, asks: levels{up: -1}, tape: tape{first: 1}, seq: seq}
}

// side returns the levels of a side and of the one that it trades with.
func (s *symbol) side(side exchange.Side) (own, opposite *levels) {
	if side == exchange.Buy {
		return &s.bids, &s.asks
	}
	return &s.asks, &s.bids
}

// accept takes in an order with what it did. The error says which level does not
// hold what the order took from it; s is unusable then.
func (s *symbol) accept(e *exchange.Event, slots *int) error {
	own, opposite := s.side(e.Side)
	open := e.Shares
	for i := range e.Fills {
		f := &e.Fills[i]
		open -= f.Shares
		if !opposite.add(f.Price, (-f.Shares).Position()) {
			return fmt.Errorf("market: order %d takes %s of %s at %s, which is more than is open there", e.Order, f.Shares, s.name, f.Price)
		}
		t := e.Trade(i)
		s.traded.Add(&t)
		s.tape.add(t, slots)
	}
	if open > 0 {
		own.add(e.Limit, open.Position())
	}
	return nil
}

// note takes in an event of an order, a halt or its end. The error says what cannot be;
// s is unusable then.
func (s *symbol) note(e *exchange.Event, slots *int) error {
	switch e.Kind {
	case exchange.OrderAccepted:
		return s.accept(e, slots)
	case exchange.OrderCanceled:
		return s.cancel(e)
	case exchange.SymbolHalted:
		s.halt = &exchange.Halt{Since: e.Time, Reason: e.Reason}
	case exchange.SymbolResumed:
		s.halt = nil
	}
	return nil
}

// cancel takes a canceled order's open shares out of its level. The error says that
// they are not there; s is unusable then.
func (s *symbol) cancel(e *exchange.Event) error {
	own, _ := s.side(e.Side)
	if !own.add(e.Limit, (-e.Shares).Position()) {
		return fmt.Errorf("market: %s of order %d for %s at %s are canceled, which is more than is open there", e.Shares, e.Order, s.name, e.Limit)
	}
	return nil
}
