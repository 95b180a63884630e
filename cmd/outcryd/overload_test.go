package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"outcry/internal/wire"
)

// TestTooMuchIsAnsweredAllTheSame: many clients send all they have at once and only
// then begin to read. Every frame gets its reply, and memory stays small: what the
// exchange does not get round to waits in the kernels.
func TestTooMuchIsAnsweredAllTheSame(t *testing.T) {
	flags, _ := dataFlags(t)
	_, addr := inProcess(t, append(flags, "--max-batches=8")...)
	require.NotContains(t, dial(t, addr).must(t, market), "error")
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	const clients, frames = 60, 1000 / raceFactor
	var sending, reading sync.WaitGroup
	sending.Add(clients)
	for n := range clients {
		c := dial(t, addr)
		reading.Go(func() {
			go func() {
				defer sending.Done()
				var all []byte
				for range frames {
					all = wire.AppendFrame(all, []byte(`<transactions id="1"><order sym="S" amount="0.01" limit="1"/></transactions>`))
				}
				_, err := c.Write(all)
				if err != nil {
					t.Errorf("client %d: %v", n, err)
				}
			}()
			sending.Wait() // nobody reads before everybody has sent
			for i := range frames {
				reply, err := c.r.Next()
				if err != nil || !strings.Contains(string(reply), "opened") {
					t.Errorf("client %d, frame %d: %s %v", n, i, reply, err)
					return
				}
			}
		})
	}
	reading.Wait()
	runtime.GC()
	runtime.ReadMemStats(&now)
	grown := int64(now.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d orders took %d MB", clients*frames, grown>>20)
	require.Less(t, grown, int64(100<<20))
}

// TestIdleConnectionsCostOthersLittle holds ten thousand connections open, or as
// many as a process may have here, while one trades.
func TestIdleConnectionsCostOthersLittle(t *testing.T) {
	var files unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	n := int(min(10_000, files.Cur-min(files.Cur/2, 500)))
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	c := dial(t, p.xml)
	require.NotContains(t, c.must(t, market), "error")
	before := resident(t, p)
	for range n {
		conn, err := net.Dial("tcp", p.xml)
		require.NoError(t, err)
		defer conn.Close()
	}
	for range 200 {
		require.Contains(t, c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`), "opened")
	}
	each := (resident(t, p) - before) / n
	t.Logf("%d idle connections, %d bytes each", n, each)
	require.Less(t, each, 40<<10)
	b, err := io.ReadAll(get(t, p, "/metrics").Body)
	require.NoError(t, err)
	require.Contains(t, string(b), fmt.Sprintf("outcry_connections %d\n", n+1))
}

// resident returns the memory that a program has, in bytes.
func resident(t *testing.T, p *program) (bytes int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(status), "VmRSS:")
	require.True(t, ok)
	_, err = fmt.Sscan(after, &bytes)
	require.NoError(t, err)
	return bytes << 10
}

// TestOneFrameCannotAskForEverything: an order with many executions is asked for
// again and again in one frame, while memory holds it, and when only Postgres does.
func TestOneFrameCannotAskForEverything(t *testing.T) {
	const fills = 3000
	flags, _ := dataFlags(t)
	s, addr := inProcess(t, append(flags, "--closed-orders=1", fmt.Sprintf("--max-reply-executions=%d", 2*fills+1))...)
	c := dial(t, addr)
	c.must(t, market)
	c.must(t, fmt.Sprintf(`<transactions id="2"><order sym="S" amount="-%d" limit="1"/></transactions>`, fills))
	many := `<transactions id="1">` + strings.Repeat(`<query id="1"/>`, 10) + `<order sym="S" amount="1" limit="0.01"/><query id="1"/></transactions>`
	check := func(executed int) {
		t.Helper()
		answers, err := wire.ParseReply([]byte(c.must(t, many)))
		require.NoError(t, err)
		require.Len(t, answers, 12)
		for i, a := range answers {
			switch {
			case i == 10:
				require.Equal(t, "opened", a.Kind)
			case i < 3:
				require.Len(t, a.Executed, executed)
			default:
				require.Contains(t, a.Error, "ask for order 1 in another frame")
			}
		}
	}
	buys := `<transactions id="1">` + strings.Repeat(`<order sym="S" amount="1" limit="1"/>`, fills-1) + `</transactions>`
	require.NotContains(t, c.must(t, buys), "error")
	check(fills - 1)
	c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`) // the order is closed
	for s.engine.Stats().ClosedOrders > 1 {
		require.NoError(t, s.projector.WaitApplied(background, s.journal.Appended()))
		c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="0.01"/></transactions>`) // its desk forgets
	}
	check(fills)
}
