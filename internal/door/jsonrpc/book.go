package jsonrpc

import (
	"cmp"
	"maps"
	"slices"

	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// mergedLevelsMax is how many levels change while a reader is behind before it is cut: what waits for it is bounded,
// however large the book.
const mergedLevelsMax = 16 << 10

// levelTotals are what is open at some prices, 0 at those where nothing is any more.
type levelTotals map[exchange.Price]exchange.Position

// delta is a message of a book: what changed, or the whole book.
type delta struct {
	kind       string
	prev, seq  uint64
	bids, asks []market.Level
	checksum   uint32
	time       int64
}

// parts returns the messages of d on a channel.
func (d *delta) parts(channel string) parts {
	return parts{entries: len(d.bids) + len(d.asks), encode: func(b []byte, c *cut, more bool) []byte {
		b = beginEvent(b, channel, d.kind)
		if d.kind == kindDelta {
			b = memberNumber(b, "prev", d.prev)
		}
		b = memberLevels(memberNumber(b, "seq", d.seq), "bids", d.bids, c)
		b = memberLevels(b, "asks", d.asks, c)
		b = memberNumber(b, "checksum", uint64(d.checksum))
		return endEvent(memberMore(memberTime(b, "time", d.time), more))
	}}
}

// The types of messages.
const (
	kindSnapshot = "snapshot"
	kindDelta    = "delta"
	kindEvent    = "event"
)

// memberLevels appends the levels that are in a message.
func memberLevels(b []byte, name string, all []market.Level, c *cut) []byte {
	from, to := c.of(len(all))
	all = all[from:to]
	return list(b, name, len(all), func(b []byte, i int) []byte { return appendLevel(b, all[i].Price, all[i].Shares) })
}

// bookTeller makes the messages of a book.
type bookTeller struct {
	channel string
	slow    *slowBook // nil if each record is told
}

// slowBook is what a channel that tells less often than things happen knows of its book.
type slowBook struct {
	pacer
	bids, asks levelTotals // as of the newest delta, whose seq and checksum those are
	seq        uint64
	checksum   uint32
	pending    merged // since then
}

// merged is what changed over several records.
type merged struct {
	prev, seq  uint64 // prev is what was sent before
	bids, asks levelTotals
	checksum   uint32
	time       int64
}

// add takes in what changed next.
func (m *merged) add(d *delta) {
	if m.bids == nil {
		m.bids, m.asks = make(levelTotals), make(levelTotals)
	}
	for _, l := range d.bids {
		m.bids[l.Price] = l.Shares
	}
	for _, l := range d.asks {
		m.asks[l.Price] = l.Shares
	}
	m.seq, m.checksum, m.time = d.seq, d.checksum, d.time
}

// delta returns all of it as one.
func (m *merged) delta() delta {
	return delta{kind: kindDelta, prev: m.prev, seq: m.seq, bids: m.bids.sorted(true), asks: m.asks.sorted(false),
		checksum: m.checksum, time: m.time}
}

// sorted returns the levels, the highest price first or last.
func (l levelTotals) sorted(highest bool) []market.Level {
	all := make([]market.Level, 0, len(l))
	for p, n := range l {
		all = append(all, market.Level{Price: p, Shares: n})
	}
	slices.SortFunc(all, func(a, b market.Level) int {
		if highest {
			a, b = b, a
		}
		return cmp.Compare(a.Price, b.Price)
	})
	return all
}

func (r *reader) openBook() (stop func(), err error) {
	return r.conn.door.hub.open(r, func() teller {
		t := &bookTeller{channel: r.channel.name}
		if r.channel.slow {
			t.slow = &slowBook{}
		}
		return t
	})
}

// begin implements teller.
func (b *bookTeller) begin(_ *topic, m *market.Market) {
	if s := b.slow; s != nil {
		s.bids, s.asks = maps.Collect(m.Bids()), maps.Collect(m.Asks())
		s.seq, s.checksum = m.BookSeq(), m.Checksum()
	}
}

// join implements teller: a reader begins with all levels, of a slow book as of the newest delta.
func (b *bookTeller) join(t *topic, r *reader, m *market.Market) parts {
	r.gather = func() { b.gather(t, r) }
	all := delta{kind: kindSnapshot}
	if s := b.slow; s != nil {
		all.seq, all.checksum = s.seq, s.checksum
		all.bids, all.asks = s.bids.sorted(true), s.asks.sorted(false)
	} else {
		all.seq, all.checksum = m.BookSeq(), m.Checksum()
		for p, n := range m.Bids() {
			all.bids = append(all.bids, market.Level{Price: p, Shares: n})
		}
		for p, n := range m.Asks() {
			all.asks = append(all.asks, market.Level{Price: p, Shares: n})
		}
	}
	return all.parts(b.channel)
}

// change implements teller.
func (b *bookTeller) change(t *topic, c *market.Change) bool {
	if len(c.Bids)+len(c.Asks) == 0 {
		return false
	}
	d := delta{kind: kindDelta, prev: c.Prev, seq: c.Seq, bids: c.Bids, asks: c.Asks, checksum: c.Market.Checksum(),
		time: c.Time}
	if b.slow != nil {
		b.slow.pending.add(&d)
	} else {
		b.tell(t, &d)
	}
	return true
}

// flush implements teller.
func (b *bookTeller) flush(t *topic) bool {
	s := b.slow
	return s == nil || s.tell(t, func() {
		if s.pending.bids == nil {
			return // a timer was due between a change and its flush: it has told the change
		}
		s.pending.prev = s.seq
		d := s.pending.delta()
		s.pending = merged{}
		s.bids.apply(d.bids)
		s.asks.apply(d.asks)
		s.seq, s.checksum = d.seq, d.checksum
		b.tell(t, &d)
	})
}

// apply makes levels what they have become.
func (l levelTotals) apply(changes []market.Level) {
	for _, c := range changes {
		if l[c.Price] = c.Shares; c.Shares.Sign() == 0 {
			delete(l, c.Price)
		}
	}
}

// close implements teller.
func (b *bookTeller) close() {
	if b.slow != nil {
		b.slow.stop()
	}
}

// tell sends a delta to all readers. For those that are behind it is merged with what they were not sent yet.
func (b *bookTeller) tell(t *topic, d *delta) {
	frames := framesOf(d.parts(b.channel))
	for _, r := range t.readers {
		if r.behind == nil && !r.conn.isBehind(b.slow != nil) {
			r.push(frames, d.seq)
			continue
		}
		if r.behind == nil {
			r.behind = &merged{prev: d.prev}
		}
		if r.behind.add(d); len(r.behind.bids)+len(r.behind.asks) > mergedLevelsMax {
			r.behind = nil
			r.conn.socket.Cut(websocket.CodeTooSlow, "too slow: "+b.channel)
			continue
		}
		r.slot.Set()
	}
}

// isBehind reports whether what can be merged for the connection should be: it has much to take already, and, unless
// always, misses nothing else.
func (c *conn) isBehind(always bool) bool {
	return (always || c.strict.Load() == 0) && c.socket.Waiting() > websocket.ConflateBytes
}

// gather has a reader given what was merged for it.
func (b *bookTeller) gather(t *topic, r *reader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.behind == nil {
		return
	}
	d := r.behind.delta()
	r.behind = nil
	r.giving = d.parts(b.channel)
}
