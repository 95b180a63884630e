package market

import (
	"cmp"
	"fmt"
	"slices"

	"outcry/internal/exchange"
)

// Change is what one journal record did to the levels and the trades of a symbol. A record that did nothing to
// them, such as a halt, makes none. It is valid during the call that it is an argument of.
type Change struct {
	Symbol exchange.Symbol
	Seq    uint64 // of the record
	Time   int64  // of the record, nanoseconds since the Unix epoch

	// Bids and Asks are the new totals of the levels that changed, best first, each price once.
	// If there are any, Seq is the book's newest record and Prev the one before: of a listener's first, that is the
	// BookSeq that it was begun with.
	Bids, Asks []Level
	Prev       uint64

	Trades     []exchange.Trade // in the order of their numbers
	FirstTrade uint64           // the number of the first of them; 0 if there are none

	Market *Market // as it stands after the record
}

// Listener is told what happens to the market of a symbol. Its methods are called by the feed's goroutine under its
// lock: they must not block, and call no method of the Feed, nor leave.
type Listener interface {
	// Change is called for each record that changed the levels or the trades, in the order of the journal.
	Change(c *Change)
	// Flush is called after some Changes, at most some hundred records: now it is time to send what they came to.
	Flush()
	// End is called once the feed has ended, with the reason. Nothing follows.
	End(err error)
}

// listening is a listener that has not left.
type listening struct {
	Listener
	unflushed bool
}

// heard is what a symbol has while somebody listens to it.
type heard struct {
	marks     *marks // the feed's
	listeners []*listening
}

// Listen makes l hear of a symbol's market until leave is called. It calls begin first, with the market as it
// stands, and all changes after that follow, without one twice or missing. begin is called under the feed's lock,
// and must do as a Listener's methods; leave may be called from anywhere else, more than once, but under no lock
// that l takes: once it has returned, l is not called any more. The error wraps ErrUnknownSymbol, or says why there
// is no market data; nothing was called then.
//
// Callers see to it that few listen to the same symbol: a door has one for all its readers.
func (f *Feed) Listen(sym exchange.Symbol, l Listener, begin func(*Market)) (leave func(), err error) {
	if err := f.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil, f.end()
	}
	s := f.symbols[sym]
	if s == nil {
		return nil, fmt.Errorf("%w %q", ErrUnknownSymbol, sym)
	}
	begin(&Market{s: s, seq: f.seq.Load()})
	one := &listening{Listener: l}
	if s.heard == nil {
		s.heard = &heard{marks: &f.marks}
		f.heard[s] = struct{}{}
	}
	s.heard.listeners = append(s.heard.listeners, one)
	f.pace.Hurry()
	return func() { f.leave(s, one) }, nil
}

// leave ends a listener.
func (f *Feed) leave(s *symbol, one *listening) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.heard == nil {
		return
	}
	i := slices.Index(s.heard.listeners, one)
	if i < 0 {
		return
	}
	if s.heard.listeners = slices.Delete(s.heard.listeners, i, i+1); len(s.heard.listeners) == 0 {
		s.heard = nil
		delete(f.heard, s)
	}
}

// listened reports whether somebody listens to any symbol.
func (f *Feed) listened() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.heard) > 0
}

// tell calls the listeners of a symbol if a record has changed its levels or trades, and says in s.touched whether
// it was the levels. e is the last event of the record for it. Its caller holds mu.
func (f *Feed) tell(s *symbol, seq uint64, e *exchange.Event) {
	c := &f.change
	c.Bids, f.marks.bids = changed(c.Bids[:0], f.marks.bids, &s.bids)
	c.Asks, f.marks.asks = changed(c.Asks[:0], f.marks.asks, &s.asks)
	c.Trades, c.FirstTrade = c.Trades[:0], 0
	for i := range e.Fills {
		c.Trades = append(c.Trades, e.Trade(i))
	}
	s.touched = len(c.Bids)+len(c.Asks) > 0
	if !s.touched && len(c.Trades) == 0 {
		return
	}
	if n := uint64(len(c.Trades)); n > 0 {
		c.FirstTrade = s.tape.last + 1 - n
	}
	c.Symbol, c.Seq, c.Time, c.Prev = s.name, seq, e.Time, s.bookSeq
	if s.touched {
		s.bookSeq = seq
	}
	f.market.s, f.market.seq = s, seq
	c.Market = &f.market
	for _, one := range s.heard.listeners {
		if !one.unflushed {
			one.unflushed = true
			f.unflushed = append(f.unflushed, one)
		}
		one.Change(c)
	}
}

// flush calls the listeners that were told something. Its caller holds mu.
func (f *Feed) flush() {
	for _, one := range f.unflushed {
		one.unflushed = false
		one.Flush()
	}
	clear(f.unflushed)
	f.unflushed = f.unflushed[:0]
}

// endListeners ends all listeners, and takes no further ones.
func (f *Feed) endListeners() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	for s := range f.heard {
		for _, one := range s.heard.listeners {
			one.End(f.end())
		}
		s.heard = nil
	}
	clear(f.heard)
}

// end returns why there is no market data any more.
func (f *Feed) end() error {
	if broken := f.broken.Load(); broken != nil {
		return fmt.Errorf("%w: %w", ErrEnded, *broken)
	}
	return ErrEnded
}

// marks are the totals that levels of one symbol had before the record that is being taken in, in the order in
// which it has come to them, some more than once.
type marks struct{ bids, asks []Level }

// note notes a level that is about to change.
func (m *marks) note(l *levels, price exchange.Price) {
	side := &m.asks
	if l.up > 0 {
		side = &m.bids
	}
	if n := len(*side); n == 0 || (*side)[n-1].Price != price {
		*side = append(*side, Level{price, l.at(price)})
	}
}

// changed appends the new totals of the levels that have changed, best first, and returns before empty.
func changed(dst, before []Level, l *levels) (all, empty []Level) {
	slices.SortStableFunc(before, func(a, b Level) int { return cmp.Compare(l.up*int64(b.Price), l.up*int64(a.Price)) })
	for i, was := range before {
		if i > 0 && before[i-1].Price == was.Price {
			continue // the first one has the total before the record
		}
		if now := l.at(was.Price); now != was.Shares {
			dst = append(dst, Level{was.Price, now})
		}
	}
	return dst, before[:0]
}
