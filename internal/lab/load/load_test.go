package load_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	lib "github.com/tsenart/vegeta/v12/lib"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	. "outcry/internal/lab/load"
	"outcry/internal/lab/vegeta"
)

var background = context.Background()

// serve starts a server that answers frames with answer. Connections are numbered.
func serve(t *testing.T, answer func(connection, n int, xml []byte) []byte) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for connection := 1; ; connection++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				frames := wire.NewFrameReader(c, 1<<20)
				for n := 1; ; n++ {
					xml, err := frames.Next()
					if err != nil {
						return
					}
					reply := answer(connection, n, xml)
					if reply == nil {
						return
					}
					if _, err := c.Write(wire.AppendFrame(nil, reply)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// counting is a source of numbered frames. It expects the frames as replies, in order.
type counting struct{ next, got, most int }

func (s *counting) Next() []byte {
	if s.next == s.most {
		return nil
	}
	s.next++
	return fmt.Appendf(nil, "<f>%d</f>", s.next)
}

func (s *counting) Reply(xml []byte) error {
	s.got++
	if want := fmt.Sprintf("<f>%d</f>", s.got); string(xml) != want {
		return fmt.Errorf("%s instead of %s", xml, want)
	}
	return nil
}

func TestClosedAnswersEveryFrameInOrder(t *testing.T) {
	addr := serve(t, func(_, _ int, xml []byte) []byte { return xml })
	for _, depth := range []int{1, 3, 16} {
		sources := make([]*counting, 5)
		r, err := Closed(background, Options{Addrs: []string{addr}, Connections: 5, Depth: depth}, func(n int) Source {
			sources[n] = &counting{most: 100}
			return sources[n]
		})
		require.NoError(t, err)
		require.EqualValues(t, 500, r.Requests)
		require.Zero(t, r.Errors, r.Examples)
		require.EqualValues(t, 500, r.Latency.TotalCount())
		require.Equal(t, r.BytesOut, r.BytesIn)
		require.Positive(t, r.BytesIn)
		require.Positive(t, r.Rate())
		for _, s := range sources {
			require.Equal(t, 100, s.got)
		}
	}
}

// TestARequestMayHaveSeveralFrames checks that a request counts once, from its first frame to its last
// reply, and uses one connection unless the server closes after each reply.
func TestARequestMayHaveSeveralFrames(t *testing.T) {
	const slow = 20 * time.Millisecond
	var connections atomic.Int64
	addr := serve(t, func(connection, n int, xml []byte) []byte {
		connections.Store(int64(connection))
		if string(xml) == "<f>6</f>" {
			return []byte("<f>wrong</f>")
		}
		time.Sleep(slow)
		return xml
	})
	source := func(int) Source { return &counting{most: 6} }
	o := Options{Addrs: []string{addr}, Connections: 1, Depth: 1, Frames: 3}
	for i, c := range []struct {
		model func(context.Context, Options, func(int) Source) (*Result, error)
		once  bool
		conns int64
	}{{Closed, false, 1}, {Each, false, 2}, {Each, true, 6}} {
		before := connections.Load()
		o.Habits.OneFrame = c.once
		r, err := c.model(background, o, source)
		require.NoError(t, err)
		require.EqualValues(t, 2, r.Requests, "model %d", i)
		require.EqualValues(t, 1, r.Errors, "the last frame's reply makes its request wrong")
		require.GreaterOrEqual(t, r.Quantile(0.99), 3*slow*9/10, "the first request has three slow frames")
		require.Equal(t, c.conns, connections.Load()-before, "model %d", i)
	}
}

// TestAPauseIsBetweenRequests checks that latencies do not include the pause.
func TestAPauseIsBetweenRequests(t *testing.T) {
	const pause = 30 * time.Millisecond
	var last, least atomic.Int64
	least.Store(int64(time.Hour))
	addr := serve(t, func(_, n int, xml []byte) []byte {
		now := time.Now().UnixNano()
		if n%2 == 1 && n > 1 {
			least.Store(min(least.Load(), now-last.Load()))
		}
		last.Store(now)
		return xml
	})
	r, err := Closed(background, Options{Addrs: []string{addr}, Connections: 1, Frames: 2, Pause: pause},
		func(int) Source { return &counting{most: 8} })
	require.NoError(t, err)
	require.EqualValues(t, 4, r.Requests)
	require.GreaterOrEqual(t, time.Duration(least.Load()), pause)
	require.GreaterOrEqual(t, r.Elapsed, 3*pause)
}

func TestDepthIsHowManyAreUnderWay(t *testing.T) {
	// A server that answers only after four frames proves that four were sent without waiting.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		frames := wire.NewFrameReader(c, 1<<20)
		for range 3 {
			var replies []byte
			for range 4 {
				xml, err := frames.Next()
				if err != nil {
					return
				}
				replies = wire.AppendFrame(replies, xml)
			}
			if _, err := c.Write(replies); err != nil {
				return
			}
		}
	}()
	r, err := Closed(background, Options{Addrs: []string{l.Addr().String()}, Connections: 1, Depth: 4}, func(int) Source {
		return &counting{most: 12}
	})
	require.NoError(t, err)
	require.EqualValues(t, 12, r.Requests)
}

func TestUnexpectedRepliesAreCountedAndShown(t *testing.T) {
	addr := serve(t, func(_, n int, xml []byte) []byte {
		if n == 7 {
			return []byte("<wrong/>")
		}
		return xml
	})
	r, err := Closed(background, Options{Addrs: []string{addr}, Connections: 2, Depth: 1}, func(int) Source {
		return &counting{most: 10}
	})
	require.NoError(t, err)
	require.EqualValues(t, 20, r.Requests)
	require.EqualValues(t, 2, r.Errors)
	require.Equal(t, "<wrong/> instead of <f>7</f>", r.Examples[0])
}

func TestABrokenConnectionIsAFailedRun(t *testing.T) {
	addr := serve(t, func(connection, n int, xml []byte) []byte {
		if connection == 2 && n == 3 {
			return nil
		}
		return xml
	})
	_, err := Closed(background, Options{Addrs: []string{addr}, Connections: 3, Depth: 1, Duration: time.Minute},
		func(int) Source {
			return &counting{most: 1 << 40}
		})
	require.ErrorContains(t, err, "connection")
	_, err = Closed(background, Options{Addrs: []string{"127.0.0.1:1"}, Connections: 1}, nil)
	require.Error(t, err)
}

func TestEachHasAConnectionForEveryFrame(t *testing.T) {
	var connections atomic.Int64
	addr := serve(t, func(connection, n int, xml []byte) []byte {
		if n > 1 {
			return nil
		}
		connections.Add(1)
		return xml
	})
	r, err := Each(background, Options{Addrs: []string{addr}, Connections: 4}, func(int) Source {
		return &counting{most: 5}
	})
	require.NoError(t, err)
	require.EqualValues(t, 20, r.Requests)
	require.Zero(t, r.Errors, r.Examples)
	require.EqualValues(t, 20, connections.Load())
}

// openers are the two functions that send at a fixed rate.
var openers = map[string]func(context.Context, Options, int, func(int) Source) (*Result, error){
	"load": Open, "vegeta": vegeta.Open(nil)}

// The server stalls once for half a second in an open run with one connection. Latencies counted from sending hide
// the stall; latencies counted from the due time show it.
func TestOpenCountsFromTheMomentAFrameWasDue(t *testing.T) {
	hits, longest := 0, time.Duration(0)
	answered := vegeta.Open(func(hit *lib.Result) {
		hits++
		longest = max(longest, hit.Latency)
	})
	for name, open := range map[string]func(context.Context, Options, int, func(int) Source) (*Result, error){
		"load": Open, "vegeta": answered} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, func(_, n int, xml []byte) []byte {
				if n == 20 {
					time.Sleep(500 * time.Millisecond) // the stall to be measured
				}
				return xml
			})
			r, err := open(background, Options{Addrs: []string{addr}, Connections: 1, Duration: time.Second}, 200,
				one(&counting{most: 1 << 40}))
			require.NoError(t, err)
			require.Zero(t, r.Errors, r.Examples)
			require.EqualValues(t, 200, r.Requests, "all that was due")
			require.EqualValues(t, 200, r.Sent.TotalCount())
			require.Greater(t, r.Quantile(1), 400*time.Millisecond)
			// Half of the frames were due during the stall, a tenth of all in its first fifth.
			require.Greater(t, r.Quantile(0.9), 250*time.Millisecond)
			sent := time.Duration(r.Sent.ValueAtQuantile(90))
			require.Less(t, sent, 250*time.Millisecond, "of which only one was sent")
		})
	}
	require.Equal(t, 200, hits)
	require.Greater(t, longest, 400*time.Millisecond)
}

