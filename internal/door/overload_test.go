package door

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/budget"
)

// These tests are about clients that are malicious or send too much, over real sockets, and with a real
// engine and journal if orders are placed.
//
//	go test ./internal/door -run Overload -overload -v
//
// runs them with the figures that the documentation promises. Without the flag they are smaller.
var overload = flag.Bool("overload", false, "run the tests of overload at their full size")

// scaled returns full with the flag, otherwise short.
func scaled(short, full int) int {
	if *overload {
		return full
	}
	return short
}

// realExchange returns an engine with its own journal.
func realExchange(t *testing.T) *engine.Engine {
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 20})
	require.NoError(t, err)
	e := engine.New(engine.Options{Journal: j, State: exchange.NewState()})
	t.Cleanup(func() {
		e.Close()
		require.NoError(t, j.Close())
	})
	return e
}

// trader is a well-behaved client that trades while others misbehave.
type trader struct {
	*client
	orders int // orders placed so far, if no other client places any
}

// openMarket connects a trader and makes account 1 with cash and account 2 with shares of S.
func openMarket(t *testing.T, l net.Listener) *trader {
	c := &trader{client: dial(t, l)}
	c.send(frame(`<create><account id="1" balance="1000000000"/><account id="2" balance="0"/><symbol sym="S">` +
		`<account id="2">1000000000</account></symbol></create>`))
	require.Equal(t, `<results><created id="1"/><created id="2"/><created sym="S" id="2"/></results>`, c.reply())
	return c
}

// trade has account 2 sell to account 1, and requires that this works at once.
func (c *trader) trade() {
	c.t.Helper()
	c.send(frame(`<transactions id="2"><order sym="S" amount="-1" limit="1"/></transactions>`),
		frame(fmt.Sprintf(`<transactions id="1"><order sym="S" amount="1" limit="1"/><query id="%d"/></transactions>`,
			c.orders+2)))
	require.Equal(c.t, fmt.Sprintf(`<results><opened sym="S" amount="-1" limit="1" id="%d"/></results>`, c.orders+1),
		c.reply())
	got := c.reply()
	require.Contains(c.t, got, fmt.Sprintf(`<opened sym="S" amount="1" limit="1" id="%d"/>`, c.orders+2))
	require.Contains(c.t, got, `<executed shares="1" price="1" time="`)
	c.orders += 2
}

// executions makes order 1 with the given number of executions, in thousands. It must be called before any
// other order is placed.
func (c *trader) executions(thousands int) {
	c.t.Helper()
	require.Zero(c.t, c.orders)
	n := thousands * 1000
	c.send(frame(fmt.Sprintf(`<transactions id="1"><order sym="S" amount="%d" limit="1"/></transactions>`, n)))
	require.Contains(c.t, c.reply(), `id="1"/>`)
	for range thousands {
		c.send(frame(`<transactions id="2">` + strings.Repeat(`<order sym="S" amount="-1" limit="1"/>`, 1000) +
			`</transactions>`))
		require.Equal(c.t, 1000, strings.Count(c.reply(), "<opened "))
	}
	c.orders = n + 1
}

// heap returns the bytes of objects on the heap, including dead ones that are not collected yet.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// watchHeap watches the heap until largest is called, which returns the largest size seen.
func watchHeap(t *testing.T) (largest func() uint64) {
	stop, done := make(chan struct{}), make(chan uint64, 1)
	go func() {
		most := uint64(0)
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-tick.C:
				most = max(most, heap())
			case <-stop:
				done <- most
				return
			}
		}
	}()
	ended := sync.OnceValue(func() uint64 {
		close(stop)
		return <-done
	})
	t.Cleanup(func() { ended() })
	return ended
}

