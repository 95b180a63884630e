package idmap

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

func testRand(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// requireSame compares a map with its expected content, and checks its invariants.
func requireSame(t *testing.T, m *Map, want map[uint64]uint64) {
	t.Helper()
	got := map[uint64]uint64{}
	for id, value := range m.All() {
		if got[id] != 0 {
			t.Fatalf("id %d is in a page and in the table", id)
		}
		got[id] = value
	}
	require.True(t, maps.Equal(want, got), "%d values, there should be %d", len(got), len(want))
	for id, value := range want {
		if found := m.Find(id); found != value {
			t.Fatalf("id %d: found %d, want %d", id, found, value)
		}
	}
	if r := m.ring.Load(); r != nil {
		require.LessOrEqual(t, len(r.pages), ringMax)
		for i := range r.pages {
			if p := r.pages[i].Load(); p != nil {
				require.Equal(t, uint64(i), p.number&r.mask)
				require.Less(t, p.number, m.next)
				require.False(t, p.givenUp.Load())
			}
		}
	}
}

// pages returns the number of pages in memory.
func (m *Map) pages() (n int) {
	for i := range m.ring.Load().pages {
		if m.ring.Load().pages[i].Load() != nil {
			n++
		}
	}
	return n
}

// TestMapEqualsAMap adds ids that rise, mostly by one and sometimes by up to a page, a ring or almost any number; some
// are added late, some with AddOld. Ids are removed, most of them soon.
func TestMapEqualsAMap(t *testing.T) {
	r := testRand(t)
	for range budget.Of(20) {
		var m Map
		want := map[uint64]uint64{}
		var there, late []uint64
		last := r.Uint64N(1 << r.IntN(60))
		add := func(id uint64) {
			want[id] = 1 + r.Uint64N(moved-1)
			if r.IntN(50) == 0 {
				m.AddOld(id, want[id])
			} else {
				m.Add(id, want[id])
			}
			there = append(there, id)
		}
		stays := r.IntN(100) // percentage of ids that are not removed soon
		for range 20_000 {
			last++
			switch r.IntN(1000) {
			case 0:
				last += r.Uint64N(2 * pageLen)
			case 1:
				last += pageLen * ringMin * r.Uint64N(3)
			case 2:
				last += r.Uint64N(1 << r.IntN(50))
			}
			if r.IntN(20) == 0 {
				late = append(late, last)
			} else {
				add(last)
			}
			if n := len(late); n > 0 && r.IntN(30) == 0 {
				i := r.IntN(n)
				add(late[i])
				late[i], late = late[n-1], late[:n-1]
			}
			if i := r.IntN(len(there) + 1); i < len(there) && r.IntN(100) >= stays {
				id := there[i]
				m.Remove(id, want[id])
				delete(want, id)
				there[i], there = there[len(there)-1], there[:len(there)-1]
				require.Zero(t, m.Find(id))
			}
			near := last - r.Uint64N(3*pageLen)
			require.Equal(t, want[near], m.Find(near))
		}
		requireSame(t, &m, want)
		for _, id := range there {
			m.Remove(id, want[id])
		}
		requireSame(t, &m, nil)
	}
}

func TestWhatOutlivesItsNeighboursMovesAndItsPageGoes(t *testing.T) {
	var m Map
	want := map[uint64]uint64{}
	const pages = 3 * ringMin
	for id := range uint64(pages * pageLen) {
		m.Add(id, id+1)
		if id%pageLen == 7 { // these values keep the page, unless it moved
			want[id] = id + 1
		} else {
			m.Remove(id, id+1)
		}
	}
	requireSame(t, &m, want)
	require.Equal(t, ringMin, m.pages())
	require.Nil(t, m.page(7))
	require.NotNil(t, m.page((pages-1)*pageLen))
}

func TestADensePageStays(t *testing.T) {
	var m Map
	want := map[uint64]uint64{}
	for id := range uint64(sparseLen) {
		m.Add(id, id+1)
		want[id] = id + 1
	}
	for number := uint64(1); number < 3*ringMin; number++ {
		m.Add(number*pageLen, number)
		want[number*pageLen] = number
	}
	requireSame(t, &m, want)
	require.NotNil(t, m.page(0))
	m.Remove(0, 1)
	delete(want, 0)
	for number := uint64(3 * ringMin); m.page(0) != nil; number++ {
		require.Less(t, number, uint64(8*ringMin), "the page is sparse now and has been swept")
		m.Add(number*pageLen, number)
		want[number*pageLen] = number
	}
	requireSame(t, &m, want)
}

// TestTheRingGrowsToItsLimitAndPagesGoOnceTheyAreSparse fills more pages than the ring
// may have, each with just enough values to be kept.
func TestTheRingGrowsToItsLimitAndPagesGoOnceTheyAreSparse(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	var m Map
	want := map[uint64]uint64{}
	for number := range uint64(ringMax + 10) {
		for id := number * pageLen; id < number*pageLen+sparseLen; id++ {
			m.Add(id, id+1)
			want[id] = id + 1
		}
	}
	requireSame(t, &m, want)
	require.Equal(t, ringMax, m.pages())
	for id, value := range want {
		m.Remove(id, value)
	}
	const enough = ringMax / sweepLen // new pages that sweep the whole ring
	for number := uint64(ringMax + 10); number < ringMax+10+enough; number++ {
		m.Add(number*pageLen, 1)
		m.Remove(number*pageLen, 1)
	}
	requireSame(t, &m, nil)
	require.LessOrEqual(t, m.pages(), enough, "only new pages remain")
}

func TestIdsFarApartDoNotTakeAPageEach(t *testing.T) {
	for _, step := range []uint64{pageLen, ringMin * pageLen, 1<<32 + pageLen, 1 << 49} {
		var m Map
		want := map[uint64]uint64{}
		for id := uint64(1); len(want) < 3*ringMin; id += step {
			m.Add(id, id)
			want[id] = id
		}
		requireSame(t, &m, want)
		require.LessOrEqual(t, m.pages(), ringMin)
	}
}

// TestAValueThatComesToAPageThatIsGivenUpIsFound interrupts Add after it has looked up the
// page.
func TestAValueThatComesToAPageThatIsGivenUpIsFound(t *testing.T) {
	var m Map
	m.Add(1, 10)
	m.Add(3, 30)
	stale := m.page(2)
	m.Add(ringMin*pageLen, 40) // needs the ring slot of the page
	require.True(t, stale.givenUp.Load())
	m.put(stale, 2, 20)
	want := map[uint64]uint64{1: 10, 2: 20, 3: 30, ringMin * pageLen: 40}
	requireSame(t, &m, want)
	require.Equal(t, uint64(moved), stale.cell(2).Load(), "also for readers of the old page")
	m.Add(4, 50) // now the id has no page
	want[4] = 50
	requireSame(t, &m, want)
	for id, value := range want {
		m.Remove(id, value)
	}
	requireSame(t, &m, nil)
}

func TestAnOldIDIsFoundWhenItsNeighboursFollow(t *testing.T) {
	var m Map
	want := map[uint64]uint64{5000: 1, 5003: 2, 5001: 3, 90_000: 4, 90_001: 5, 89_000: 6}
	m.AddOld(5000, 1)
	m.Add(5003, 2)
	m.AddOld(5001, 3)
	m.Add(90_000, 4)
	m.AddOld(90_001, 5)
	m.Add(89_000, 6)
	requireSame(t, &m, want)
	require.NotNil(t, m.page(90_001), "an existing page is used")
	require.Nil(t, m.page(89_000), "the id is late")
}

func TestAnIDHasOneValue(t *testing.T) {
	var m Map
	m.Add(1, 10)
	m.Add(pageLen, 20)
	m.AddOld(1<<40, 30)
	check := func() {
		for id, value := range map[uint64]uint64{1: 10, pageLen: 20, 1 << 40: 30} {
			require.Panics(t, func() { m.Add(id, 7) }, "id %d", id)
			require.Panics(t, func() { m.AddOld(id, 7) }, "id %d", id)
			require.Panics(t, func() { m.Remove(id, 7) }, "id %d", id)
			require.Equal(t, value, m.Find(id))
		}
		require.Panics(t, func() { m.Remove(2, 10) }, "the id is not there")
		require.Panics(t, func() { m.Remove(1<<50, 10) }, "nor is this id")
	}
	check()
	m.Add(1<<41, 40)
	m.Add(1<<41+ringMin*pageLen, 50)
	m.Remove(1<<41, 40)
	check()
}

func TestAllStopsWhenToldTo(t *testing.T) {
	var m Map
	m.AddOld(1, 1)
	m.AddOld(2, 1)
	m.Add(pageLen, 1)
	m.Add(pageLen+1, 1)
	for n := range 4 {
		seen := 0
		for range m.All() {
			if seen++; seen > n {
				break
			}
		}
		require.Equal(t, n+1, seen)
	}
}

// TestAPageIsGivenUpWhileItsIDsComeAndGo removes half of a page's ids and adds the other
// half while the page is given up, many times: no value may be lost, and no removed value may return.
func TestAPageIsGivenUpWhileItsIDsComeAndGo(t *testing.T) {
	for range 300 {
		var m Map
		want := map[uint64]uint64{}
		for id := uint64(0); id < pageLen; id += 2 {
			m.Add(id, id+1)
			want[id+1] = id + 2
		}
		p, begin := m.page(0), make(chan struct{})
		var all sync.WaitGroup
		for _, f := range []func(){
			func() {
				for id := uint64(0); id < pageLen; id += 2 {
					m.Remove(id, id+1)
				}
			},
			func() {
				for id := uint64(1); id < pageLen; id += 2 {
					m.put(p, id, id+1)
				}
			},
			func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.giveUp(m.ring.Load().place(0))
			},
		} {
			all.Go(func() {
				<-begin
				f()
			})
		}
		close(begin)
		all.Wait()
		requireSame(t, &m, want)
	}
}

