package markettest

import (
	"slices"

	"outcry/internal/exchange"
)

// draw returns an order for a symbol that the engine would accept, half the time without instructions: a post order
// does not execute at once, and an FOK order executes completely.
func (m *RandomMarket) draw(s *TradedSymbol) exchange.Order {
	side, away := exchange.Side(1+m.r.IntN(2)), exchange.Price(m.r.IntN(m.spread)-m.spread/4)*1e6
	if side == exchange.Buy {
		away = -away
	}
	shares := exchange.Shares(1 + m.r.IntN(100))
	o := exchange.Order{Account: m.owners[m.r.IntN(len(m.owners))], Shares: shares, Open: shares,
		Terms: exchange.Terms{Side: side, Limit: 100e8 + away}}
	if m.r.IntN(2) == 0 {
		return o
	}
	o.STP = exchange.SelfTrade(m.r.IntN(4))
	switch o.TIF = exchange.TimeInForce(m.r.IntN(3)); {
	case o.TIF != exchange.GTC && m.r.IntN(2) == 0:
		o.Type = exchange.Market
	case o.TIF == exchange.GTC:
		o.Post = s.Book.Quote(&o).Best == 0 || o.STP == exchange.TradeWithSelf && s.Book.Quote(&o).Orders == 0
	}
	if o.TIF == exchange.FOK && s.Book.Quote(&o).Shares < shares {
		o.TIF = exchange.IOC
	}
	return o
}

// enter makes the record of an order that was placed or that replaced another order.
func (m *RandomMarket) enter(s *TradedSymbol, e *exchange.Event, kind exchange.EventKind, o *exchange.Order,
	fills []exchange.Fill) {
	amend := e.Amend
	e.Note(kind, o, s.Name, o.Shares, m.now())
	e.Fills, e.Amend, e.Hold = fills, amend, s.Book.HoldOf(o)
	e.NoteMore(o, slices.Clone(s.Book.Own()))
	s.sent = append(s.sent, o.ID)
	m.noteTrades(s, *e)
}

// amend reduces an open order, or replaces it.
func (m *RandomMarket) amend(s *TradedSymbol, o *exchange.Order) bool {
	e, executed := exchange.Event{}, o.ChainExecuted()
	if o.Open > 1 && m.r.IntN(2) == 0 {
		off := 1 + exchange.Shares(m.r.IntN(int(o.Open-1)))
		total := executed + o.Open - off
		e.Note(exchange.OrderReduced, o, s.Name, off, m.now())
		e.Amend = o.Amendment(exchange.OrderReduced, total, 0, off)
		s.Book.Reduce(o.ID, o.Account.ID, off, m.now())
		m.record(e)
		return true
	}
	total, limit := executed+1+exchange.Shares(m.r.IntN(100)), o.Limit+exchange.Price(m.r.IntN(9)-4)*1e6
	n := o.Replacement(total, limit)
	if n.Post && (s.Book.Quote(&n).Orders > 0 || n.STP != exchange.TradeWithSelf) {
		return false
	}
	m.order++
	n.ID = m.order
	e.Amend = o.Amendment(exchange.OrderReplaced, total, limit, 0)
	fills := s.Book.Replace(&n, m.now(), nil)
	m.enter(s, &e, exchange.OrderReplaced, &n, fills)
	return true
}
