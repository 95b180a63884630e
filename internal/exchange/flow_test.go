package exchange

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// flow is a prepared sequence of commands for one book: 60 % are orders that rest near a moving price, 25 % cancel a
// random resting order, 15 % execute against one to five levels. The number of resting orders stays close to that at
// the start: a step that would move it too far away is replaced by a different step.
type flow struct {
	accounts []AccountID
	begin    []step // steps that build the book before the measured steps
	steps    []step
}

// step is one command of a flow. It is small, so that reading it does not evict the book
// from the processor's caches.
type step struct {
	order   uint32
	limit   int32 // in ticks
	shares  uint32
	account uint16
	side    Side
	cancel  bool
}

const (
	flowSteps    = 1_000_000
	flowResting  = 10_000
	flowAccounts = 1_000
	tick         = 1e6 // one cent
)

// flowMaker executes a flow while making it, to know which orders cancels and sweeps meet.
type flowMaker struct {
	r        *rand.Rand
	book     *Book
	accounts []*Account
	spread   int64     // maximum distance of a resting order from the price, in ticks
	middle   int64     // the moving price, in ticks
	open     []OrderID // may contain closed orders; they are skipped
	owner    map[OrderID]uint16
	last     OrderID
	fills    []Fill
}

func newFlow(spread int64) *flow {
	m := &flowMaker{r: rand.New(rand.NewPCG(1, 2)), book: NewBook(), spread: spread, middle: 1_000_000,
		owner: map[OrderID]uint16{}}
	f := &flow{}
	for i := range flowAccounts {
		f.accounts = append(f.accounts, AccountID(fmt.Sprint(100_000+i)))
		m.accounts = append(m.accounts, &Account{ID: f.accounts[i]})
	}
	for m.book.Resting() < flowResting {
		f.begin = append(f.begin, m.rest())
	}
	for len(f.steps) < flowSteps {
		f.steps = append(f.steps, m.step())
	}
	return f
}

func (m *flowMaker) step() step {
	m.middle += m.r.Int64N(3) - 1
	n, resting := m.r.IntN(100), m.book.Resting()
	switch {
	case n >= 85:
		return m.sweep()
	case n < 60 && resting < flowResting*11/10 || resting < flowResting*9/10:
		return m.rest()
	}
	return m.cancel()
}

// rest makes an order that rests close to the price and never crosses.
func (m *flowMaker) rest() step {
	away := 1 + min(m.r.Int64N(m.spread), m.r.Int64N(m.spread))
	if m.r.IntN(2) == 0 {
		limit := m.middle - away
		if ask := m.book.Best(Sell); ask != 0 {
			limit = min(limit, int64(ask)/tick-1)
		}
		return m.submit(Buy, 100+m.r.Int64N(100), limit)
	}
	return m.submit(Sell, 100+m.r.Int64N(100), max(m.middle+away, int64(m.book.Best(Buy))/tick+1))
}

func (m *flowMaker) submit(side Side, shares, limit int64) step {
	m.last++
	s := step{side: side, account: uint16(m.r.IntN(flowAccounts)), order: uint32(m.last), shares: uint32(shares),
		limit: int32(limit)}
	m.owner[m.last] = s.account
	m.fills = s.submit(m.book, m.accounts, m.fills[:0])
	if found(m.book, m.last) {
		m.open = append(m.open, m.last)
	}
	return s
}

// cancel makes a cancel of a random resting order.
func (m *flowMaker) cancel() step {
	for {
		i := m.r.IntN(len(m.open))
		id := m.open[i]
		m.open[i] = m.open[len(m.open)-1]
		m.open = m.open[:len(m.open)-1]
		if found(m.book, id) {
			s := step{cancel: true, account: m.owner[id], order: uint32(id)}
			s.revoke(m.book, m.accounts)
			return s
		}
	}
}

// sweep makes an order that executes against all orders of the best one to five levels.
func (m *flowMaker) sweep() step {
	side := Buy + Side(m.r.IntN(2))
	levels, shares, limit := 1+min(m.r.IntN(5), m.r.IntN(5)), Shares(0), Price(0)
	probe := NewOrder(m.last+1, m.accounts[0], side, orderUnitsMax-1, orderUnitsMax-1)
	if side == Sell {
		probe.Limit = 1
	}
	for n := range m.book.matches(probe) {
		if n.limit != limit {
			if levels--; levels < 0 {
				break
			}
			limit = n.limit
		}
		shares += n.left
	}
	if shares == 0 {
		return m.rest()
	}
	return m.submit(side, int64(shares), int64(limit)/tick)
}

func (s *step) newOrder(a *Account) *Order {
	return NewOrder(OrderID(s.order), a, s.side, Shares(s.shares), Price(s.limit)*tick)
}