// TestEveryIDIsFoundFromItsAddToItsRemove lets goroutines share rising ids. Each goroutine keeps some ids for long,
// so that their values move, and adds some late. It passes ids that are present to readers. Gaps in the ids make
// pages sparse all the time.
func TestEveryIDIsFoundFromItsAddToItsRemove(t *testing.T) {
	const writers, readers, rounds = 4, 2, 20_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var m Map
	var there [writers]atomic.Uint64
	var last atomic.Uint64
	var writing, reading sync.WaitGroup
	var done atomic.Bool
	value := func(id uint64) uint64 { return id * 3 }
	for w := range writers {
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		writing.Go(func() {
			var held, late []uint64
			for range rounds {
				if r.IntN(20) == 0 {
					last.Add(r.Uint64N(pageLen * ringMin / 20))
				}
				id := last.Add(1)
				if r.IntN(10) == 0 {
					late, id = append(late, id), 0
				} else if r.IntN(10) == 0 && len(late) > 0 {
					i := r.IntN(len(late))
					id, late[i] = late[i], id
				}
				if id != 0 {
					m.Add(id, value(id))
					held = append(held, id)
					there[w].Store(id)
				}
				for len(held) > 200 || len(held) > 0 && r.IntN(3) == 0 {
					i := r.IntN(len(held))
					id, held[i] = held[i], held[len(held)-1]
					held = held[:len(held)-1]
					if m.Find(id) != value(id) {
						t.Errorf("id %d is not found before it is removed", id)
					}
					there[w].CompareAndSwap(id, 0)
					m.Remove(id, value(id))
					if m.Find(id) != 0 {
						t.Errorf("id %d is found after it is removed", id)
					}
				}
			}
			there[w].Store(0)
			for _, id := range held {
				m.Remove(id, value(id))
			}
		})
	}
	for range readers {
		reading.Go(func() {
			for n := 0; !done.Load(); n++ {
				w := &there[n%writers]
				id := w.Load()
				found := m.Find(id)
				if id != 0 && found != value(id) && w.Load() == id {
					t.Errorf("id %d is not found: %d", id, found)
				}
				runtime.Gosched()
			}
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
	requireSame(t, &m, nil)
}

func BenchmarkAddFindRemove(b *testing.B) {
	for _, lives := range []struct {
		name string
		ids  uint64
	}{{"1,000 ids", 1000}, {"100,000 ids", 100_000}, {"1,000,000 ids", 1_000_000}} {
		b.Run("each lives for "+lives.name, func(b *testing.B) {
			var m Map
			b.ReportAllocs()
			id := uint64(0)
			for b.Loop() {
				m.Add(id, id+1)
				if id >= lives.ids {
					if old := id - lives.ids; m.Find(old) != old+1 {
						b.Fatal(old)
					} else {
						m.Remove(old, old+1)
					}
				}
				id++
			}
		})
	}
}

// TestTheRingEndsAtItsBound checks that with 128 values in each page the ring keeps 4,096 pages, and older
// values move to the table. With 127 values, a page is given up as soon as its place is needed.
func TestTheRingEndsAtItsBound(t *testing.T) {
	for perPage, want := range map[uint64]int{128: 4096, 127: 64} {
		var m Map
		for number := range uint64(4096 + 200) {
			for n := range perPage {
				m.Add(number*1024+n+1, 7)
			}
		}
		require.Len(t, m.ring.Load().pages, want, "%d values a page", perPage)
		for number := range uint64(4096 + 200) {
			require.Equal(t, uint64(7), m.Find(number*1024+perPage))
		}
	}
}
