package jsonrpc

import (
	"errors"
	"slices"
	"sync"
	"time"

	"outcry/internal/door/websocket"
	"outcry/internal/view/market"
)

// slowest is how much time lies between two messages of the channels that are told so often at the most.
const slowest = 100 * time.Millisecond

// hub has the channels of the market that somebody listens to. Each listens to the feed once, and makes each message
// once, for all its readers.
//
// Locks are taken in this order: hub, the feed's, topic, those of connections.
type hub struct {
	mu     sync.Mutex // guards topics
	topics map[string]*topic
}

// topic is a channel of the market while it has readers.
type topic struct {
	teller
	stop func() // of the feed

	mu      sync.Mutex // guards what follows, and the teller
	readers []*reader
	changed bool // since the last Flush
}

// teller makes the messages of a topic, which holds its lock meanwhile. What is called with a market is called under
// the feed's lock, too.
type teller interface {
	// begin receives the present market, before the first change.
	begin(t *topic, m *market.Market)
	// join returns the first messages of a reader.
	join(t *topic, r *reader, m *market.Market) parts
	// change passes a change on, and reports whether the channel has it. What flush sends may be sent later than
	// the change.
	change(t *topic, c *market.Change) bool
	// flush is called behind some changes. It reports whether something was told since the last time.
	flush(t *topic) bool
	// close stops its timers.
	close()
}

// open has a reader join a topic, which tells makes if there is none.
func (h *hub) open(r *reader, tells func() teller) (stop func(), err error) {
	feed := r.conn.door.options.Feed()
	if feed == nil {
		return nil, errNoMarket
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name := r.channel.name
	t := h.topics[name]
	if t == nil {
		t = &topic{teller: tells()}
		t.stop, err = feed.Listen(r.channel.sym, t, func(m *market.Market) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.begin(t, m)
		})
		if err != nil {
			return nil, err
		}
		h.topics[name] = t
	}
	err = feed.View(r.channel.sym, func(m *market.Market) {
		t.mu.Lock()
		defer t.mu.Unlock()
		r.giving = t.join(t, r, m)
		t.readers = append(t.readers, r)
	})
	if err != nil {
		h.leave(name, t, r)
		return nil, err
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.leave(name, t, r)
	}, nil
}

// errNoMarket says that there is no market data.
var errNoMarket = errors.New("rpc: there is no market data")

// leave has a reader leave, and the topic end with its last one. Its caller holds mu.
func (h *hub) leave(name string, t *topic, r *reader) {
	t.mu.Lock()
	if i := slices.Index(t.readers, r); i >= 0 {
		t.readers = slices.Delete(t.readers, i, i+1)
	}
	last := len(t.readers) == 0
	t.mu.Unlock()
	if !last || h.topics[name] != t {
		return
	}
	delete(h.topics, name)
	t.stop()
	t.mu.Lock()
	t.close()
	t.mu.Unlock()
}

// Change implements market.Listener.
func (t *topic) Change(c *market.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.change(t, c) {
		t.changed = true
	}
}

// Flush implements market.Listener.
func (t *topic) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.changed {
		return
	}
	t.changed = false
	if t.flush(t) {
		t.send()
	}
}

// End implements market.Listener.
func (t *topic) End(error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.close()
	for _, r := range t.readers {
		r.conn.socket.Close(websocket.CodeGoingAway, "market data has ended")
	}
}

// send has sent what was pushed to readers. Its caller holds mu.
func (t *topic) send() {
	for _, r := range t.readers {
		r.conn.socket.FlushSoon()
	}
}

// pacer has something told at most once in slowest. The topic's lock guards it.
type pacer struct {
	told  time.Time
	timer *time.Timer // tells what is due later; nil if nothing is
	over  bool
}

// tell calls what tells now, and reports true, or, if it was told not long ago, then, under the topic's lock; then
// readers are sent it.
func (p *pacer) tell(t *topic, now func()) bool {
	if p.timer != nil || p.over {
		return false // it will tell the newest
	}
	wait := slowest - time.Since(p.told)
	if wait <= 0 {
		p.told = time.Now()
		now()
		return true
	}
	p.timer = time.AfterFunc(wait, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if p.over {
			return
		}
		p.timer, p.told = nil, time.Now()
		now()
		t.send()
	})
	return false
}

// stop stops it.
func (p *pacer) stop() {
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