func TestOpenShowsUnexpectedRepliesAndBrokenConnections(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			sends := func(most, rate int, addr string) (*Result, error) {
				o := Options{Addrs: []string{addr}, Connections: 2, Duration: time.Second}
				return open(background, o, rate, func(int) Source { return &counting{most: most} })
			}
			r, err := sends(1<<40, 50, serve(t, func(_, n int, xml []byte) []byte { return []byte("<wrong/>") }))
			require.NoError(t, err)
			require.EqualValues(t, 50, r.Errors)
			_, err = sends(10, 50, serve(t, func(_, n int, xml []byte) []byte { return nil }))
			require.Error(t, err)
			require.Regexp(t, "EOF|broken pipe|connection reset", err.Error(), "whether reading or writing sees it first")
			_, err = sends(5, 50, serve(t, func(_, n int, xml []byte) []byte { return xml }))
			require.ErrorContains(t, err, "no more frames")
		})
	}
}

func one(s Source) func(int) Source { return func(int) Source { return s } }

// The server stalls at the end of the run. Requests that were due during the stall are still sent.
func TestOpenSendsWhatWasDueInAStallAtTheEnd(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, func(_, n int, xml []byte) []byte {
				if n == 50 {
					time.Sleep(time.Second) // the stall
				}
				return xml
			})
			r, err := open(background, Options{Addrs: []string{addr}, Connections: 1, Duration: 500 * time.Millisecond}, 200,
				one(&counting{most: 1 << 40}))
			require.NoError(t, err)
			require.EqualValues(t, 100, r.Requests)
			require.Zero(t, r.Errors, r.Examples)
			require.Greater(t, r.Quantile(0.75), 500*time.Millisecond)
		})
	}
}

