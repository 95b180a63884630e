package accounts

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// gapless is a Listener that fails the test if the numbers of events have a gap.
type gapless struct {
	t    *testing.T
	last uint64
}

func (g *gapless) Event(e *exchange.AccountEvent) {
	if e.N != g.last+1 {
		g.t.Errorf("event %d comes after %d", e.N, g.last)
	}
	g.last = e.N
}
func (g *gapless) Flush()    {}
func (g *gapless) End(error) {}

// begin sets the number of the last event from a snapshot, or passes the missed events to Event.
func (g *gapless) begin(snap *Snapshot, missed []*exchange.AccountEvent) {
	if snap != nil {
		g.last = snap.N
	}
	for _, e := range missed {
		g.Event(e)
	}
}

// TestListenersComeAndGoWhileRecordsCome: each listener, and each caller of Did, sees all events without a gap.
func TestListenersComeAndGoWhileRecordsCome(t *testing.T) {
	const orders, doors = 6000, 6
	m := new(memory)
	crowd(m, 2, 1)
	first := uint64(len(m.records))
	m.add(placed(1, 1, 0, exchange.Sell, 2*orders))
	for id := 2; id <= orders; id++ {
		m.add(taken(id, 2, 0, 1, 1))
	}
	last := uint64(len(m.records))
	f := running(t, m)
	f.limit.Store(first)
	require.NoError(t, f.Await(background, first))
	defer f.Watch("2")()
	var all sync.WaitGroup
	for door := range doors {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(door), 1))
			g := &gapless{t: t}
			for hasAfter := false; f.Seq() < last; hasAfter = true {
				leave, err := f.Subscribe("2", g.last, hasAfter && r.IntN(4) > 0, g, g.begin)
				if err != nil {
					t.Error(err)
					return
				}
				seq := min(last, max(f.Seq()+uint64(r.IntN(50)), first+2))
				did, err := f.Did(background, "2", exchange.OrderID(seq-first), seq)
				if err != nil || len(did) != 1 || did[0].Seq != seq {
					t.Errorf("order %d did %d events, error %v", seq-first, len(did), err)
				}
				gone, err := f.ListenOrders("SYM0", silent{}, func(*OrdersSnapshot) {})
				if err != nil {
					t.Error(err)
					return
				}
				leave()
				gone()
			}
		})
	}
	for seq := first; seq < last; {
		seq = min(last, seq+20)
		f.limit.Store(seq)
		require.NoError(t, f.Await(background, seq))
	}
	all.Wait()
	f.stop()
	requireFits(t, f.View)
}

// silent is an OrdersListener that ignores everything.
type silent struct{}

func (silent) Orders(*OrdersChange) {}
func (silent) Flush()               {}
func (silent) End(error)            {}
