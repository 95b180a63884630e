// Package fanout sends the market data of symbols to the readers of a door.
//
// A Topic is one kind of message about one symbol, such as its book. It exists while it has readers, listens to the
// feed once for all of them, and gets the change of each record. The door's Encoder decides what a message is, how
// it is numbered, and how often one is sent; it makes each message once for all readers. A reader has a place in a
// bounded queue of its connection, so one that stops reading does not delay the others.
//
// Locks are taken in this order: Hub, the feed's, Topic, those of connections.
package fanout

import (
	"slices"
	"sync"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// Reader is a door's reader of a topic. Its methods must not block.
type Reader interface {
	comparable
	// FlushSoon makes the connection send the queued messages soon.
	FlushSoon()
	// End ends the reader's connection, because the feed has ended.
	End()
}

// Encoder makes the messages of a topic. Its methods are called with the topic's lock held, and those that receive a
// market or a change also under the feed's lock, so that every change up to the market's record was passed to Change.
// They must not block.
type Encoder[R Reader] interface {
	// Begin receives the market before the first change.
	Begin(t *Topic[R], m *market.Market)
	// Join queues the first messages of a reader, which then joins the topic's readers.
	Join(t *Topic[R], r R, m *market.Market)
	// Change receives a change. It reports whether Flush must be called.
	Change(t *Topic[R], c *market.Change) (flush bool)
	// Flush is called after one or more changes. It reports whether readers have queued messages.
	Flush(t *Topic[R], m *market.Market) (queued bool)
	// Tick is called at the time that WakeAt has set. It reports whether readers have queued messages.
	Tick(t *Topic[R], m *market.Market) (queued bool)
}

// Plain has default methods for an Encoder. Its Flush returns true, and its other methods do nothing.
type Plain[R Reader] struct{}

// Begin does nothing.
func (Plain[R]) Begin(*Topic[R], *market.Market) {}

// Join does nothing.
func (Plain[R]) Join(*Topic[R], R, *market.Market) {}

// Flush returns true.
func (Plain[R]) Flush(*Topic[R], *market.Market) bool { return true }

// Tick does nothing.
func (Plain[R]) Tick(*Topic[R], *market.Market) bool { return false }

// Hub has the topics that have readers. Its zero value is empty. Its methods may be called from any goroutine.
type Hub[R Reader] struct {
	mu     sync.Mutex // guards topics
	topics map[string]*Topic[R]
}

// Join adds a reader to the topic with this name. If the topic has no readers yet, newEncoder makes its encoder. leave
// removes the reader; once it has returned, nothing more is queued for the reader. The error is the feed's.
func (h *Hub[R]) Join(feed *market.Feed, sym exchange.Symbol, name string, r R, newEncoder func() Encoder[R]) (
	leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	if t == nil {
		t = &Topic[R]{feed: feed, symbol: sym, encoder: newEncoder()}
		t.stop, err = feed.Listen(sym, t, func(m *market.Market) { t.Locked(func() { t.encoder.Begin(t, m) }) })
		if err != nil {
			return nil, err
		}
		if h.topics == nil {
			h.topics = make(map[string]*Topic[R])
		}
		h.topics[name] = t
	}
	over := false
	err = t.feed.View(sym, func(m *market.Market) {
		t.Locked(func() {
			if over = t.over; over {
				return // the feed has ended, so that no call of End would follow
			}
			t.encoder.Join(t, r, m)
			t.readers = append(t.readers, r)
		})
	})
	if err == nil && over {
		err = market.ErrEnded
	}
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

// leave removes a reader, and with its last reader the topic. Its caller holds mu.
func (h *Hub[R]) leave(name string, t *Topic[R], r R) {
	last := false
	t.Locked(func() {
		if i := slices.Index(t.readers, r); i >= 0 {
			t.readers = slices.Delete(t.readers, i, i+1)
		}
		last = len(t.readers) == 0
	})
	if !last || h.topics[name] != t {
		return
	}
	delete(h.topics, name)
	t.stop()
	t.Locked(t.stopTimer)
}

// Topic is one kind of message about one symbol, while it has readers. An Encoder calls its methods. It is a
// market.Listener.
type Topic[R Reader] struct {
	feed   *market.Feed
	symbol exchange.Symbol
	stop   func() // ends listening to the feed

	mu      sync.Mutex // guards the fields below, and the encoder
	encoder Encoder[R]
	readers []R // in the order in which they joined
	changed bool
	timer   *time.Timer // calls Tick at due; nil if no call is due
	due     time.Time   // when timer fires
	over    bool        // Tick must not be called any more
}

// Locked calls f with the topic's lock. The encoder's methods must not call it.
func (t *Topic[R]) Locked(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

// Readers returns the readers. Only the encoder's methods may call it, and must not keep the result.
func (t *Topic[R]) Readers() []R { return t.readers }

// View calls read with the topic's market and lock, as the encoder's methods are called. It does nothing if the
// feed has failed. The encoder's methods must not call it.
func (t *Topic[R]) View(read func(m *market.Market)) {
	_ = t.feed.View(t.symbol, func(m *market.Market) { t.Locked(func() { read(m) }) }) // on an error, End is called
}

// Change implements market.Listener.
func (t *Topic[R]) Change(c *market.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.encoder.Change(t, c) {
		t.changed = true
	}
}

// Flush implements market.Listener.
func (t *Topic[R]) Flush(m *market.Market) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed && t.encoder.Flush(t, m) {
		t.send()
	}
	t.changed = false
}

// End implements market.Listener.
func (t *Topic[R]) End(error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopTimer()
	for _, r := range t.readers {
		r.End()
	}
}

// send makes the readers send their queued messages. Its caller holds mu.
func (t *Topic[R]) send() {
	for _, r := range t.readers {
		r.FlushSoon()
	}
}

// WakeAt schedules a call of Tick, unless an earlier call is scheduled. Only the encoder's methods may call it.
func (t *Topic[R]) WakeAt(at time.Time) {
	if t.over || t.timer != nil && !at.Before(t.due) {
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(at), func() { t.View(func(m *market.Market) { t.tick(timer, m) }) })
	t.timer, t.due = timer, at
}

// tick calls Tick for a timer that has fired, unless the timer was stopped or replaced before tick got the lock. Its
// caller holds mu.
func (t *Topic[R]) tick(fired *time.Timer, m *market.Market) {
	if t.timer != fired {
		return
	}
	t.timer = nil
	if t.encoder.Tick(t, m) {
		t.send()
	}
}

// stopTimer ends the calls of Tick. Its caller holds mu.
func (t *Topic[R]) stopTimer() {
	t.over = true
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}