// Connections are distributed over all the servers in turn.
func TestConnectionsAreSharedOutOverAddresses(t *testing.T) {
	var first, second atomic.Int64
	count := func(n *atomic.Int64) string {
		return serve(t, func(_, _ int, xml []byte) []byte { n.Add(1); return xml })
	}
	o := Options{Addrs: []string{count(&first), count(&second)}, Connections: 3, Depth: 2}
	_, err := Closed(background, o, func(int) Source { return &counting{most: 10} })
	require.NoError(t, err)
	require.EqualValues(t, 20, first.Load())
	require.EqualValues(t, 10, second.Load())
}

func TestEchoIsAsLargeAsAsked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- Echo(l, 100, nil) }()
	r, err := Closed(background, Options{Addrs: []string{l.Addr().String()}, Connections: 2, Depth: 8}, func(int) Source {
		return &sized{left: 50, want: 100, frame: []byte("<f/>")}
	})
	require.NoError(t, err)
	require.EqualValues(t, 100, r.Requests)
	require.Zero(t, r.Errors, r.Examples)
	require.NoError(t, l.Close())
	require.NoError(t, <-ended)
}

func TestEchoWithAJournalHasEveryFrameThere(t *testing.T) {
	for _, size := range []int{10, 200_000} { // larger than one read or write
		log, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion})
		require.NoError(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- Echo(l, max(size, 100), log) }()
		var answered atomic.Uint64
		r, err := Closed(background, Options{Addrs: []string{l.Addr().String()}, Connections: 2, Depth: 2}, func(int) Source {
			return &durable{sized{left: 50, want: max(size, 100), frame: bytes.Repeat([]byte("x"), size)}, log, &answered}
		})
		require.NoError(t, err)
		require.EqualValues(t, 100, r.Requests)
		require.Zero(t, r.Errors, r.Examples)
		require.EqualValues(t, 100, log.Synced())
		require.NoError(t, l.Close())
		require.NoError(t, <-ended)
		require.NoError(t, log.Close())
	}
}

// durable is a source that expects no reply before the journal has its frame.
type durable struct {
	sized
	log      *journal.Journal
	answered *atomic.Uint64
}

func (d *durable) Reply(xml []byte) error {
	if answered, synced := d.answered.Add(1), d.log.Synced(); answered > synced {
		return fmt.Errorf("%d replies, and %d frames are durable", answered, synced)
	}
	return d.sized.Reply(xml)
}

// sized is a source that expects replies of a given size.
type sized struct {
	left, want int
	frame      []byte
}

func (s *sized) Next() []byte {
	if s.left == 0 {
		return nil
	}
	s.left--
	return s.frame
}

func (s *sized) Reply(xml []byte) error {
	if len(xml) != s.want {
		return errors.New("size")
	}
	return nil
}

// until is a source that ends when a condition holds.
type until struct {
	counting
	ends func() bool
}

func (u *until) Next() []byte {
	if u.ends() {
		return nil
	}
	return u.counting.Next()
}

func TestProgressTellsWhatIsLeft(t *testing.T) {
	addr := serve(t, func(_, _ int, xml []byte) []byte { return xml })
	var answered atomic.Pointer[Progress]
	_, err := Closed(background, Options{Addrs: []string{addr}, Connections: 1, Duration: time.Hour,
		Progress: func(p Progress) { answered.Store(&p) }},
		func(int) Source {
			return &until{counting{most: 1 << 40}, func() bool { return answered.Load() != nil }}
		})
	require.NoError(t, err)
	p := answered.Load()
	require.NotNil(t, p)
	require.Positive(t, p.Left)
	require.GreaterOrEqual(t, p.Elapsed, time.Second)
}
