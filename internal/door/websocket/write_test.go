package websocket

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestAFrameIsWhatRFC6455Says(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 65535, 65536, 100_000} {
		text := strings.Repeat("x", n)
		f := NewFrame([]byte(text))
		require.Equal(t, text, string(f.Text()))
		h := serving(t, Options{}, func(c *Conn) {
			_ = c.Answer(f)
			readOn(c)
		})
		dial(t, h).want(text)
	}
	require.Nil(t, Frame{}.Text())
}

// TestNothingLeavesBeforeFlush: the events of one step are sent in one write.
func TestNothingLeavesBeforeFlush(t *testing.T) {
	h := serving(t, Options{}, readOn)
	c := dial(t, h)
	conn := <-h.conns
	require.True(t, conn.Push(NewFrame([]byte("one")), nil, 0))
	require.True(t, conn.Push(NewFrame([]byte("two")), nil, 0))
	require.Equal(t, 2*(5+FrameCostBytes), conn.Waiting())
	conn.Flush()
	c.want("one")
	c.want("two")
	eventually(t, func() bool { return conn.Waiting() == 0 })
}

// TestAnswersWaitForTheirReader: the answers that wait for a slow client are bounded, and none is lost.
func TestAnswersWaitForTheirReader(t *testing.T) {
	const all = 1000
	largest := strings.Repeat("x", MessageBytesMax-10)
	h := serving(t, Options{}, func(c *Conn) {
		for i := range all {
			if c.Answer(NewFrame([]byte(strconv.Itoa(i)+largest))) != nil {
				return
			}
			require.LessOrEqual(t, c.Waiting(), WaitingBytesMax)
		}
		readOn(c)
	})
	c := dial(t, h)
	conn := <-h.conns
	eventually(t, func() bool { return conn.Waiting() > WaitingBytesMax-2*MessageBytesMax })
	for i := range all {
		c.want(strconv.Itoa(i) + largest)
	}
}

// TestASlowReaderIsCutWithTheReason: the reader gets every event up to the one that the reason names, and none after
// it.
func TestASlowReaderIsCutWithTheReason(t *testing.T) {
	h := serving(t, Options{}, readOn)
	slow, good := dial(t, h), dial(t, h)
	first, second := <-h.conns, <-h.conns
	if first.remote != slow.conn.LocalAddr().String() {
		first, second = second, first
	}
	var sent Progress
	first.OnSlow(func() string { return fmt.Sprintf("too slow: account.1 was sent up to n %d", sent.Sent()) })
	fill := strings.Repeat("x", 10_000)
	pushed := 0
	for first.Push(NewFrame([]byte(strconv.Itoa(pushed+1)+fill)), &sent, uint64(pushed+1)) {
		pushed++
		first.Flush()
		require.LessOrEqual(t, first.Waiting(), WaitingBytesMax)
		require.True(t, second.Push(NewFrame([]byte(strconv.Itoa(pushed))), nil, 0))
		second.Flush()
		good.want(strconv.Itoa(pushed)) // a reader that keeps up gets every event
	}
	require.False(t, first.Push(NewFrame(nil), nil, 0))
	require.ErrorIs(t, first.Answer(NewFrame(nil)), ErrClosed)
	require.Greater(t, pushed, 100)
	last := 0
	for {
		op, payload := slow.next()
		if op == opClose {
			require.Equal(t, fmt.Sprintf("too slow: account.1 was sent up to n %d", last), string(payload[2:]))
			require.Equal(t, []byte{CodeTooSlow >> 8, CodeTooSlow & 255}, payload[:2])
			break
		}
		require.Equal(t, byte(opText), op)
		last++
		require.Equal(t, strconv.Itoa(last)+fill, string(payload))
	}
	require.Less(t, last, pushed)
	slow.send(masked(bitFin|opClose, []byte{3, 232}))
	slow.wantEnd()
	eventually(t, func() bool { return h.Count() == 1 })
}

