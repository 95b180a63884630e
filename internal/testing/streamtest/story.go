package streamtest

import (
	"sync"
	"time"

	"outcry/internal/exchange"
)

// step is a moment of the story, with the records made at that moment.
type step struct {
	name    string
	after   time.Duration // time since the previous step
	records [][]byte
}

// story is a journal that grows, with the orders of the symbol S.
type story struct {
	mu    sync.Mutex // guards the fields below
	all   [][]byte
	next  int
	wakes []chan<- struct{}

	// The fields below are used only by steps.
	now   time.Time
	order exchange.OrderID
	list  []step
}

func newStory() *story { return &story{now: time.Now()} }

// TryNext implements trail.Records.
func (s *story) TryNext() (uint64, []byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == len(s.all) {
		return 0, nil, false, nil
	}
	s.next++
	return uint64(s.next), s.all[s.next-1], true, nil
}

// Close implements trail.Records.
func (s *story) Close() {}

// notify tells the feed of synced records.
func (s *story) notify(seq uint64, wake chan<- struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uint64(len(s.all)) >= seq {
		wake <- struct{}{}
		return
	}
	s.wakes = append(s.wakes, wake)
}

// add appends records, which are synced at once.
func (s *story) add(records ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, records...)
	if len(records) == 0 {
		return
	}
	for _, wake := range s.wakes {
		wake <- struct{}{}
	}
	s.wakes = nil
}

// at adds a step. The times between steps must not be multiples of the periods of the doors' timers.
func (s *story) at(name string, after time.Duration, records ...[]byte) {
	s.list = append(s.list, step{name, after, records})
}

// event encodes an event of S that happens at a time after the steps so far.
func (s *story) event(after time.Duration, e exchange.Event) []byte {
	e.Symbol, e.Time = "S", s.now.UnixNano()
	for i := range s.list {
		e.Time += int64(s.list[i].after)
	}
	e.Time += int64(after)
	if e.Kind != exchange.SymbolMade {
		e.Account = "1"
	}
	return exchange.AppendEvent(nil, &e)
}

// place encodes an order. Its fills, if any, are executions against order 1, the sell at 10.
func (s *story) place(after time.Duration, side exchange.Side, shares exchange.Shares, limit exchange.Price,
	fills ...exchange.Shares) []byte {
	s.order++
	e := exchange.Event{Kind: exchange.OrderAccepted, Order: s.order, Shares: shares,
		Terms: exchange.Terms{Side: side, Limit: limit}}
	for _, n := range fills {
		e.Fills = append(e.Fills, exchange.Fill{Resting: 1, Account: "1", Shares: n, Price: 10e8})
	}
	return s.event(after, e)
}

// cancel encodes the cancel of an order.
func (s *story) cancel(after time.Duration, id exchange.OrderID, side exchange.Side, shares exchange.Shares,
	limit exchange.Price) []byte {
	return s.event(after, exchange.Event{Kind: exchange.OrderCanceled, Order: id, Shares: shares,
		Terms: exchange.Terms{Side: side, Limit: limit}})
}

const ms = time.Millisecond

// steps returns the story.
func (s *story) steps() []step {
	const buy, sell = exchange.Buy, exchange.Sell
	s.at("the symbol is made", 3*ms, s.event(3*ms, exchange.Event{Kind: exchange.SymbolMade}),
		s.place(3*ms, sell, 1e15, 10e8)) // order 1
	s.at("early readers", 150*ms)
	s.at("a level", 7*ms, s.place(7*ms, buy, 5e8, 9e8)) // order 2
	s.at("a level that comes and goes", 31*ms, s.place(31*ms, buy, 1e8, 8e8), s.cancel(31*ms, 3, buy, 1e8, 8e8))
	s.at("two levels in two records", 23*ms, s.place(23*ms, buy, 2e8, 8e8), s.place(23*ms, buy, 2e8, 7e8))
	s.at("a trade", 1013*ms, s.place(1013*ms, buy, 3e8, 10e8, 3e8))
	s.at("three trades of one order", 17*ms, s.place(17*ms, buy, 6e8, 10e8, 1e8, 2e8, 3e8))
	s.at("late readers", 113*ms)
	s.at("a change just before the pace allows a message", 19*ms, s.place(19*ms, buy, 1e8, 9e8))
	s.at("and one more", 11*ms, s.place(11*ms, buy, 1e8, 9e8))
	s.at("a cancel of many", 333*ms, s.event(333*ms, exchange.Event{Kind: exchange.OrdersCanceled,
		Cancels: []exchange.Cancel{
			{Order: 2, Symbol: "S", Terms: exchange.Terms{Side: buy, Limit: 9e8}, Shares: 5e8},
			{Order: 4, Symbol: "S", Terms: exchange.Terms{Side: buy, Limit: 8e8}, Shares: 2e8}}}))
	s.at("a halt", 21*ms, s.event(21*ms, exchange.Event{Kind: exchange.SymbolHalted, Reason: "news"}))
	s.at("and its end", 27*ms, s.event(27*ms, exchange.Event{Kind: exchange.SymbolResumed}))
	s.at("a trade in a later second", 1117*ms, s.place(1117*ms, buy, 1e8, 10e8, 1e8))
	s.at("nothing for three seconds, in which a candle is closed", 29*ms)
	s.at("a trade of one second", 3011*ms, s.place(3011*ms, buy, 1e8, 10e8, 1e8))
	s.at("and one that is of the second before", 13*ms, s.place(-487*ms, buy, 1e8, 10e8, 1e8))
	s.at("slow readers stop reading", 37*ms)
	for range 15 {
		var many [][]byte
		for i := range exchange.Price(100) {
			many = append(many, s.place(21*ms, buy, 1e8, 5e8+i*1e6))
		}
		s.at("many levels", 21*ms, many...)
	}
	for range 12 {
		s.at("many trades", 21*ms, s.place(21*ms, buy, 500e8, 10e8, repeated(500, 1e8)...))
	}
	s.at("more trades, each in a second of its own", 1019*ms, s.place(1019*ms, buy, 1e8, 10e8, 1e8))
	s.at("the second", 1019*ms, s.place(1019*ms, buy, 1e8, 10e8, 1e8))
	s.at("slow readers read again", 41*ms)
	s.at("one more level", 313*ms, s.place(313*ms, buy, 1e8, 6e8))
	s.at("the last seconds", 3*ms)
	s.at("the end", 3017*ms)
	return s.list
}

func repeated(n int, shares exchange.Shares) []exchange.Shares {
	all := make([]exchange.Shares, n)
	for i := range all {
		all[i] = shares
	}
	return all
}
