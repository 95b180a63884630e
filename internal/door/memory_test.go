package door

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
)

// Every test that starts a server asserts at its end that no memory is held.

// With the options crowded, every frame and every unsent reply needs all the available memory.
var crowded = Options{MemoryMax: 8, BatchMemoryMax: 1, UnsentBytesMax: 1}

// workingHeld and arrivingHeld return how much memory is reserved.
func (s *Server) workingHeld() float64 {
	return testutil.ToFloat64(s.working.held) + testutil.ToFloat64(s.huge.held)
}
func (s *Server) arrivingHeld() float64 { return testutil.ToFloat64(s.arriving.held) }

// noMemory is the reply to a frame that found no memory.
var noMemory = errorReply("the exchange had no memory for a frame of this size for 30s; try again later, or with " +
	"smaller frames")

func TestAFrameWaitsForMemoryThatAReplyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		s := start(t, p, x, crowded)
		first, second, third := connect(t, p), connect(t, p), connect(t, p)
		first.send(query(1))
		synctest.Wait()
		require.Equal(t, 2.0, s.workingHeld(), "huge has a quarter of MemoryMax")
		second.send(query(2))
		time.Sleep(time.Second)
		third.send(query(3))
		time.Sleep(10 * time.Second)
		require.Equal(t, []int{1}, x.queried)
		require.Equal(t, answer(1), first.reply())
		require.Equal(t, answer(2), second.reply())
		require.Equal(t, answer(3), third.reply())
		require.Equal(t, []int{1, 2, 3}, x.queried, "in order of arrival")
		require.Zero(t, s.hits(limitMemory))
	})
}

func TestAFrameThatFindsNoMemoryIsNotDoneAndTheReasonTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.held = true // so that the first reply stays unsent
		s := start(t, p, x, crowded)
		first, second := connect(t, p), connect(t, p)
		first.send(query(1))
		synctest.Wait()
		begun := time.Now()
		second.send(query(2))
		require.Equal(t, noMemory, second.reply())
		require.Equal(t, 30*time.Second, time.Since(begun))
		second.ends()
		require.Equal(t, []int{1}, x.queried)
		require.Equal(t, 1.0, s.hits(limitMemory))
		x.set(func() { x.held = false })
		require.Equal(t, answer(1), first.reply())
	})
}

// part is the beginning of a frame, long enough to need memory from the pool.
var part = "100000\n" + strings.Repeat(" ", 70_000)

func TestLargeFramesThatArriveWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{MemoryMax: 1000})
		stuck, next, late, small := connect(t, p), connect(t, p), connect(t, p), connect(t, p)
		begun := time.Now()
		stuck.send(part)
		synctest.Wait()
		require.Equal(t, 250.0, s.arrivingHeld(), "arriving has a quarter of MemoryMax")
		time.Sleep(5 * time.Second)
		// A pipe holds no bytes that are not read yet: these clients wait after their first 64 KiB.
		for _, c := range []*client{next, late} {
			go func() { _, _ = c.Write([]byte(part)) }()
			synctest.Wait()
		}
		small.send(query(1))
		require.Equal(t, answer(1), small.reply(), "a small frame does not wait")
		require.Equal(t, errorReply("a frame did not arrive within 30s"), stuck.reply())
		require.Equal(t, 30*time.Second, time.Since(begun))
		require.Equal(t, noMemory, late.reply())
		require.Equal(t, 35*time.Second, time.Since(begun))
		require.Equal(t, errorReply("a frame did not arrive within 30s"), next.reply())
		require.Equal(t, 60*time.Second, time.Since(begun), "its FrameTimeout began once there was memory")
		for _, c := range []*client{stuck, next, late} {
			c.ends()
		}
		require.Zero(t, s.arrivingHeld())
	})
}

func TestALargeFrameDoesNotWaitBehindHugeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.executions = 5000
		s := start(t, p, x, Options{MemoryMax: 128 << 20})
		huge := frame("<transactions id=\"1\"><query id=\"1\"/>" + strings.Repeat("<a/>", 90_000) + "</transactions>")
		slow, next, large, asking := connect(t, p), connect(t, p), connect(t, p), connect(t, p)
		for _, c := range []*client{slow, next} { // neither reads its reply
			go func() { _, _ = c.Write([]byte(huge)) }()
			synctest.Wait()
		}
		require.Equal(t, []int{1}, x.queried, "the second huge frame waits")
		begun := time.Now()
		large.send(frame(`<transactions id="1">` + strings.Repeat(`<query id="2"/>`, 2) + strings.Repeat("<a/>", 1000) +
			`</transactions>`))
		require.Contains(t, large.reply(), statuses(5000, 2))
		asking.send(query(3))
		require.Equal(t, "<results>"+statuses(5000, 3)+"</results>", asking.reply())
		require.Zero(t, time.Since(begun))
		require.Contains(t, slow.reply(), statuses(5000, 1))
		require.Contains(t, next.reply(), statuses(5000, 1))
		require.Zero(t, s.hits(limitMemory))
	})
}