// submit submits the step's order and forgets all closed orders, which may include the order
// itself.
func (s *step) submit(book *Book, accounts []*Account, fills []Fill) []Fill {
	fills = book.Submit(s.newOrder(accounts[s.account]), 0, fills)
	forgetAll(book)
	return fills
}

func forgetAll(book *Book) {
	for book.Forget() != 0 {
	}
}

// revoke executes the step's cancel and forgets the order.
func (s *step) revoke(book *Book, accounts []*Account) {
	if _, r := book.Cancel(OrderID(s.order), accounts[s.account].ID, 0); r != OK {
		panic(r)
	}
	forgetAll(book)
}

// spreads are the maximum distances from the price, in ticks, of the orders in a measured flow:
// near, with about four orders at a price, and wide, where most orders have a price of their own.
// With a smaller spread five levels would hold so much that sweeps empty the book.
var spreads = []struct {
	name  string
	ticks int64
}{{"near", 2_000}, {"wide", 20_000}}

// BenchmarkBook measures one command of the flow, only the calls of the book: the flow is
// made in advance.
func BenchmarkBook(b *testing.B) {
	for _, spread := range spreads {
		f := newFlow(spread.ticks)
		b.Run(spread.name, func(b *testing.B) {
			accounts := make([]*Account, len(f.accounts))
			for i, id := range f.accounts {
				accounts[i] = &Account{ID: id}
			}
			var fills []Fill
			var book *Book
			run := func(s *step) {
				if s.cancel {
					s.revoke(book, accounts)
				} else {
					fills = s.submit(book, accounts, fills[:0])
				}
			}
			next, filled := len(f.steps), 0
			b.ReportAllocs()
			for b.Loop() {
				if next == len(f.steps) {
					b.StopTimer()
					book, next = NewBook(), 0
					for i := range f.begin {
						run(&f.begin[i])
					}
					b.StartTimer()
				}
				run(&f.steps[next])
				filled += len(fills)
				next++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mops/s")
			if err := book.Check(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkOrderPath measures one command of the flow on its whole way through the core:
// account, hold, book, encoded event, and settlement.
func BenchmarkOrderPath(b *testing.B) {
	for _, spread := range spreads {
		f := newFlow(spread.ticks)
		b.Run(spread.name, func(b *testing.B) {
			var path *orderPath
			next := len(f.steps)
			b.ReportAllocs()
			for b.Loop() {
				if next == len(f.steps) {
					b.StopTimer()
					path, next = newOrderPath(f), 0
					b.StartTimer()
				}
				path.run(&f.steps[next])
				next++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mops/s")
			if err := path.state.Audit(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// orderPath executes a flow as a shard of the engine does.
type orderPath struct {
	state      *State
	flow       *flow
	book       *Book
	instrument *Instrument
	fills      []Fill
	event      Event
	record     []byte
}

func newOrderPath(f *flow) *orderPath {
	p := &orderPath{state: NewState(), flow: f}
	p.book = p.state.List("SPY")
	p.instrument = p.state.Ledger.Instrument("SPY")
	for _, id := range f.accounts {
		p.state.Ledger.Open(id, Cash(mul64(1e17, 1e16)))
		p.state.Ledger.Deposit(p.instrument, id, Position(mul64(1e17, 1e8)))
	}
	for i := range f.begin {
		p.run(&f.begin[i])
	}
	return p
}

func (p *orderPath) run(s *step) {
	id := p.flow.accounts[s.account]
	if s.cancel {
		o, r := p.book.Cancel(OrderID(s.order), id, 0)
		if r != OK {
			panic(r)
		}
		p.encode(OrderCanceled, &o, o.Canceled, nil)
		p.state.Ledger.Release(p.instrument, &o)
		forgetAll(p.book)
		return
	}
	o := s.newOrder(p.state.Ledger.Account(id))
	if r := p.state.Ledger.Reserve(p.instrument, o); r != OK {
		panic(r)
	}
	p.fills = p.book.Submit(o, 0, p.fills[:0])
	p.encode(OrderAccepted, o, o.Shares, p.fills)
	p.state.Ledger.Settle(p.instrument, o, p.fills)
	forgetAll(p.book)
}

// encode encodes an event, as a shard does.
func (p *orderPath) encode(kind EventKind, o *Order, shares Shares, fills []Fill) {
	e := &p.event
	e.Kind, e.Account, e.Symbol = kind, o.Account.ID, "SPY"
	e.Order, e.Side, e.Shares, e.Limit, e.Fills = o.ID, o.Side, shares, o.Limit, fills
	p.record = AppendEvent(p.record[:0], e)
}
