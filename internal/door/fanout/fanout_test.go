package fanout

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/markettest"
	"outcry/internal/testing/trailtest"
	"outcry/internal/view/market"
)

// source is a journal to which a test adds records.
type source struct {
	mu  sync.Mutex // guards the fields below
	all [][]byte
	seq uint64
}

func (s *source) TryNext() (uint64, []byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return 0, nil, false, nil
	}
	record := s.all[0]
	s.all = s.all[1:]
	s.seq++
	return s.seq, record, true, nil
}

func (s *source) Close() {}

func (s *source) add(records ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, records...)
}

// noted holds the calls that a reader and an encoder have recorded.
type noted struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (n *noted) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *noted) take() (lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines, n.lines = n.lines, nil
	return lines
}

// client is a reader that records its calls.
type client struct {
	*noted
	name string
}

func (c *client) FlushSoon() { c.add("flush %s", c.name) }
func (c *client) End()       { c.add("end %s", c.name) }

// noter is an encoder that records its calls. It wakes 100 ms after each change.
type noter struct {
	*noted
	quiet bool // Flush is not called
}

func (e *noter) Begin(_ *Topic[*client], m *market.Market) { e.add("begin %d", m.Seq()) }

func (e *noter) Join(t *Topic[*client], c *client, m *market.Market) {
	e.add("join %s %d, %d before", c.name, m.Seq(), len(t.Readers()))
}

func (e *noter) Change(t *Topic[*client], c *market.Change) bool {
	e.add("change %d", c.Seq)
	t.WakeAt(time.Now().Add(time.Hour))
	t.WakeAt(time.Now().Add(100 * time.Millisecond))
	t.WakeAt(time.Now().Add(time.Minute))
	return !e.quiet
}

func (e *noter) Flush(_ *Topic[*client], m *market.Market) bool {
	e.add("flush at %d", m.BookSeq())
	return true
}

func (e *noter) Tick(_ *Topic[*client], m *market.Market) bool {
	e.add("tick at %d", m.BookSeq())
	return true
}

// run calls f with the feed of a market with the symbol S, in a bubble with synthetic time.
func run(t *testing.T, f func(feed *market.Feed, place func())) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{all: [][]byte{markettest.Made}}
		feed := market.NewFeed(market.Options{Records: trailtest.Follow(s, 0, nil),
			Log: slog.New(slog.DiscardHandler)}, &market.Snapshot{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { feed.Run(ctx) })
		require.NoError(t, feed.Await(ctx, 1))
		id := exchange.OrderID(0)
		f(feed, func() {
			id++
			s.add(markettest.Placed(id, exchange.Sell, 5, exchange.Price(10+id)))
			require.NoError(t, feed.Await(ctx, uint64(id)+1))
			synctest.Wait()
		})
		cancel()
		running.Wait()
	})
}

// TestATopicIsSharedByItsReaders: a topic begins with its first reader, gets each change once, and ends with its
// last.
func TestATopicIsSharedByItsReaders(t *testing.T) {
	run(t, func(feed *market.Feed, place func()) {
		n, h := new(noted), Hub[*client]{}
		made := 0
		join := func(name string) func() {
			leave, err := h.Join(feed, "S", "topic", &client{n, name}, func() Encoder[*client] {
				made++
				return &noter{noted: n}
			})
			require.NoError(t, err)
			return leave
		}
		leaveA := join("a")
		place()
		leaveB := join("b")
		place()
		require.Equal(t, []string{"begin 1", "join a 1, 0 before", "change 2", "flush at 2", "flush a",
			"join b 2, 1 before", "change 3", "flush at 3", "flush a", "flush b"}, n.take())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"tick at 3", "flush a", "flush b"}, n.take(), "the earliest time counts, once")
		leaveA()
		leaveA()
		place()
		require.Equal(t, []string{"change 4", "flush at 4", "flush b"}, n.take())
		leaveB()
		place()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, n.take(), "no change and no tick")
		require.Equal(t, 1, made)
		require.Empty(t, h.topics)
		join("c")()
		require.Equal(t, 2, made)
	})
}

