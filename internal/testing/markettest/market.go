// Package markettest makes journal records of markets for tests: single records, those of a market that trades at
// random, and those of a market for candles.
package markettest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"outcry/internal/exchange"
)

// RandomMarket trades at random on the exchange's own books, and makes the records that the engine would make.
type RandomMarket struct {
	r       *rand.Rand
	spread  int // how many cents from the middle orders are placed, at most
	Symbols []*TradedSymbol
	owners  []*exchange.Account
	order   exchange.OrderID
	Seq     uint64
	Records [][]byte // records made since the last call of Take
}

// TradedSymbol has the correct market data of a symbol, to be compared with an implementation's.
type TradedSymbol struct {
	Name   exchange.Symbol
	Book   *exchange.Book
	sent   []exchange.OrderID
	Trades []exchange.Trade // all trades so far
	Traded exchange.Traded
	Rules  exchange.SymbolRules
}

// NewRandomMarket returns a market without symbols. Orders are up to spread cents from the middle.
func NewRandomMarket(seed uint64, spread int) *RandomMarket {
	return &RandomMarket{r: rand.New(rand.NewPCG(seed, 1)), spread: spread, owners: []*exchange.Account{
		{ID: "1234567"}, {ID: "2"}}}
}

// Take returns the records that were made since the last call.
func (m *RandomMarket) Take() (records [][]byte) {
	records, m.Records = m.Records, nil
	return records
}

func (m *RandomMarket) record(e exchange.Event) {
	m.Seq++
	m.Records = append(m.Records, exchange.AppendEvent(nil, &e))
}

// MakeSymbol adds a symbol.
func (m *RandomMarket) MakeSymbol() {
	// Symbols are not made in the order of their names.
	s := &TradedSymbol{Name: exchange.Symbol(fmt.Sprintf("S%04d", (len(m.Symbols)*7919)%10007)),
		Book: (&exchange.Index{FillsMax: 2}).NewBook()}
	m.Symbols = append(m.Symbols, s)
	m.record(exchange.Event{Kind: exchange.SymbolMade, Time: m.now(), Symbol: s.Name})
}

// Trade mostly places an order or cancels one. Sometimes it cancels many, or halts a symbol for a moment.
func (m *RandomMarket) Trade() {
	s := m.Symbols[m.r.IntN(len(m.Symbols))]
	if s.Book.Unfinished() != 0 {
		m.continueOrder(s)
		return
	}
	switch halted := s.Book.Halted() != nil; {
	case m.r.IntN(1000) == 0:
		m.cancelMany()
	case halted && m.r.IntN(4) == 0:
		s.Book.Resume()
		m.record(exchange.Event{Kind: exchange.SymbolResumed, Time: m.now(), Symbol: s.Name})
	case !halted && m.r.IntN(300) == 0:
		h := &exchange.Halt{Since: m.now(), Reason: fmt.Sprintf("reason \"%d\"", m.Seq)}
		s.Book.Halt(h)
		m.record(exchange.Event{Kind: exchange.SymbolHalted, Time: h.Since, Symbol: s.Name, Reason: h.Reason})
	case m.r.IntN(300) == 0:
		s.Rules = exchange.SymbolRules{Tick: exchange.Price(m.r.IntN(2)), Lot: exchange.Shares(m.r.IntN(2)),
			Band: exchange.Fraction(m.r.IntN(2))}
		rules := s.Rules
		m.record(exchange.Event{Kind: exchange.SymbolRuled, Time: m.now(), Symbol: s.Name, SymbolRules: &rules})
	case halted:
		m.cancelOne(s)
	default:
		m.placeOrCancel(s)
	}
}

func (m *RandomMarket) placeOrCancel(s *TradedSymbol) {
	if m.r.IntN(4) > 0 || !m.cancelOne(s) {
		m.Place(s)
	}
}

// Place places an order, or continues the symbol's unfinished one.
func (m *RandomMarket) Place(s *TradedSymbol) {
	if s.Book.Unfinished() != 0 {
		m.continueOrder(s)
		return
	}
	o := m.draw(s)
	m.order++
	o.ID = m.order
	e := exchange.Event{}
	fills := s.Book.Submit(&o, m.now(), nil)
	m.enter(s, &e, exchange.OrderAccepted, &o, fills)
}

