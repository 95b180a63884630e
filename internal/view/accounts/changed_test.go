package accounts

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestWhatChangedAnOrderIsFound compares changed with a search of all kept events, for each order and up to each
// record. The events change orders often, once or never, and some of the oldest events are dropped.
func TestWhatChangedAnOrderIsFound(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const orders = 12
	for many := range 60 {
		w, newest, seq := new(watch), map[exchange.OrderID]uint64{}, uint64(r.IntN(5))
		for n := range many {
			seq += 1 + uint64(r.IntN(3))
			e := newEvent(w)
			e.N, e.Seq = uint64(n+1), seq
			for id := exchange.OrderID(1); id < orders; id++ {
				if r.IntN(4) == 0 {
					e.Orders = append(e.Orders, exchange.OrderChange{OrderDetail: exchange.OrderDetail{ID: id}})
					e.before, newest[id] = append(e.before, newest[id]), e.N
				}
			}
			w.events = append(w.events, e)
		}
		w.events = w.events[r.IntN(len(w.events)+1):]
		for upTo := range seq + 2 {
			for id := range exchange.OrderID(orders + 1) {
				var want []*exchange.AccountEvent
				for _, e := range slices.Backward(w.events) {
					if e.Seq <= upTo && slices.ContainsFunc(e.Orders,
						func(o exchange.OrderChange) bool { return o.ID == id }) {
						want = append(want, e.AccountEvent)
					}
				}
				require.Equal(t, want, w.changed(id, upTo), "order %d up to record %d of %d events", id, upTo, many)
			}
		}
	}
}
