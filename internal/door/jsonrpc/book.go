package jsonrpc

import (
	"maps"

	"outcry/internal/door/fanout"
	"outcry/internal/door/jsontext"
	"outcry/internal/door/websocket"
	"outcry/internal/view/market"
)

// mergedLevelsMax is the maximum number of levels that wait for a reader that is behind. A reader with more is cut, so
// that its memory is bounded, however large the book is.
const mergedLevelsMax = 16 << 10

// bookUpdate is the content of a book's messages: the changed levels, or the whole book.
type bookUpdate struct {
	kind string
	fanout.BookChange
	checksum uint32
}

// parts returns the messages of d on a channel.
func (d *bookUpdate) parts(channel string) parts {
	return parts{entries: len(d.Bids) + len(d.Asks), encode: func(b []byte, c *cut, more bool) []byte {
		b = beginEvent(b, channel, d.kind)
		if d.kind == kindDelta {
			b = jsontext.Number(b, "prev", d.Prev)
		}
		b = memberLevels(jsontext.Number(b, "seq", d.Seq), "bids", d.Bids, c)
		b = memberLevels(b, "asks", d.Asks, c)
		b = jsontext.Number(b, "checksum", d.checksum)
		return endEvent(memberMore(memberTime(b, "time", d.Time), more))
	}}
}

// The types of messages.
const (
	kindSnapshot = "snapshot"
	kindDelta    = "delta"
	kindEvent    = "event"
)

// memberLevels appends a member with those levels that the cut selects for the message.
func memberLevels(b []byte, name string, all []market.Level, c *cut) []byte {
	from, to := c.of(len(all))
	return jsontext.List(jsontext.Name(b, name), all[from:to], func(b []byte, l *market.Level) []byte {
		return jsontext.AppendLevel(b, l.Price, l.Shares)
	})
}

// bookEncoder makes the messages of book.SYM: one for each record that changed a level.
type bookEncoder struct {
	noops
	channel string
}

func (r *reader) openBook() (stop func(), err error) {
	return r.join(func() encoder {
		if r.channel.slow {
			return &slowBook{paced: newPaced(), channel: r.channel.name}
		}
		return &bookEncoder{channel: r.channel.name}
	})
}

// Join implements fanout.Encoder: a reader begins with all levels.
func (b *bookEncoder) Join(t *topic, r *reader, m *market.Market) {
	r.gather = func() { t.View(func(m *market.Market) { b.gather(r, m) }) }
	all := bookUpdate{kind: kindSnapshot, checksum: m.Checksum()}
	all.Seq = m.BookSeq()
	for p, n := range m.Bids() {
		all.Bids = append(all.Bids, market.Level{Price: p, Shares: n})
	}
	for p, n := range m.Asks() {
		all.Asks = append(all.Asks, market.Level{Price: p, Shares: n})
	}
	r.giving = all.parts(b.channel)
}

// Change implements fanout.Encoder.
func (b *bookEncoder) Change(t *topic, c *market.Change) bool {
	change := fanout.ChangeOf(c)
	if len(change.Bids)+len(change.Asks) == 0 {
		return false
	}
	sendBook(t, false, &change, func() parts {
		d := bookUpdate{kindDelta, change, c.Market.Checksum()}
		return d.parts(b.channel)
	})
	return true
}

// gather sets the messages of a reader to the changes that wait for it. These include the market's newest change,
// so that the message has the market's present checksum.
func (b *bookEncoder) gather(r *reader, m *market.Market) {
	if r.behind != nil {
		d := bookUpdate{kindDelta, r.behind.Take(), m.Checksum()}
		r.behind, r.giving = nil, d.parts(b.channel)
	}
}

// sendBook sends the messages of a change to all readers. For readers that are behind, it merges the change with
// those that already wait. If slow is true, this also applies to connections with subscriptions that must miss
// nothing. encode is called at most once, and only if a reader gets its messages.
func sendBook(t *topic, slow bool, change *fanout.BookChange, encode func() parts) {
	var frames []websocket.Frame
	for _, r := range t.Readers() {
		if r.behind == nil && !r.conn.isBehind(slow) {
			if frames == nil {
				frames = framesOf(encode())
			}
			r.push(frames, change.Seq)
			continue
		}
		if r.behind == nil {
			r.behind = new(fanout.Merge)
			r.behind.Start(change.Prev)
		}
		if r.behind.Add(change); r.behind.Levels() > mergedLevelsMax {
			r.behind = nil
			r.conn.socket.Cut(websocket.CodeTooSlow, "too slow: "+r.channel.name)
			continue
		}
		r.slot.Set()
	}
}

// isBehind reports whether mergeable events should be merged for the connection, because a lot of its output is
// waiting to be sent. A connection with a subscription that must miss nothing gets every event, unless always is true.
func (c *conn) isBehind(always bool) bool {
	return (always || c.strict.Load() == 0) && c.socket.Waiting() > websocket.ConflateBytes
}

// slowBook makes the messages of book.SYM.100ms.
type slowBook struct {
	paced
	channel    string
	bids, asks fanout.Totals // the book as of the newest message, like seq and checksum
	seq        uint64
	checksum   uint32
	pending    fanout.Merge // changes since the newest message
}

// Begin implements fanout.Encoder.
func (s *slowBook) Begin(_ *topic, m *market.Market) {
	s.bids, s.asks = maps.Collect(m.Bids()), maps.Collect(m.Asks())
	s.seq, s.checksum = m.BookSeq(), m.Checksum()
	s.pending.Start(s.seq)
}

// Join implements fanout.Encoder: a reader begins with all levels as of the newest message.
func (s *slowBook) Join(t *topic, r *reader, _ *market.Market) {
	r.gather = func() { t.Locked(func() { s.gather(r) }) }
	all := bookUpdate{kind: kindSnapshot, checksum: s.checksum}
	all.Seq, all.Bids, all.Asks = s.seq, s.bids.Bids(), s.asks.Asks()
	r.giving = all.parts(s.channel)
}

// Change implements fanout.Encoder.
func (s *slowBook) Change(_ *topic, c *market.Change) bool {
	change := fanout.ChangeOf(c)
	if len(change.Bids)+len(change.Asks) == 0 {
		return false
	}
	s.pending.Add(&change)
	return true
}

// Flush implements fanout.Encoder.
func (s *slowBook) Flush(t *topic, m *market.Market) bool {
	if s.pending.Levels() == 0 || !s.may(t) {
		return false
	}
	s.send(t, m)
	return true
}

// Tick implements fanout.Encoder.
func (s *slowBook) Tick(t *topic, m *market.Market) bool { return s.Flush(t, m) }

// send sends the changes since the newest message, up to the record of the market.
func (s *slowBook) send(t *topic, m *market.Market) {
	d := bookUpdate{kindDelta, s.pending.Take(), m.Checksum()}
	s.bids.Apply(d.Bids)
	s.asks.Apply(d.Asks)
	s.seq, s.checksum = d.Seq, d.checksum
	sendBook(t, true, &d.BookChange, func() parts { return d.parts(s.channel) })
}

// gather sets the messages of a reader to the changes that wait for it.
func (s *slowBook) gather(r *reader) {
	if r.behind != nil {
		d := bookUpdate{kindDelta, r.behind.Take(), s.checksum}
		r.behind, r.giving = nil, d.parts(s.channel)
	}
}