// continueOrder executes the next part of the symbol's unfinished order.
func (m *RandomMarket) continueOrder(s *TradedSymbol) {
	o, _ := s.Book.Find(s.Book.Unfinished())
	e, open := exchange.Event{Before: len(o.Executions)}, o.Open
	fills := s.Book.Continue(&o, m.now(), nil)
	e.Note(exchange.OrderContinued, &o, s.Name, open, m.now())
	e.Before = len(o.Executions) - len(fills)
	e.Fills = fills
	e.NoteMore(&o, slices.Clone(s.Book.Own()))
	m.noteTrades(s, e)
}

func (m *RandomMarket) noteTrades(s *TradedSymbol, e exchange.Event) {
	for i := range e.Fills {
		t := e.Trade(i)
		s.Trades = append(s.Trades, t)
		s.Traded.Add(&t)
	}
	m.record(e)
}

// now returns a time in the second with the number of the newest record.
func (m *RandomMarket) now() int64 { return int64(m.Seq)*exchange.Second + 999_999_999 }

// cancelOne cancels one of the newer orders. It returns false if none of the orders that it tries is open.
func (m *RandomMarket) cancelOne(s *TradedSymbol) bool {
	for range min(10, len(s.sent)) {
		if m.cancel(s, s.sent[len(s.sent)-1-m.r.IntN(min(len(s.sent), 300))]) {
			return true
		}
	}
	return false
}

func (m *RandomMarket) cancel(s *TradedSymbol, id exchange.OrderID) bool {
	if s.Book.Unfinished() != 0 {
		return false
	}
	found, _ := s.Book.Find(id)
	if found.Open == 0 {
		return false
	}
	if m.r.IntN(3) == 0 {
		return m.amend(s, &found)
	}
	return m.withdraw(s, &found)
}

// withdraw cancels an order.
func (m *RandomMarket) withdraw(s *TradedSymbol, found *exchange.Order) bool {
	o, r := s.Book.Cancel(found.ID, found.Account.ID, m.now())
	if r != exchange.OK {
		return false
	}
	var e exchange.Event
	e.Note(exchange.OrderCanceled, &o, s.Name, o.Canceled, m.now())
	m.record(e)
	return true
}

// cancelMany empties some books with one record.
func (m *RandomMarket) cancelMany() {
	owner := m.owners[m.r.IntN(len(m.owners))]
	e := exchange.Event{Kind: exchange.OrdersCanceled, Time: m.now(), Account: owner.ID}
	for _, s := range m.Symbols {
		if m.r.IntN(3) > 0 || s.Book.Unfinished() != 0 {
			continue
		}
		for o := range s.Book.OpenOf(owner) {
			e.Cancels = append(e.Cancels, exchange.Cancel{Order: o.ID, Symbol: s.Name, Terms: o.Terms, Shares: o.Open})
		}
		for _, id := range s.sent {
			s.Book.Cancel(id, owner.ID, e.Time)
		}
	}
	if len(e.Cancels) == 0 {
		return
	}
	slices.SortFunc(e.Cancels, func(a, b exchange.Cancel) int { return a.Compare(&b) })
	m.record(e)
}

// CancelAll empties all books.
func (m *RandomMarket) CancelAll() {
	for _, s := range m.Symbols {
		for s.Book.Unfinished() != 0 {
			m.continueOrder(s)
		}
		for _, id := range s.sent {
			if found, _ := s.Book.Find(id); found.Open > 0 {
				m.withdraw(s, &found)
			}
		}
	}
}

// LevelsOf returns the open shares at each price of a side, best first, without the symbol's unfinished order.
func (s *TradedSymbol) LevelsOf(side exchange.Side) (want [][2]string) {
	open := map[exchange.Price]exchange.Position{}
	for o := range s.Book.Orders() {
		if o.Open > 0 && o.Side == side && o.ID != s.Book.Unfinished() {
			open[o.Limit] = open[o.Limit].Add(o.Open.Position())
		}
	}
	prices := make([]exchange.Price, 0, len(open))
	for p := range open {
		prices = append(prices, p)
	}
	slices.Sort(prices)
	if side == exchange.Buy {
		slices.Reverse(prices)
	}
	want = [][2]string{}
	for _, p := range prices {
		want = append(want, [2]string{p.String(), open[p].String()})
	}
	return want
}
