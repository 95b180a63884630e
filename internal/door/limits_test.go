package door

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// Tests of timeouts run in a synctest bubble, whose clock advances only when all goroutines are blocked. So
// deadlines are exact, and the tests take no real time.

// hits returns how often a limit was hit.
func (s *Server) hits(l limit) float64 { return testutil.ToFloat64(s.options.Metrics.byLimit[l]) }

func TestAnIdleConnectionIsClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{})
		c := connect(t, p)
		time.Sleep(9 * time.Minute)
		c.send(query(1))
		require.Equal(t, answer(1), c.reply())
		begun := time.Now()
		require.Equal(t, errorReply("nothing was sent for 10m0s"), c.reply())
		require.Equal(t, 10*time.Minute, time.Since(begun), "counted from the previous frame")
		c.ends()
		require.Equal(t, 1.0, s.hits(limitIdle))
	})
}

func TestBlankLinesDoNotKeepAConnectionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		start(t, p, newFake(), Options{IdleTimeout: time.Minute})
		c := connect(t, p)
		begun := time.Now()
		c.drip(strings.Repeat(" \r\n", 1000), time.Second)
		require.Equal(t, errorReply("nothing was sent for 1m0s"), c.reply())
		require.Equal(t, time.Minute, time.Since(begun))
	})
}

func TestAFrameMustArriveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, stream := range []string{"1", "000", "54\n<transactions", "1000\n" + strings.Repeat(" ", 900)} {
			p := newPipes()
			s := start(t, p, newFake(), Options{})
			c := connect(t, p)
			time.Sleep(time.Minute)
			begun := time.Now()
			c.drip(stream, 20*time.Millisecond)
			require.Equal(t, errorReply("a frame did not arrive within 30s"), c.reply())
			require.Equal(t, 30*time.Second+20*time.Millisecond, time.Since(begun),
				"counted from its first byte, however many follow")
			c.ends()
			require.Equal(t, 1.0, s.hits(limitFrameTime))
		}
	})
}

func TestASlowFrameThatArrivesInTimeIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		start(t, p, newFake(), Options{IdleTimeout: time.Second})
		c := connect(t, p)
		for order := 1; order <= 3; order++ {
			c.drip(query(order), 400*time.Millisecond)
			require.Equal(t, answer(order), c.reply())
		}
	})
}

func TestTheNextFrameHasItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		start(t, p, newFake(), Options{})
		c := connect(t, p)
		stream := query(1) + query(2)[:10]
		c.send(stream[:20])
		time.Sleep(29 * time.Second)
		c.send(stream[20:])
		require.Equal(t, answer(1), c.reply())
		time.Sleep(29 * time.Second)
		c.send(query(2)[10:])
		require.Equal(t, answer(2), c.reply())
	})
}

func TestAClientThatIsOwedAReplyIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.held = true
		start(t, p, x, Options{})
		c := connect(t, p)
		c.send(query(1))
		time.Sleep(59 * time.Minute)
		x.set(func() { x.held = false })
		require.Equal(t, answer(1), c.reply())
		begun := time.Now()
		require.Equal(t, errorReply("nothing was sent for 10m0s"), c.reply())
		require.Equal(t, 10*time.Minute, time.Since(begun), "counted from the reply, although the frame is older")
	})
}

func TestAClientThatTakesNoReplyIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{})
		c := connect(t, p)
		c.send(query(1))
		time.Sleep(31 * time.Second)
		c.ends()
		require.Equal(t, 1.0, s.hits(limitWriteTime))
	})
}

func TestAClientThatTakesItsReplySlowlyIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.executions = 50_000
		start(t, p, x, Options{IdleTimeout: time.Hour})
		c := connect(t, p)
		c.send(query(1))
		begun := time.Now()
		whole := len(frame("<results>" + statuses(50_000, 1) + "</results>"))
		require.Equal(t, whole, c.takeSlowly(whole, 2*time.Second))
		require.Greater(t, time.Since(begun), time.Minute, "longer than WriteTimeout, but with steady progress")
	})
}

func TestAClientThatTakesItsReplyForeverIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.executions = 50_000
		s := start(t, p, x, Options{IdleTimeout: time.Hour})
		c := connect(t, p)
		c.send(query(1))
		begun := time.Now()
		require.Less(t, c.takeSlowly(50*writeBytesMax, 20*time.Second), 10*writeBytesMax,
			"although each piece was read within WriteTimeout")
		require.Less(t, time.Since(begun), 3*time.Minute)
		require.Equal(t, 1.0, s.hits(limitWriteTime))
	})
}

// takeSlowly reads up to most bytes of a reply piece by piece, with a pause before each piece. It returns how
// many bytes it read.
func (c *client) takeSlowly(most int, pause time.Duration) (taken int) {
	piece := make([]byte, writeBytesMax)
	for taken < most {
		time.Sleep(pause)
		n, err := c.Read(piece)
		if taken += n; err != nil {
			break
		}
	}
	return taken
}

