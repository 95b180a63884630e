package gateway

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/wire"
)

// size returns how much of a load is tried: the full figure with OUTCRY_OVERLOAD
// set, a fraction that the suite has time for without.
func size(full, short int) int {
	if os.Getenv("OUTCRY_OVERLOAD") != "" {
		return full
	}
	return short
}

func queries(orders ...int) string {
	t := wire.NewTransactions("1")
	for _, id := range orders {
		t.Query(fmt.Sprint(id))
	}
	return string(wire.AppendFrame(nil, t.Append(nil)))
}

func TestALongReplyEndsAtItsBound(t *testing.T) {
	l, x := listen(t), newFake()
	x.executions = 1000
	s := start(t, l, x, Options{ExecutionsMax: 2500})
	c := dial(t, l)
	c.send(queries(1, 2, forgotten, 4, forgotten))
	answers, err := wire.ParseReply([]byte(c.reply()))
	require.NoError(t, err)
	for i, a := range answers {
		if i < 3 {
			require.Len(t, a.Executed, 1000, "whole, also where it passes the bound")
			continue
		}
		require.Equal(t, "error", a.Kind)
		require.Equal(t, fmt.Sprintf("this reply tells of as many executions as one may: ask for order %s in another frame", a.ID), a.Error)
	}
	require.Equal(t, 2.0, s.hits(limitReply))

	// Frame by frame there is no bound, also where they are executed together.
	c.send(queries(1), queries(2), queries(3), queries(forgotten), queries(forgotten))
	for range 5 {
		answers, err := wire.ParseReply([]byte(c.reply()))
		require.NoError(t, err)
		require.Len(t, answers[0].Executed, 1000)
	}
	require.Equal(t, 2.0, s.hits(limitReply))
}

func TestALargeFrameWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		s := start(t, p, x, Options{MemoryMax: 100_000 * frameWeight})
		xml := `<transactions id="1"><query id="3"/>` + strings.Repeat(" ", 100_000) + `</transactions>`
		first, second := connect(t, p), connect(t, p)
		first.send(frame(xml)[:50_000])
		synctest.Wait()
		require.EqualValues(t, s.memory.max, s.memory.used.Load(), "taken with the length line")
		go second.send(frame(xml))
		time.Sleep(20 * time.Second)
		require.Zero(t, x.executed())
		small := connect(t, p)
		small.send(query(1))
		require.Equal(t, answer(1), small.reply(), "small frames need nobody's memory")
		first.send(frame(xml)[50_000:])
		require.Equal(t, answer(3), first.reply())
		require.Equal(t, answer(3), second.reply())
		require.Zero(t, s.hits(limitMemory))
	})
}

func TestAFrameThatFindsNoMemoryIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		s := start(t, p, x, Options{})
		_, err := s.memory.acquire(context.Background(), s.memory.max)
		require.NoError(t, err)
		c := connect(t, p)
		begun := time.Now()
		go io.WriteString(c, query(1)+"70000\n"+strings.Repeat(" ", 70_000))
		require.Equal(t, answer(1), c.reply())
		require.Equal(t, errorReply("there was no memory for a frame of 70000 bytes within 30s; try again later"), c.reply())
		require.Equal(t, 30*time.Second, time.Since(begun))
		c.ends()
		require.Equal(t, 1.0, s.hits(limitMemory))
		reply, err := s.Answer(context.Background(), []byte(strings.Repeat(" ", 70_000)))
		require.NoError(t, err)
		require.Contains(t, string(reply), "no memory", "over HTTP too")
		s.memory.release(s.memory.max)
	})
}

func TestQueriesThatFindNoMemoryAreRefused(t *testing.T) {
	l, x := listen(t), newFake()
	x.executions = 1000
	s := start(t, l, x, Options{})
	_, err := s.memory.acquire(context.Background(), s.memory.max)
	require.NoError(t, err)
	c := dial(t, l)
	c.send(queries(1, forgotten))
	answers, err := wire.ParseReply([]byte(c.reply()))
	require.NoError(t, err)
	require.Len(t, answers, 2)
	for _, a := range answers {
		require.Equal(t, "the exchange has no memory for the answer about order "+a.ID+" now: ask again later", a.Error)
	}
	require.Equal(t, 2.0, s.hits(limitMemory))
	c.send(opening(1))
	require.Equal(t, `<results><created id="1"/></results>`, c.reply(), "what has been done is told")
	s.memory.release(s.memory.max)
	c.send(queries(1, forgotten))
	require.NotContains(t, c.reply(), "error")
}

// Clients that ask for long replies and never take them. Memory stays within the
// budget, and they are cut off in time.
func TestSlowReadersStayWithinTheBudget(t *testing.T) {
	l, x := listen(t), newFake()
	x.executions = 20_000 // 1.5 MB a reply
	s := start(t, l, x, Options{MemoryMax: 32 << 20, WriteTimeout: 300 * time.Millisecond})
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	const clients = 60
	for range clients {
		c := dial(t, l)
		require.NoError(t, c.Conn.(*net.TCPConn).SetReadBuffer(4096)) // the kernel is to hold little
		go io.WriteString(c, strings.Repeat(query(1), 10))            // 15 MB each, 900 MB together
	}
	peak := uint64(0)
	eventually(t, func() bool {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc-min(before.HeapAlloc, now.HeapAlloc))
		require.LessOrEqual(t, s.memory.used.Load(), s.memory.max)
		cut := int(s.hits(limitWriteTime)) // the others were refused their answers, which the kernel has taken
		return cut > 0 && s.count() == clients-cut && s.memory.used.Load() == 0
	})
	t.Logf("peak heap %d MB", peak>>20)
	require.Less(t, peak, uint64(100<<20))
}

// TestGarbageIsRefused sends random bytes as a stream and in frames.
func TestGarbageIsRefused(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	source := func(n byte) io.Reader {
		key := [32]byte{n}
		binary.LittleEndian.PutUint64(key[8:], seed)
		return rand.NewChaCha8(key)
	}
	l := listen(t)
	start(t, l, newFake(), Options{})
	c := dial(t, l)
	go func() {
		_, _ = io.CopyN(c, io.MultiReader(strings.NewReader("x"), source(1)), int64(size(100, 8))<<20) // the server may close first
	}()
	require.Contains(t, c.reply(), "a frame begins with its length")

	c = dial(t, l)
	garbage, random := make([]byte, 1<<20), source(2)
	for range size(100, 8) {
		_, err := io.ReadFull(random, garbage)
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.send(frame(string(garbage)))
		}()
		require.Contains(t, c.reply(), "<results><error>malformed XML: ")
		<-done
	}
	c.send(query(7))
	require.Equal(t, answer(7), c.reply(), "the connection is as good as before")
}

// TestManyConnectionsLeaveNothing opens connections and drops them, idle, in the
// middle of a frame and before the reply.
func TestManyConnectionsLeaveNothing(t *testing.T) {
	l := listen(t)
	s := start(t, l, newFake(), Options{})
	settled := func() bool { return s.count() == 0 }
	goroutines := runtime.NumGoroutine()
	var dropping sync.WaitGroup
	const workers = 20
	for n := range workers {
		dropping.Go(func() {
			for i := range size(50_000, 3000) / workers {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				stream := query(1)
				_, _ = io.WriteString(c, stream[:(i+n)%3*len(stream)/2])
				_ = c.(*net.TCPConn).SetLinger(0) // a reset: no port stays behind
				c.Close()
			}
		})
	}
	dropping.Wait()
	eventually(t, settled)
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+5 }) // eventually has some itself
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	require.Less(t, len(files), 100)
}
