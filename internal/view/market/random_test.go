package market

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"outcry/internal/exchange"
)

// randomMarket trades at random on the exchange's own books, and makes the records
// that the engine would.
type randomMarket struct {
	r       *rand.Rand
	spread  int // how many cents from the middle orders are placed, at the most
	symbols []*tradedSymbol
	owners  []*exchange.Account
	order   exchange.OrderID
	seq     uint64
	records [][]byte // since they were taken last
}

// tradedSymbol is what the market data of a symbol should be.
type tradedSymbol struct {
	name   exchange.Symbol
	book   *exchange.Book
	sent   []exchange.OrderID
	trades []exchange.Trade // all
	traded exchange.Traded
	rules  exchange.SymbolRules
}

func newRandomMarket(seed uint64, spread int) *randomMarket {
	return &randomMarket{r: rand.New(rand.NewPCG(seed, 1)), spread: spread, owners: []*exchange.Account{
		{ID: "1234567"}, {ID: "2"}}}
}

// take returns the records that were made since it was called last.
func (m *randomMarket) take() (records [][]byte) {
	records, m.records = m.records, nil
	return records
}

func (m *randomMarket) note(e exchange.Event) {
	m.seq++
	m.records = append(m.records, exchange.AppendEvent(nil, &e))
}

func (m *randomMarket) makeSymbol() {
	// Not in the order of their names.
	s := &tradedSymbol{name: exchange.Symbol(fmt.Sprintf("S%04d", (len(m.symbols)*7919)%10007)),
		book: (&exchange.Index{FillsMax: 2}).NewBook()}
	m.symbols = append(m.symbols, s)
	m.note(exchange.Event{Kind: exchange.SymbolMade, Time: m.now(), Symbol: s.name})
}

// trade places an order, most often, or cancels one; now and then it cancels many, or
// halts a symbol for a moment.
func (m *randomMarket) trade() {
	s := m.symbols[m.r.IntN(len(m.symbols))]
	if s.book.Unfinished() != 0 {
		m.goOn(s)
		return
	}
	switch halted := s.book.Halted() != nil; {
	case m.r.IntN(1000) == 0:
		m.cancelMany()
	case halted && m.r.IntN(4) == 0:
		s.book.Resume()
		m.note(exchange.Event{Kind: exchange.SymbolResumed, Time: m.now(), Symbol: s.name})
	case !halted && m.r.IntN(300) == 0:
		h := &exchange.Halt{Since: m.now(), Reason: fmt.Sprintf("reason \"%d\"", m.seq)}
		s.book.Halt(h)
		m.note(exchange.Event{Kind: exchange.SymbolHalted, Time: h.Since, Symbol: s.name, Reason: h.Reason})
	case m.r.IntN(300) == 0:
		s.rules = exchange.SymbolRules{Tick: exchange.Price(m.r.IntN(2)), Lot: exchange.Shares(m.r.IntN(2)),
			Band: exchange.Fraction(m.r.IntN(2))}
		rules := s.rules
		m.note(exchange.Event{Kind: exchange.SymbolRuled, Time: m.now(), Symbol: s.name, SymbolRules: &rules})
	case halted:
		m.cancelOne(s)
	default:
		m.placeOrCancel(s)
	}
}

func (m *randomMarket) placeOrCancel(s *tradedSymbol) {
	if m.r.IntN(4) > 0 || !m.cancelOne(s) {
		m.place(s)
	}
}

func (m *randomMarket) place(s *tradedSymbol) {
	if s.book.Unfinished() != 0 {
		m.goOn(s)
		return
	}
	o := m.draw(s)
	m.order++
	o.ID = m.order
	e := exchange.Event{}
	fills := s.book.Submit(&o, m.now(), nil)
	m.enter(s, &e, exchange.OrderAccepted, &o, fills)
}

// goOn executes the next part of the symbol's unfinished order.
func (m *randomMarket) goOn(s *tradedSymbol) {
	o, _ := s.book.Find(s.book.Unfinished())
	e, open := exchange.Event{Before: len(o.Executions)}, o.Open
	fills := s.book.Continue(&o, m.now(), nil)
	e.Note(exchange.OrderContinued, &o, s.name, open, m.now())
	e.Before = len(o.Executions) - len(fills)
	e.Fills = fills
	e.NoteMore(&o, slices.Clone(s.book.Own()))
	m.noteTrades(s, e)
}

func (m *randomMarket) noteTrades(s *tradedSymbol, e exchange.Event) {
	for i := range e.Fills {
		t := e.Trade(i)
		s.trades = append(s.trades, t)
		s.traded.Add(&t)
	}
	m.note(e)
}

// now is a time within the second that the next record's number tells.
func (m *randomMarket) now() int64 { return int64(m.seq)*exchange.Second + 999_999_999 }

// cancelOne cancels one of the newer orders, where one that it looks at is open.
func (m *randomMarket) cancelOne(s *tradedSymbol) bool {
	for range min(10, len(s.sent)) {
		if m.cancel(s, s.sent[len(s.sent)-1-m.r.IntN(min(len(s.sent), 300))]) {
			return true
		}
	}
	return false
}

func (m *randomMarket) cancel(s *tradedSymbol, id exchange.OrderID) bool {
	if s.book.Unfinished() != 0 {
		return false
	}
	found, _ := s.book.Find(id)
	if found.Open == 0 {
		return false
	}
	if m.r.IntN(3) == 0 {
		return m.amend(s, &found)
	}
	return m.withdraw(s, &found)
}

// withdraw cancels an order.
func (m *randomMarket) withdraw(s *tradedSymbol, found *exchange.Order) bool {
	o, r := s.book.Cancel(found.ID, found.Account.ID, m.now())
	if r != exchange.OK {
		return false
	}
	var e exchange.Event
	e.Note(exchange.OrderCanceled, &o, s.name, o.Canceled, m.now())
	m.note(e)
	return true
}

// cancelMany empties some books with one record.
func (m *randomMarket) cancelMany() {
	owner := m.owners[m.r.IntN(len(m.owners))]
	e := exchange.Event{Kind: exchange.OrdersCanceled, Time: m.now(), Account: owner.ID}
	for _, s := range m.symbols {
		if m.r.IntN(3) > 0 || s.book.Unfinished() != 0 {
			continue
		}
		for o := range s.book.OpenOf(owner) {
			e.Cancels = append(e.Cancels, exchange.Cancel{Order: o.ID, Symbol: s.name, Terms: o.Terms, Shares: o.Open})
		}
		for _, id := range s.sent {
			s.book.Cancel(id, owner.ID, e.Time)
		}
	}
	if len(e.Cancels) == 0 {
		return
	}
	slices.SortFunc(e.Cancels, func(a, b exchange.Cancel) int { return a.Compare(&b) })
	m.note(e)
}

// cancelAll empties all books.
func (m *randomMarket) cancelAll() {
	for _, s := range m.symbols {
		for s.book.Unfinished() != 0 {
			m.goOn(s)
		}
		for _, id := range s.sent {
			if found, _ := s.book.Find(id); found.Open > 0 {
				m.withdraw(s, &found)
			}
		}
	}
}

// levelsOf adds up what is open at each price of a side, best first, except for an order of
// which the next part is to come.
func (s *tradedSymbol) levelsOf(side exchange.Side) (want [][2]string) {
	open := map[exchange.Price]exchange.Position{}
	for o := range s.book.Orders() {
		if o.Open > 0 && o.Side == side && o.ID != s.book.Unfinished() {
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