// TestASlowReaderThatReadsNothingIsEnded: after a cut, the connection of a client that reads nothing ends when
// CloseTimeout has passed.
func TestASlowReaderThatReadsNothingIsEnded(t *testing.T) {
	h := serving(t, Options{CloseTimeout: 10 * time.Millisecond}, readOn)
	dial(t, h)
	conn := <-h.conns
	fill := NewFrame([]byte(strings.Repeat("x", 100_000)))
	for conn.Push(fill, nil, 0) {
		conn.Flush()
	}
	eventually(t, func() bool { return h.Count() == 0 })
}

// TestACutEndsASlot: if Cut is called while a slot makes its frame, the frame is not sent, because the client may no
// longer be allowed to see it.
func TestACutEndsASlot(t *testing.T) {
	h := serving(t, Options{}, readOn)
	c := dial(t, h)
	conn := <-h.conns
	entered, cut := make(chan struct{}), make(chan struct{})
	asked := 0
	conn.NewSlot(func() (Frame, bool) {
		if asked++; asked > 1 {
			return Frame{}, false
		}
		close(entered)
		<-cut
		return NewFrame([]byte("made after the cut")), true
	}).Set()
	conn.Flush()
	<-entered
	conn.Cut(CodeUnauthorized, "the token has ended")
	close(cut)
	require.Equal(t, "the token has ended", c.wantClose(CodeUnauthorized))
}

// TestASlotIsTheNewestOnly: a slot is queued at most once, no matter how often it is set while a reader is slow.
func TestASlotIsTheNewestOnly(t *testing.T) {
	h := serving(t, Options{}, readOn)
	c := dial(t, h)
	conn := <-h.conns
	var mu sync.Mutex
	value, sent := 0, 0
	fill := strings.Repeat("x", 10_000)
	slot := conn.NewSlot(func() (Frame, bool) {
		mu.Lock()
		defer mu.Unlock()
		if sent == value {
			return Frame{}, false
		}
		sent = value
		return NewFrame([]byte(strconv.Itoa(value) + fill)), true
	})
	const all = 20_000 // far more than the kernel's buffers hold
	for i := range all {
		mu.Lock()
		value = i + 1
		mu.Unlock()
		slot.Set()
		conn.Flush()
		require.Zero(t, conn.Waiting(), "what a slot makes waits nowhere")
		conn.mu.Lock()
		places := conn.queue.Len()
		conn.mu.Unlock()
		require.LessOrEqual(t, places, 1)
	}
	messages, last := 0, 0
	for last < all {
		next, err := strconv.Atoi(strings.TrimSuffix(c.message(), fill))
		require.NoError(t, err)
		require.Greater(t, next, last)
		last = next
		messages++
	}
	require.Less(t, messages, all/2)
}

// TestASlotKeepsItsPlace: frames that were queued before a slot are sent before it, and its own frames are sent
// together.
func TestASlotKeepsItsPlace(t *testing.T) {
	h := serving(t, Options{}, readOn)
	c := dial(t, h)
	conn := <-h.conns
	left := 2
	slot := conn.NewSlot(func() (Frame, bool) {
		left--
		return NewFrame([]byte("part")), left >= 0
	})
	conn.Push(NewFrame([]byte("before")), nil, 0)
	slot.Set()
	slot.Set()
	conn.Push(NewFrame([]byte("after")), nil, 0)
	conn.Flush()
	for _, want := range []string{"before", "part", "part", "after"} {
		c.want(want)
	}
}