func TestALargeFrameGivesItsMemoryBack(t *testing.T) {
	l, x := listen(t), newFake()
	s := start(t, l, x, Options{})
	c := dial(t, l)
	for size := 1; size < 4<<20; size = size*3 + 1 {
		c.send(frame(strings.Repeat(" ", size)+`<transactions id="1"><query id="1"/></transactions>`), query(2))
		require.Equal(t, answer(1), c.reply())
		require.Equal(t, answer(2), c.reply())
		require.Zero(t, s.workingHeld()+s.arrivingHeld(), "after a frame of %d bytes", size)
	}
}

func TestAQueryWithoutMemoryIsRefusedInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.executions = 3000
		m := NewMetrics()
		s := start(t, p, x, Options{MemoryMax: 400_000, Metrics: m})
		first, second := connect(t, p), connect(t, p)
		first.send(query(1))
		synctest.Wait()
		require.NotZero(t, s.workingHeld())
		refused := func(order int) string {
			return fmt.Sprintf(`<error id="%d">the exchange lacks the memory for so long a reply now; ask for this order `+
				`again later, in a frame of its own</error>`, order)
		}
		second.send(asking(anOrder, 2, 3))
		require.Equal(t, "<results>"+refused(2)+anOpened+refused(3)+anOpened+"</results>", second.reply())
		require.Equal(t, 1.0, s.hits(limitMemory), "counted once for each reply")
		require.Equal(t, 2.0, testutil.ToFloat64(m.commands.WithLabelValues("query", "no_memory")))
		require.Equal(t, "<results>"+statuses(3000, 1)+"</results>", first.reply())
		synctest.Wait()
		require.Zero(t, s.workingHeld())
		second.send(query(2))
		require.Equal(t, "<results>"+statuses(3000, 2)+"</results>", second.reply(), "larger than the pool, but alone")
		require.NoError(t, errors.Join(first.Close(), second.Close()))
		synctest.Wait()
		require.Equal(t, uint64(2), m.latency[exchange.QueryOrder][outcomeRefused].Count(), "counted as refused")
		require.Equal(t, uint64(2), m.latency[exchange.QueryOrder][outcomeOK].Count())
	})
}

func TestAReplyHoldsWhatItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.executions = 5000
		s := start(t, p, x, Options{})
		c := connect(t, p)
		c.send(query(1))
		synctest.Wait()
		size := len(statuses(5000, 1))
		require.GreaterOrEqual(t, s.workingHeld(), float64(size))
		require.LessOrEqual(t, s.workingHeld(), 1.5*float64(size), "memory that only encoding needed is given back")
		c.reply()
		synctest.Wait()
		require.Zero(t, s.workingHeld())
	})
}

func TestSessionsThatEndGiveTheirMemoryBack(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *Server, []*client){
		"clients that are gone": func(t *testing.T, s *Server, clients []*client) {
			for _, c := range clients {
				require.NoError(t, c.Close())
			}
			synctest.Wait()
			require.Zero(t, s.count())
		},
		"time": func(_ *testing.T, s *Server, _ []*client) {
			time.Sleep(time.Hour)
			require.Zero(t, s.count())
		},
		"a shutdown": func(t *testing.T, s *Server, _ []*client) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, x := newPipes(), newFake()
				x.executions = 10_000
				s := start(t, p, x, Options{FrameBytesMax: 1e7, MemoryMax: 24_000_000, UnsentRepliesMax: 2})
				var clients []*client
				for range 4 {
					replies, arriving := connect(t, p), connect(t, p)
					go func() { _, _ = replies.Write([]byte(strings.Repeat(query(1), 20))) }()
					go func() { _, _ = arriving.Write([]byte(strings.Replace(part, "100000", "4000000", 1))) }()
					clients = append(clients, replies, arriving)
				}
				synctest.Wait()
				require.Greater(t, s.workingHeld(), 1e6)
				require.Equal(t, 6_000_000.0, s.arrivingHeld())
				leave(t, s, clients)
				require.Zero(t, s.workingHeld()+s.arrivingHeld())
			})
		})
	}
}

