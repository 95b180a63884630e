package accounts

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestASlabKeepsWhatIsAdded adds and removes values at random, with long phases of more or of fewer, and compares the
// slab with a map. Pages are given up, and a place is never used by two values at a time.
func TestASlabKeepsWhatIsAdded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var s slab[uint64]
	want, places := make(map[place]uint64), []place(nil)
	most := 0
	for n := range uint64(400_000) {
		if grows := n/100_000%2 == 0; len(places) == 0 || r.IntN(10) < 4 == !grows {
			p, at := s.add()
			require.Zero(t, want[p], "place %d is in use", p)
			*at, want[p] = n+1, n+1
			places = append(places, p)
		} else {
			i := r.IntN(len(places))
			s.remove(places[i])
			delete(want, places[i])
			places[i] = places[len(places)-1]
			places = places[:len(places)-1]
		}
		most = max(most, len(s.pages))
		if n%10_000 == 0 {
			requireSlab(t, &s)
			for p, n := range want {
				require.Equal(t, n, *s.at(p))
			}
		}
	}
	require.Greater(t, most, 64, "more pages than fit into a word")
	for _, p := range places {
		s.remove(p)
	}
	requireSlab(t, &s)
	require.LessOrEqual(t, len(s.pages), 1)
	require.Zero(t, s.sparse())
}

// aged is the reference model of fills: the fills of all accounts, oldest first, in a list.
type aged struct {
	most, accountMost int
	all               []int // account of each fill
}

func (w *aged) add(account int) {
	n, oldest := 0, 0
	for i, a := range slices.Backward(w.all) {
		if a == account {
			n, oldest = n+1, i
		}
	}
	switch {
	case n == w.accountMost:
		w.all = slices.Delete(w.all, oldest, oldest+1)
	case len(w.all) == w.most:
		w.all = w.all[1:]
	}
	w.all = append(w.all, account)
}

// TestFillsAreDisplacedAsInAList: accounts that trade rarely, often or very much displace the same fills as in a
// single list of all fills, no matter what has displaced earlier ones.
func TestFillsAreDisplacedAsInAList(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	passes := uint32(0)
	for _, most := range []int{20, 300, 5000} {
		l, w := fills{most: most, accountMost: 1 + r.IntN(most/2)}, aged{most: most}
		w.accountMost = l.accountMost
		var accounts []*account
		for n := range 1 + r.IntN(20) {
			accounts = append(accounts, &account{number: uint32(n)})
		}
		some := len(accounts)
		for n := range 12_000 {
			if n%1000 == 0 {
				some = 1 + r.IntN(len(accounts))
			}
			a := min(r.IntN(some), r.IntN(some), r.IntN(some))
			w.add(a)
			l.add(accounts[a], accounts).order = exchange.OrderID(n)
			if n%100 != 0 {
				continue
			}
			counts := make([]int, len(accounts))
			for _, a := range w.all {
				counts[a]++
			}
			for i, a := range accounts {
				require.Equal(t, counts[i], a.fills.kept, "account %d after %d fills", i, n)
			}
			require.Equal(t, len(w.all), l.used)
			require.LessOrEqual(t, len(l.ages.ring), max(2*agesMin, 8*most))
		}
		passes += l.ages.passes
	}
	require.NotZero(t, passes)
}

// bytesOfOrders returns the memory that the open orders of a view use, with all lists.
func bytesOfOrders(v *View) (bytes int) {
	bytes = len(v.open.pages)*(slabPage*int(unsafe.Sizeof(order{}))) + cap(v.open.pages)*8 +
		cap(v.open.taken)*slabPage/8 + cap(v.open.room)*8 + cap(v.open.more.pages)*slabPage*8
	for _, a := range v.list {
		bytes += cap(a.orders.chunks) * int(unsafe.Sizeof([]place{}))
		for _, chunk := range a.orders.chunks {
			bytes += cap(chunk) * int(unsafe.Sizeof(place(0)))
		}
	}
	return bytes
}

// TestAnOpenOrderUsesLittleMemory: an order uses at most 64 bytes, with all lists that it is in, whether its account
// has a hundred orders or thousands.
func TestAnOpenOrderUsesLittleMemory(t *testing.T) {
	require.EqualValues(t, 56, unsafe.Sizeof(order{}))
	for _, accounts := range []int{10, 64, 1000} {
		t.Run(fmt.Sprint(accounts, " accounts"), func(t *testing.T) {
			const orders = 120_000
			m := new(memory)
			crowd(m, accounts, 10)
			for id := 1; id <= orders; id++ {
				m.add(placed(id, 1+id*7919%accounts, id%10, exchange.Buy, 5))
			}
			v := newView(m, nil)
			take(t, v)
			require.Equal(t, orders, v.open.used)
			each := float64(bytesOfOrders(v)) / orders
			t.Logf("%.1f bytes", each)
			require.LessOrEqual(t, each, 64.0)
			// Canceling all but every hundredth order frees the memory.
			for id := 1; id <= orders; id++ {
				if id%100 != 0 {
					e := placed(id, 1+id*7919%accounts, id%10, exchange.Buy, 5)
					e.Kind = exchange.OrderCanceled
					m.add(e)
				}
			}
			take(t, v)
			requireFits(t, v)
			require.LessOrEqual(t, len(v.open.pages)*slabPage, 3*max(slabPage, v.open.used))
			ids := slices.Collect(func(yield func(exchange.OrderID) bool) {
				for _, a := range v.list {
					a.orders.after(0, func(o *order) bool { return yield(o.id) })
				}
			})
			slices.SortFunc(ids, cmp.Compare[exchange.OrderID])
			for i, id := range ids {
				require.Equal(t, exchange.OrderID(100*(i+1)), id)
			}
		})
	}
}