// dialSmall connects with a small receive buffer, so that the server soon notices a client that does not
// read.
func dialSmall(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestOverloadSlowReadersAreCutAndMemoryStaysBounded(t *testing.T) {
	budget.SkipRaced(t, "it measures memory; other tests have more clients")
	const replies = 100
	clients, memoryMax := scaled(20, 200), scaled(96<<20, 960<<20) // enough memory for one reply of each client
	l, x := listen(t), realExchange(t)
	s := start(t, l, x, Options{WriteTimeout: time.Second, MemoryMax: memoryMax})
	c := openMarket(t, l)
	c.executions(5) // replies of 280 KB
	runtime.GC()
	before, largest := heap(), watchHeap(t)
	for range clients {
		conn := dialSmall(t, l)
		go func() { _, _ = io.WriteString(conn, strings.Repeat(query(1), replies)) }()
	}
	for s.hits(limitWriteTime) < float64(clients) {
		c.trade()
	}
	eventually(t, func() bool { return s.count() == 1 })
	// The bound is twice the memory limit, to allow for objects that are not collected yet, plus 1 MiB for each client.
	// All replies together would be 28 MB for each client.
	bound := before + 2*uint64(memoryMax) + uint64(clients)<<20
	t.Logf("%d clients: largest heap %d MiB, bound %d MiB", clients, largest()>>20, bound>>20)
	require.Less(t, largest(), bound)
	require.Zero(t, s.workingHeld())
}

func TestOverloadSlowWritersAreCutWithTheReason(t *testing.T) {
	clients := scaled(50, 1000)
	l, x := listen(t), realExchange(t)
	s := start(t, l, x, Options{FrameTimeout: 500 * time.Millisecond})
	c := openMarket(t, l)
	slow := make([]*client, clients)
	for i := range slow {
		slow[i] = dial(t, l)
		slow[i].send("1000000\n")
	}
	stop := make(chan struct{})
	var dripping sync.WaitGroup
	dripping.Go(func() {
		for {
			for _, c := range slow {
				select {
				case <-stop:
					return
				default:
					_, _ = io.WriteString(c, " ")
				}
			}
		}
	})
	for _, c := range slow {
		require.Equal(t, errorReply("a frame did not arrive within 500ms"), c.reply())
	}
	close(stop)
	dripping.Wait()
	c.trade()
	require.Equal(t, float64(clients), s.hits(limitFrameTime))
}

// random returns a source of random numbers, and logs its seed.
func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// garbageOf returns n random bytes.
func garbageOf(r *rand.Rand, n int) []byte {
	garbage := make([]byte, n)
	for i := range garbage {
		garbage[i] = byte(r.Uint32())
	}
	return garbage
}

func TestOverloadGarbageAsOneStream(t *testing.T) {
	garbage := garbageOf(random(t), scaled(8<<20, 100<<20))
	l := listen(t)
	start(t, l, newFake(), Options{})
	c := dial(t, l)
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = c.Write(garbage) }) // the connection may be cut off
	all, _ := io.ReadAll(c.in)                     // the reading may also end in an error, after the reason
	sending.Wait()
	replies := framesOf(t, all)
	require.Contains(t, replies[len(replies)-1], "<results><error>a frame")
}

func TestOverloadGarbageAsFrames(t *testing.T) {
	r := random(t)
	l, x := listen(t), newFake()
	s := start(t, l, x, Options{})
	c := dial(t, l)
	garbage := garbageOf(r, 1<<20)
	for rest := scaled(8<<20, 100<<20); rest > 0; {
		size := 1 << r.IntN(20)
		from := r.IntN(len(garbage) - size)
		c.send(frame(string(garbage[from:][:size])))
		require.Contains(t, c.reply(), "<results><error>malformed XML")
		rest -= size
	}
	c.send(query(1))
	require.Equal(t, answer(1), c.reply())
	require.Equal(t, []int{1}, x.calls, "only the valid frame reaches the exchange")
	require.Zero(t, s.workingHeld()+s.arrivingHeld())
}

func TestOverloadDeepAndWideDocumentsAreRefused(t *testing.T) {
	l, x := listen(t), newFake()
	start(t, l, x, Options{})
	c := dial(t, l)
	size := scaled(1<<20, 4<<20-100)
	for _, document := range []struct{ start, part, want string }{
		{"<create>", "<a>", "elements are nested more than 16 deep"},
		{"<create>", "<a/>", "there are more than 100000 elements in a frame"},
		{"<create", ` a=""`, "bytes, within a tag or a comment"},
		{"<create>", "<a" + strings.Repeat(` a=""`, 33) + "/>", "an element has more than 32 attributes"},
		{"<create>", "</create>", "&lt;/create&gt; closes nothing"},
	} {
		xml := document.start + strings.Repeat(document.part, size/len(document.part))
		c.send(frame(xml), query(1))
		require.Contains(t, c.reply(), document.want)
		require.Equal(t, answer(1), c.reply())
	}
}