func TestAClientThatLeavesItsRepliesIsNotReadFrom(t *testing.T) {
	for name, test := range map[string]struct {
		options    Options
		executions int
		want       int
	}{
		// One reply is being written and stays in the queue until it is sent; one more is built and waits for room.
		"in replies": {Options{UnsentRepliesMax: 5}, 0, 6},
		"in bytes":   {Options{UnsentBytesMax: 40_000}, 300, 4}, // about 13,000 bytes each
		"one large":  {Options{UnsentBytesMax: 1}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, x := newPipes(), newFake()
				x.executions = test.executions
				test.options.BatchFramesMax = 1
				start(t, p, x, test.options)
				c := connect(t, p)
				for range 2 { // reading replies makes room again
					before := x.executed()
					go func() {
						for order := 1; order <= 100; order++ {
							if _, err := io.WriteString(c, query(order)); err != nil {
								return
							}
						}
					}()
					synctest.Wait()
					require.Equal(t, test.want, x.executed()-before)
					for order := 1; order <= 100; order++ {
						require.Contains(t, c.reply(), fmt.Sprintf(`<open shares="%d"/>`, order))
					}
				}
			})
		})
	}
}

func TestAStreamThatCannotBeFollowedIsClosedWithTheReason(t *testing.T) {
	for stream, reason := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n": `a frame begins with its length in bytes, alone on a line, not with "GET / HTTP/1.1\r"`,
		"-1\n":                   `a frame begins with its length in bytes, alone on a line, not with "-1"`,
		"1001\n":                 "a frame of 1001 bytes is over the limit of 1000",
	} {
		l, x := listen(t), newFake()
		s := start(t, l, x, Options{FrameBytesMax: 1000})
		c := dial(t, l)
		c.send(query(1), stream, query(2))
		require.Equal(t, answer(1), c.reply())
		c.isLast(reason)
		require.Equal(t, []int{1}, x.queried, "later frames are not executed")
		require.Equal(t, 1.0, s.hits(limitFrame)+s.hits(limitLengthLine))
		require.Equal(t, strings.Contains(reason, "over the limit"), s.hits(limitFrame) == 1)
	}
}

func TestTheReasonArrivesAlthoughTheClientStillSends(t *testing.T) {
	l := listen(t)
	start(t, l, newFake(), Options{FrameBytesMax: 1000, LingerTimeout: patience})
	c := dial(t, l)
	// Send much more than the two buffers hold: if the server stopped reading, the connection would be reset and
	// the reason lost.
	c.send("16000000\n", strings.Repeat(" ", 16_000_000))
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	c.isLast("a frame of 16000000 bytes is over the limit of 1000")
}

func TestLingeringEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		start(t, p, newFake(), Options{})
		c := connect(t, p)
		c.drip("?\n"+strings.Repeat(" ", 1000), 10*time.Millisecond)
		begun := time.Now()
		require.Contains(t, c.reply(), "a frame begins with its length")
		c.ends()
		require.Less(t, time.Since(begun), 2*time.Second, "although the client sends for ten seconds")
	})
}

func TestConnectionsOverTheLimitAreToldSo(t *testing.T) {
	l := listen(t)
	s := start(t, l, newFake(), Options{ConnectionsMax: 2})
	first, second := dial(t, l), dial(t, l)
	for _, c := range []*client{first, second} {
		c.send(query(1))
		require.Equal(t, answer(1), c.reply())
	}
	for range 3 {
		third := dial(t, l)
		third.send(query(1))
		require.NoError(t, third.Conn.(*net.TCPConn).CloseWrite())
		third.isLast("the exchange has 2 connections and accepts no more; try again later")
	}
	require.Equal(t, 3.0, s.hits(limitConnections))
	require.NoError(t, first.Close())
	eventually(t, func() bool { return s.count() == 1 })
	fourth := dial(t, l)
	for _, c := range []*client{second, fourth} {
		c.send(query(4))
		require.Equal(t, answer(4), c.reply())
	}
}

// The bound on refused connections is the same if connections of other transports have most places.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{ConnectionsMax: 11})
		for range 10 {
			enter(t, s, nil)
		}
		connect(t, p)
		refused := make([]*client, RefusedMax)
		for i := range refused {
			refused[i] = connect(t, p)
		}
		connect(t, p).ends() // closed without a message
		for _, c := range refused {
			require.Contains(t, c.reply(), "accepts no more")
		}
	})
}

func TestAThousandIdleConnectionsOpenAndClose(t *testing.T) {
	l := listen(t)
	s := start(t, l, newFake(), Options{})
	for range 2 {
		clients := make([]*client, 1000)
		for i := range clients {
			clients[i] = dial(t, l)
		}
		eventually(t, func() bool { return s.count() == len(clients) })
		for i, c := range clients {
			c.send(query(i + 1))
			require.Equal(t, answer(i+1), c.reply())
		}
		for _, c := range clients {
			require.NoError(t, c.Close())
		}
		eventually(t, func() bool { return s.count() == 0 })
	}
	require.Equal(t, 2000.0, testutil.ToFloat64(s.options.Metrics.accepted))
	eventually(t, func() bool { return testutil.ToFloat64(s.options.Metrics.connections) == 0 })
}

// drip sends one byte at a time in the background, with a pause before each.
func (c *client) drip(stream string, pause time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range len(stream) {
			time.Sleep(pause)
			if _, err := io.WriteString(c, stream[i:i+1]); err != nil {
				return
			}
		}
	}()
	c.t.Cleanup(func() {
		c.Close()
		<-done
	})
}