// TestReadersOfAnUnknownSymbolLeaveNothing: a reader of an unknown symbol or of an ended feed leaves no topic.
func TestReadersOfAnUnknownSymbolLeaveNothing(t *testing.T) {
	n, h := new(noted), Hub[*client]{}
	newEncoder := func() Encoder[*client] { return &noter{noted: n} }
	var feed *market.Feed
	run(t, func(f *market.Feed, _ func()) {
		feed = f
		_, err := h.Join(feed, "T", "topic", &client{n, "a"}, newEncoder)
		require.ErrorIs(t, err, market.ErrUnknownSymbol)
		require.Empty(t, h.topics)
	})
	_, err := h.Join(feed, "S", "topic", &client{n, "a"}, newEncoder)
	require.ErrorIs(t, err, market.ErrEnded)
	require.Empty(t, h.topics)
	require.Empty(t, n.take())
}

// TestReadersEndWithTheFeed: when the feed ends, each reader's End is called, and Tick is not called again.
func TestReadersEndWithTheFeed(t *testing.T) {
	n, h := new(noted), Hub[*client]{}
	run(t, func(feed *market.Feed, place func()) {
		_, err := h.Join(feed, "S", "topic", &client{n, "a"},
			func() Encoder[*client] { return &noter{noted: n, quiet: true} })
		require.NoError(t, err)
		place()
		n.take()
	})
	require.Equal(t, []string{"end a"}, n.take())
}

// TestATickThatComesTooLateIsDropped: a timer that has fired does not call Tick if it is replaced by an earlier one, or
// its topic ends, before it gets the topic's lock.
func TestATickThatComesTooLateIsDropped(t *testing.T) {
	run(t, func(feed *market.Feed, _ func()) {
		n, h := new(noted), Hub[*client]{}
		leave, err := h.Join(feed, "S", "topic", &client{n, "a"}, func() Encoder[*client] { return &noter{noted: n} })
		require.NoError(t, err)
		n.take()
		topic := h.topics["topic"]
		wakeAt := func(d time.Duration) (timer *time.Timer) {
			topic.Locked(func() {
				topic.WakeAt(time.Now().Add(d))
				timer = topic.timer
			})
			return timer
		}
		fire := func(timer *time.Timer) { topic.View(func(m *market.Market) { topic.tick(timer, m) }) }
		replaced := wakeAt(time.Hour)
		last := wakeAt(time.Minute)
		fire(replaced)
		require.Empty(t, n.take(), "the timer was replaced")
		fire(last)
		require.Equal(t, []string{"tick at 1", "flush a"}, n.take())
		ended := wakeAt(time.Hour)
		leave()
		fire(ended)
		require.Empty(t, n.take(), "the topic has ended")
	})
}

// TestPaces: a message is sent at once after a pause, otherwise after an interval or at the next moment of a grid.
func TestPaces(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	p := Pace{Every: 100 * time.Millisecond}
	require.Equal(t, at(7), p.Next(at(7)))
	p.Sent(at(7))
	require.Equal(t, at(107), p.Next(at(8)))
	require.Equal(t, at(300), p.Next(at(300)))

	g := Pace{Every: 250 * time.Millisecond, Grid: 100 * time.Millisecond, Began: began}
	require.Equal(t, at(100), g.Next(at(0)))
	require.Equal(t, at(100), g.Next(at(1)))
	require.Equal(t, at(100), g.Next(at(100)))
	require.Equal(t, at(200), g.Next(at(101)))
	g.Sent(at(203)) // a timer is late
	require.Equal(t, at(500), g.Next(at(204)), "not before 403")
	require.Equal(t, at(900), g.Next(at(801)))
}

// TestACandleIsClosedOnce: a candle is closed by a later candle, or when its interval and the grace are over.
func TestACandleIsClosedOnce(t *testing.T) {
	second := func(n int64) exchange.Candle { return exchange.Candle{Start: n * exchange.Second, Trades: 1} }
	var c Candle
	first := second(5)
	require.False(t, c.Follows(&first), "there is no candle before")
	require.False(t, c.TryClose(time.Unix(100, 0)))
	c.Set(first)
	same := first
	require.False(t, c.Follows(&same))
	next := second(6)
	require.True(t, c.Follows(&next))
	require.Equal(t, time.Unix(7, 0), c.ClosesAt())
	require.False(t, c.TryClose(time.Unix(7, -1)))
	require.True(t, c.TryClose(time.Unix(7, 0)))
	require.False(t, c.TryClose(time.Unix(8, 0)), "it is closed")
	require.False(t, c.Follows(&next))
	c.Set(next)
	require.True(t, c.IsOpen())
}