// flooder is a client that sends frames as fast as the server accepts them, and may delay reading its
// replies. It counts frames and replies.
type flooder struct {
	conn     net.Conn
	frames   [][]byte
	sent     atomic.Int64 // complete frames
	answered int
	reason   string // text of the last reply, "" if all frames were answered
	err      error
}

// send sends each frame once, and closes the sending side.
func (f *flooder) send() {
	for _, frame := range f.frames {
		if _, err := f.conn.Write(frame); err != nil {
			return
		}
		f.sent.Add(1)
	}
	_ = f.conn.(*net.TCPConn).CloseWrite()
}

// read reads replies until the server closes the connection. It keeps only the beginning of each.
func (f *flooder) read() {
	in := bufio.NewReader(f.conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if line != "" || err != io.EOF {
				f.err = err
			}
			return
		}
		n, err := strconv.Atoi(strings.TrimSuffix(line, "\n"))
		if err != nil {
			f.err = err
			return
		}
		head := make([]byte, min(n, 200))
		if _, f.err = io.ReadFull(in, head); f.err != nil {
			return
		}
		if _, f.err = io.CopyN(io.Discard, in, int64(n-len(head))); f.err != nil {
			return
		}
		if bytes.Contains(head, []byte("the exchange had no memory for a frame")) {
			f.reason = string(head)
			f.conn.Close() // the server does not accept what is still unsent
			return
		}
		f.answered++
	}
}

func TestOverloadEveryFrameIsAnsweredOrTheConnectionClosedWithAReason(t *testing.T) {
	clients, rounds := scaled(24, 100), scaled(1, 5)
	memoryMax, frameMax, replyMax := scaled(64<<20, 512<<20), scaled(100_000, 4<<20), scaled(1<<20, 16<<20)
	l, x := listen(t), realExchange(t)
	s := start(t, l, x, Options{MemoryMax: memoryMax, FrameBytesMax: frameMax, ReplyBytesMax: replyMax,
		FrameTimeout: patience, WriteTimeout: patience})
	c := openMarket(t, l)
	c.executions(5)
	wide := []byte(frame("<create" + strings.Repeat(` a=""`, (frameMax-8)/5)))
	many := []byte(frame(`<transactions id="3">` + strings.Repeat("<a/>", min(99_999, (frameMax-100)/4)) +
		`</transactions>`))
	long := []byte(asking("", repeat(1, 1000)...))                    // a reply of 280 MB if nothing were left out
	round := [][]byte{long, long, long, long, long, long, long, long} // more than fits into the kernel's buffers
	for range 10 {
		round = append(round, []byte(query(1)),
			[]byte(frame(`<transactions id="1"><order sym="S" amount="1" limit="0.5"/></transactions>`)))
	}
	round = append(round, wide, many)
	runtime.GC()
	before, largest := heap(), watchHeap(t)
	flood := make([]*flooder, clients)
	reading := make(chan struct{})
	var running sync.WaitGroup
	for i := range flood {
		f := &flooder{conn: dialSmall(t, l)}
		for range rounds {
			f.frames = append(f.frames, round...)
		}
		flood[i] = f
		running.Go(f.send)
		running.Go(func() {
			<-reading
			f.read()
		})
	}
	// No client reads a reply until one frame has found no memory.
	eventually(t, func() bool { return s.hits(limitMemory) > 0 })
	close(reading)
	running.Wait()
	reasons := 0
	for i, f := range flood {
		require.NoError(t, f.err, "client %d", i)
		if f.reason != "" {
			reasons++
			require.LessOrEqual(t, f.answered, int(f.sent.Load()))
			continue
		}
		require.Equal(t, len(f.frames), f.answered, "client %d", i)
	}
	last := dial(t, l)
	last.send(query(1))
	require.Equal(t, 5000, strings.Count(last.reply(), "<executed "))
	bound := before + 2*uint64(memoryMax) + uint64(clients)<<20
	t.Logf("%d clients, %d frames each: %d closed with a reason, %v replies without memory; largest heap %d MiB, "+
		"bound %d MiB",
		clients, len(flood[0].frames), reasons, s.hits(limitMemory)-float64(reasons), largest()>>20, bound>>20)
	require.Less(t, largest(), bound)
	// The last reply arrives a moment before the server has released its memory.
	eventually(t, func() bool { return s.workingHeld()+s.arrivingHeld() == 0 })
}

// repeat returns a slice of n times v.
func repeat(v, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = v
	}
	return all
}
