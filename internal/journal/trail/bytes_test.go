package trail

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/doctest"
)

// eventOptions are those of a server's trail.
var eventOptions = Options[exchange.KeptEvent]{Decode: exchange.KeptDecoder, Extra: (*exchange.KeptEvent).Extra,
	Work: (*exchange.KeptEvent).Work, Recycle: (*exchange.KeptEvent).Recycle}

// largeEvent returns an event that needs memory of its own: an order with 4,096 fills, the cancel of up to 20,000
// orders, a halt with a long reason, or an order with a ref. Some events need none.
func largeEvent(r *rand.Rand, n uint64) *exchange.Event {
	id := exchange.OrderID(1e6 + n)
	e := &exchange.Event{Kind: exchange.OrderAccepted, Time: int64(n), Account: "1", Symbol: "S", Order: id, Shares: 1e12,
		Terms: exchange.Terms{Side: exchange.Buy, Limit: 5}}
	switch r.IntN(6) {
	case 0:
		for i := range exchange.OrderID(4096) {
			e.Fills = append(e.Fills, exchange.Fill{Resting: i + 1, Account: "2", Shares: 3, Price: 5})
		}
	case 1:
		e = &exchange.Event{Kind: exchange.OrdersCanceled, Time: int64(n), Account: "1"}
		for i := range exchange.OrderID(1 + r.IntN(20_000)) {
			e.Cancels = append(e.Cancels, exchange.Cancel{Order: i + 1, Symbol: "S", Terms: exchange.Terms{Side: exchange.Buy,
				Limit: 5}, Shares: 7})
		}
	case 2:
		e = &exchange.Event{Kind: exchange.SymbolHalted, Time: int64(n), Symbol: "S", Reason: strings.Repeat("why ", 50)}
	case 3:
		e.Ref = exchange.Ref(fmt.Sprint("ref-", n))
	}
	return e
}

// held returns the memory that the values of the ring refer to, by a count of them.
func held(t *Trail[exchange.KeptEvent]) (bytes int) {
	for i := range t.pages {
		p := t.pages[i].Load()
		if p == nil {
			continue
		}
		for at := range p.slots {
			if s := &p.slots[at]; s.seq.Load() == p.n.Load()*pageRecords+uint64(at) && s.seq.Load() > 0 {
				bytes += s.value.Extra()
			}
		}
	}
	return bytes
}

// TestTheBytesOfTheRingAreBounded puts large events on the trail side by side, while one follower is in the middle of
// the first page. The ring never has more bytes than its bound and one event of each goroutine, the oldest events
// leave it, and no goroutine waits. Followers get all events: the older ones from files, the newest from the ring.
func TestTheBytesOfTheRingAreBounded(t *testing.T) {
	for name, pages := range map[string]int{"bound by bytes": 0, "bound by pages": 1} {
		t.Run(name, func(t *testing.T) { putLarge(t, pages) })
	}
}

func putLarge(t *testing.T, pages int) {
	const shards, each = 4, 200
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	j, err := journal.Open(t.TempDir(), journal.Options{Version: 1, SegmentBytes: 64 << 20})
	require.NoError(t, err)
	defer j.Close()
	o := eventOptions
	o.pages, o.bytes = pages, ringBytes
	all := New(j, o)
	f, err := all.Follow(FollowOptions{HoldMax: 1 << 20})
	require.NoError(t, err)
	defer f.Close()
	first, err := j.Append(exchange.AppendEvent(nil, largeEvent(rand.New(rand.NewPCG(1, 1)), 1)))
	require.NoError(t, err)
	at := all.Place(first)
	at.Value.Keep(largeEvent(rand.New(rand.NewPCG(1, 1)), 1))
	at.Put()
	require.NoError(t, j.Wait(t.Context(), first))
	_, _, ok, err := f.TryNext()
	require.NoError(t, err)
	require.True(t, ok)

	var records sync.Map // by seq
	var most int
	for range 100 { // the largest event
		var k exchange.KeptEvent
		k.Keep(largeEvent(rand.New(rand.NewPCG(seed, 0)), 1))
		most = max(most, k.Extra())
	}
	most = max(most, 20_000*int(unsafe.Sizeof(exchange.Cancel{})))
	var putting sync.WaitGroup
	for s := range uint64(shards) {
		putting.Go(func() {
			r := rand.New(rand.NewPCG(seed, s))
			for n := range uint64(each) {
				e := largeEvent(r, s*each+n+2)
				record := exchange.AppendEvent(nil, e)
				seq, err := j.Append(record)
				if err != nil {
					t.Error(err)
					return
				}
				records.Store(seq, record)
				if at := all.Place(seq); at.Value != nil {
					at.Value.Keep(e)
					at.Put()
				}
				if have := all.bytes.Load(); have > int64(ringBytes+shards*most) {
					t.Errorf("%d bytes after record %d", have, seq)
				}
			}
		})
	}
	putting.Wait()
	last := j.Appended()
	require.EqualValues(t, 1+shards*each, last)
	require.NoError(t, j.Wait(t.Context(), last))
	require.LessOrEqual(t, all.bytes.Load(), int64(ringBytes))
	require.EqualValues(t, held(all), all.bytes.Load())
	require.Greater(t, all.floor.Load(), uint64(0), "the oldest have left")

	recent, err := all.Follow(FollowOptions{After: last - 1, HoldMax: 1 << 20})
	require.NoError(t, err)
	defer recent.Close()
	var into exchange.Event
	next := func(f *Follower[exchange.KeptEvent], want uint64) {
		seq, value, ok, err := f.TryNext()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, seq)
		record, _ := records.Load(seq)
		require.True(t, string(record.([]byte)) == string(exchange.AppendEvent(nil, value.Event(&into))), "record %d", seq)
	}
	next(recent, last)
	require.Zero(t, all.files.read)
	for seq := first + 1; seq <= last; seq++ {
		next(f, seq)
	}
	require.NotZero(t, all.files.read)
	require.Less(t, all.files.read, last, "it has joined the ring")
	require.Zero(t, all.files.readers)
}

// TestBoundsAreTheDocumentedOnes compares the bounds of the ring with the documentation.
func TestBoundsAreTheDocumentedOnes(t *testing.T) {
	require.NoError(t, doctest.Bounds("../../../docs/reference/BOUNDS.md", map[string][]string{
		"newest records in memory": {doctest.Thousands(ringPages * pageRecords)},
	}))
}