func TestShutdownDoesNotWaitForFramesThatWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{MemoryMax: 1000})
		waiting := make([]*client, 100)
		for i := range waiting {
			waiting[i] = connect(t, p)
			go func() { _, _ = waiting[i].Write([]byte(part)) }()
		}
		synctest.Wait()
		begun := time.Now()
		done := shutDown(t.Context(), s)
		for _, c := range waiting {
			require.Equal(t, errorReply(textDraining), c.reply())
		}
		require.NoError(t, <-done)
		require.Less(t, time.Since(begun), 2*time.Second)
	})
}

func TestAFailedExchangeGivesMemoryBack(t *testing.T) {
	l, x := listen(t), newFake()
	x.executeErr = errors.New("the disk is gone")
	start(t, l, x, crowded)
	for range 2 {
		c := dial(t, l)
		c.send(query(1))
		c.isLast(textFailed)
	}
}

func TestAnswerTellsThatThereIsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newFake()
		s := New(x, crowded)
		err := s.Answer(t.Context(), xmlCodec, framedXML(query(1)), func(reply []byte) {
			require.Equal(t, answer(1), string(reply))
			require.Equal(t, 2.0, s.workingHeld(), "until the reply is sent")
			second, err := ask(s, t.Context(), framedXML(query(2)))
			require.NoError(t, err)
			require.Equal(t, noMemory, string(second))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = ask(s, ctx, framedXML(query(3)))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		require.NoError(t, err)
		require.Equal(t, []int{1}, x.queried)
		require.Equal(t, 1.0, s.hits(limitMemory))
		requireNothingHeld(t, s)
	})
}

// Frames of other transports count only while they are executed: neither while they wait for memory nor while
// the reply is being read.
func TestOtherTransportsAreBoundedWhileTheyAreExecuted(t *testing.T) {
	budget.SkipRaced(t, "it measures memory; other tests have more clients")
	synctest.Test(t, func(t *testing.T) {
		x := newFake()
		s := New(x, Options{MemoryMax: 32 << 20}) // so that frames soon count as huge
		held, err := s.huge.wait(t.Context(), math.MaxInt, time.Second)
		require.NoError(t, err)
		reading := make(chan struct{})
		answers := make(chan error, 3*answersMax)
		many := func(xml []byte) {
			for range answersMax {
				go func() { answers <- s.Answer(t.Context(), xmlCodec, xml, func([]byte) { <-reading }) }()
			}
			synctest.Wait()
		}
		many([]byte("<create>" + strings.Repeat("<a/>", 5000) + "</create>")) // frames wait for memory
		many([]byte("<create/>"))                                             // replies are being read
		x.held = true
		many(framedXML(opening(1))) // frames are being executed
		_, err = ask(s, t.Context(), []byte("<create/>"))
		require.ErrorIs(t, err, ErrBusy)
		x.set(func() { x.held = false })
		synctest.Wait()
		reply, err := ask(s, t.Context(), []byte("<create/>"))
		require.NoError(t, err)
		require.Equal(t, "<results/>", string(reply))
		close(reading)
		s.huge.release(held)
		for range 3 * answersMax {
			require.NoError(t, <-answers)
		}
		requireNothingHeld(t, s)
	})
}

func TestAnswerGivesMemoryBackAfterAnError(t *testing.T) {
	gone := errors.New("the disk is gone")
	for _, x := range []*fake{{executeErr: gone}, {durableErr: gone}} {
		s := New(x, crowded)
		_, err := ask(s, t.Context(), framedXML(query(1)))
		require.ErrorIs(t, err, gone)
		requireNothingHeld(t, s)
	}
}

func TestAdmitTakesWhatAFrameOverTCPTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(newFake(), Options{MemoryMax: 1000})
		small, err := s.Admit(t.Context(), xmlCodec, nil, 64<<10)
		require.NoError(t, err)
		require.Zero(t, s.arrivingHeld())
		large, err := s.Admit(t.Context(), xmlCodec, nil, 64<<10+1)
		require.NoError(t, err)
		require.Equal(t, 250.0, s.arrivingHeld())
		_, err = s.Admit(t.Context(), xmlCodec, nil, 100_000)
		require.EqualError(t, err, "the exchange had no memory for a frame of this size for 30s; try again later, or "+
			"with smaller frames")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Admit(ctx, xmlCodec, nil, 100_000)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1.0, s.hits(limitMemory))
		small()
		large()
		requireNothingHeld(t, s)
	})
}
