package market

import (
	"cmp"
	"fmt"
	"slices"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
)

// Change has the changes of one journal record to the levels and trades of a symbol. Records that do not affect them,
// such as a halt, cause no Change. It is valid only during the call that passes it.
type Change struct {
	Symbol exchange.Symbol
	Seq    uint64 // seq of the record
	Time   int64  // time of the record, nanoseconds since the Unix epoch

	// Bids and Asks are the new totals of the changed levels, best first, each price once. If there are any, Prev is
	// the seq of the previous record that changed a level; in a listener's first such Change, Prev is the BookSeq that
	// begin saw.
	Bids, Asks []Level
	Prev       uint64

	Trades     []exchange.Trade // sorted by number
	FirstTrade uint64           // number of Trades[0]; 0 if Trades is empty

	Market *Market // the market after the record
}

// Listener receives the changes of a symbol's market. Its methods are called by the feed's goroutine under its lock:
// they must not block, and must not call leave or any method of the Feed.
type Listener interface {
	// Change is called for each record that changed the levels or the trades, in journal order.
	Change(c *Change)
	// Flush is called after one or more Changes, at most some hundred records, with the market after them. The listener
	// should send them now.
	Flush(m *Market)
	// End is called once when the feed has ended, with the reason. No method is called after it.
	End(err error)
}

// listening is a listener between Listen and leave.
type listening struct {
	Listener
	symbol    *symbol
	unflushed bool
}

// heard is the part of a symbol that exists only while it has listeners.
type heard struct {
	marks     *marks // points to Feed.marks
	listeners []*listening
}

// Listen passes the changes of a symbol's market to l until leave is called. It calls begin first, with the current
// market; all later changes follow, without a gap or a repeat. begin is called under the feed's lock, and the rules for
// a Listener's methods hold for it. leave may be called from anywhere else, more than once, but not while the caller
// holds a lock that l's methods lock. Once it has returned, no method of l is called. The error wraps ErrUnknownSymbol,
// or says why there is no market data; nothing was called then.
//
// There should be few listeners to one symbol: a door registers one for all readers of the same messages.
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
	one := &listening{Listener: l, symbol: s}
	if s.heard == nil {
		s.heard = &heard{marks: &f.marks}
		f.heard[s] = struct{}{}
	}
	s.heard.listeners = append(s.heard.listeners, one)
	f.records.Hurry()
	return func() { f.leave(s, one) }, nil
}

// leave removes a listener.
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

// listened reports whether any symbol has a listener.
func (f *Feed) listened() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.heard) > 0
}

// notify calls the listeners of a symbol if a record has changed its levels or trades, and sets s.touched to whether
// the levels changed. e is the record's last event for the symbol. Its caller holds mu.
func (f *Feed) notify(s *symbol, seq uint64, e *exchange.Event) {
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

// flush calls Flush of the listeners that got a Change since their last Flush. Its caller holds mu.
func (f *Feed) flush() {
	m := Market{seq: f.seq.Load()}
	for _, one := range f.unflushed {
		one.unflushed = false
		m.s = one.symbol
		one.Flush(&m)
	}
	clear(f.unflushed)
	f.unflushed = f.unflushed[:0]
}

// endListeners ends all listeners, and makes Listen refuse further ones.
func (f *Feed) endListeners() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	for s := range f.heard {
		for _, one := range s.heard.listeners {
			trail.EndListener(f.options.Log, func() { one.End(f.end()) })
		}
		s.heard = nil
	}
	clear(f.heard)
}

// end returns why the feed has ended.
func (f *Feed) end() error {
	if broken := f.broken.Load(); broken != nil {
		return fmt.Errorf("%w: %w", ErrEnded, *broken)
	}
	return ErrEnded
}

// marks holds the totals that levels of one symbol had before the current record changed them, in the order of the
// changes. A price may occur more than once; its first entry is the total before the record.
type marks struct{ bids, asks []Level }

// note records the total of a level that is about to change.
func (m *marks) note(l *levels, price exchange.Price) {
	side := &m.asks
	if l.up > 0 {
		side = &m.bids
	}
	if n := len(*side); n == 0 || (*side)[n-1].Price != price {
		*side = append(*side, Level{price, l.at(price)})
	}
}

// changed appends the new totals of the changed levels to dst, best first. It also returns before, emptied for reuse.
func changed(dst, before []Level, l *levels) (all, empty []Level) {
	slices.SortStableFunc(before, func(a, b Level) int { return cmp.Compare(l.up*int64(b.Price), l.up*int64(a.Price)) })
	for i, was := range before {
		if i > 0 && before[i-1].Price == was.Price {
			continue // only the first entry of a price has the total before the record
		}
		if now := l.at(was.Price); now != was.Shares {
			dst = append(dst, Level{was.Price, now})
		}
	}
	return dst, before[:0]
}
