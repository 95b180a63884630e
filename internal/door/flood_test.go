package door

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/budget"
)

// floods returns frames of about 2 MB whose replies could be much larger, or whose decoding needs much
// memory.
func floods(size int) map[string]string {
	many := func(start, child, end string) string {
		return start + strings.Repeat(child, min((size-len(start)-len(end))/len(child), wire.ElementsMax-10)) + end
	}
	return map[string]string{
		"a long symbol with children": many(`<create><symbol sym="`+strings.Repeat("A", size/2)+`">`, `<account id="x"/>`,
			`</symbol></create>`),
		"quotes in a bad symbol": many(`<create><symbol sym="`+strings.Repeat("&#34;", 200)+`">`, `<a/>`,
			`</symbol></create>`),
		"a bad account": many(`<transactions id="`+strings.Repeat("&amp;", size/10)+`">`, `<query id="1"/>`,
			`</transactions>`),
		"a long ref for each": many(`<transactions id="1">`, `<query ref="`+strings.Repeat("&quot;", 1000)+`"/>`,
			`</transactions>`),
		"a long text": `<transactions id="1"><query id="1">` + strings.Repeat("&#x41;", size/6) +
			`</query></transactions>`,
		"comments":   many(`<create>`, `<!---->`, `</create>`),
		"attributes": many(`<create `, `a=""`, `/>`),
	}
}

// TestFloodsStayWithinTheirMemory sends such frames over several TCP connections at once, and watches the heap. The
// heap must stay below twice the sum of MemoryMax and the memory that one frame needs beyond the whole pool huge.
// It is twice the sum, because the garbage collector may leave as much again uncollected.
func TestFloodsStayWithinTheirMemory(t *testing.T) {
	budget.SkipRaced(t, "it measures memory; other tests have more clients")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	const memoryMax, size, clients = 64 << 20, 2_000_000, 4
	for name, xml := range floods(size) {
		t.Run(name, func(t *testing.T) {
			l, x := listen(t), newFake()
			s := start(t, l, x, Options{MemoryMax: memoryMax})
			sent := frame(xml)
			alone := max(0, wire.DecodeMemory([]byte(xml))-memoryMax/4)
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			before, most := m.HeapAlloc, uint64(0)
			var left atomic.Int64
			left.Store(clients)
			for range clients {
				c := dial(t, l)
				require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
				go func() {
					defer left.Add(-1)
					_, _ = io.WriteString(c, sent)
					line, err := c.in.ReadString('\n')
					var length int
					if _, scanned := fmt.Sscan(line, &length); err != nil || scanned != nil || length > wire.ReplyMax([]byte(xml)) {
						t.Errorf("a reply of %q bytes, %v", line, err)
					}
					_, _ = io.CopyN(io.Discard, c.in, int64(length))
				}()
			}
			for left.Load() > 0 {
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc-min(before, m.HeapAlloc))
				time.Sleep(time.Millisecond) // lets the other goroutines run
			}
			t.Logf("%d MB of %d MB", most>>20, 2*(memoryMax+alone)>>20)
			require.LessOrEqual(t, most, uint64(2*(memoryMax+alone)))
			eventually(t, func() bool { return s.workingHeld()+s.arrivingHeld() == 0 })
		})
	}
}