// TestManyReadersGetTheirEventsInLargerPieces: writes of market data are bounded, whatever the number of readers;
// no reader waits forever, and events that wait for their turn stay in order.
func TestManyReadersGetTheirEventsInLargerPieces(t *testing.T) {
	const readers, events = 100, 50
	h := serving(t, Options{}, readOn)
	h.pacer.rate = 1000
	var clients []*client
	var conns []*Conn
	for range readers {
		clients = append(clients, dial(t, h))
		conns = append(conns, <-h.conns)
	}
	begun := time.Now()
	for n := range events {
		f := NewFrame([]byte(strconv.Itoa(n)))
		for _, c := range conns {
			require.True(t, c.Push(f, nil, 0))
			c.FlushSoon()
		}
	}
	pushed := time.Since(begun)
	for _, c := range clients {
		for n := range events {
			c.want(strconv.Itoa(n))
		}
	}
	writes := testutil.ToFloat64(h.options.Metrics.writes)
	most := 1000*(pushed+time.Since(begun)).Seconds() + readers // each reader may have one more write at the end
	require.LessOrEqual(t, writes, most)

	// A connection with much to send does not wait for its turn.
	h.pacer.mu.Lock()
	h.pacer.rate = 0
	h.pacer.mu.Unlock()
	largest := NewFrame([]byte(strings.Repeat("x", pacedAtOnce)))
	for range 3 {
		conns[0].Push(largest, nil, 0)
		conns[0].FlushSoon()
		require.Len(t, clients[0].message(), pacedAtOnce)
	}
}

// BenchmarkReaders sends each event to 200 readers. The event is encoded once; each connection costs a place in its
// queue and a share of a write.
func BenchmarkReaders(b *testing.B) {
	const readers = 200
	h := serving(b, Options{}, readOn)
	var conns []*Conn
	var reading sync.WaitGroup
	for range readers {
		c := dial(b, h)
		conns = append(conns, <-h.conns)
		reading.Go(func() {
			for range b.N {
				c.message()
			}
		})
	}
	text := []byte(strings.Repeat("x", 200))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		f := NewFrame(text)
		for _, c := range conns {
			for c.Waiting() > WaitingBytesMax/2 {
				time.Sleep(time.Millisecond) // the benchmark's readers run in the same process
			}
			c.Push(f, nil, 0)
			c.Flush()
		}
	}
	reading.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/readers, "ns/reader")
}

// TestFramesThatAreCompletedAreThoseThatAreMade: BeginFrame and EndFrame make the same bytes as NewFrame, for all
// lengths and after any other bytes.
func TestFramesThatAreCompletedAreThoseThatAreMade(t *testing.T) {
	var all, want []byte
	for _, n := range []int{0, 1, 125, 126, 127, 65535, 65536, 100_000, 3} {
		text := []byte(strings.Repeat("x", n))
		begin := len(all)
		all = EndFrame(append(BeginFrame(all), text...), begin)
		want = append(want, NewFrame(text).bytes...)
		require.Equal(t, want, all)
	}
}

// TestAnswersAreWrittenAsFarAsThereIsRoom: answers for which a client has no room wait in order, followed by the
// events that were queued after them, and the caller may reuse the answers' memory.
func TestAnswersAreWrittenAsFarAsThereIsRoom(t *testing.T) {
	const all, events, size = 400, 10, 20_000
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("%05d", i), size/5) }
	h := serving(t, Options{}, func(c *Conn) {
		var b []byte
		for i := range all {
			b = EndFrame(append(BeginFrame(b[:0]), text(i)...), 0)
			if c.AnswerFrames(b) != nil {
				return
			}
			clear(b)
			require.LessOrEqual(t, c.Waiting(), WaitingBytesMax)
		}
		for i := range events {
			c.Push(NewFrame([]byte(strconv.Itoa(i))), nil, 0)
		}
		c.Flush()
		readOn(c)
	})
	c := dial(t, h)
	conn := <-h.conns
	eventually(t, func() bool { return conn.Waiting() > WaitingBytesMax-2*size })
	for i := range all {
		c.want(text(i))
	}
	for i := range events {
		c.want(strconv.Itoa(i))
	}
	eventually(t, func() bool { return conn.Waiting() == 0 })
}
