package accounts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// requireFits checks the invariants of a view.
func requireFits(t testing.TB, v *View) {
	t.Helper()
	for _, a := range v.list {
		var last uint64
		for c, chunk := range a.orders.chunks {
			require.NotEmpty(t, chunk)
			require.LessOrEqual(t, len(chunk), ordersChunk)
			for i := range chunk {
				require.Greater(t, uint64(chunk[i].id), last, "chunk %d, place %d", c, i)
				last = uint64(chunk[i].id)
				require.Positive(t, int64(chunk[i].open))
			}
		}
		for i := range a.positions {
			p := &a.positions[i]
			require.True(t, p.shares.Sign() != 0 || p.held.Sign() != 0)
			require.True(t, i == 0 || a.positions[i-1].symbol < p.symbol)
		}
		kept, before := 0, slot(0)
		for s := a.fills.oldest; s != 0; s = v.fills.at(s).next {
			require.Equal(t, before, v.fills.at(s).prev)
			require.Equal(t, a.number, v.fills.at(s).account)
			before = s
			kept++
		}
		require.Equal(t, before, a.fills.newest)
		require.Equal(t, kept, a.fills.kept)
		require.LessOrEqual(t, kept, v.fills.accountMost)
		require.LessOrEqual(t, uint64(kept), a.fills.count)
	}
	all, before := 0, slot(0)
	for s := v.fills.oldest; s != 0; s = v.fills.at(s).newer {
		require.Equal(t, before, v.fills.at(s).older)
		before = s
		all++
	}
	require.Equal(t, before, v.fills.newest)
	require.Equal(t, v.fills.used, all)
	require.LessOrEqual(t, all, v.fills.most)
	requireKept(t, v)
	requireOpen(t, v)
	for i := range v.markets {
		if b := v.markets[i].resting; b != nil {
			requireRests(t, v, symbolNumber(i))
		}
	}
}

// requireOpen compares the open orders of each symbol with those of all accounts.
func requireOpen(t testing.TB, v *View) {
	t.Helper()
	counts := make([]int, len(v.markets))
	for _, a := range v.list {
		a.orders.after(0, func(o *order) bool {
			counts[o.symbol]++
			open := &v.markets[o.symbol].open
			require.Less(t, int(o.place), open.len())
			require.Equal(t, openOrder{o.id, a.number}, *open.at(o.place))
			return true
		})
	}
	for i := range v.markets {
		open := &v.markets[i].open
		require.Equal(t, counts[i], open.len())
		for c, chunk := range open.chunks {
			last := c == len(open.chunks)-1
			require.True(t, last && (len(chunk) > 0 || c == 0) || len(chunk) == openChunk)
			require.LessOrEqual(t, cap(chunk), max(openLeast, 4*len(chunk)+4))
		}
	}
}

// requireKept checks the list of kept events.
func requireKept(t testing.TB, v *View) {
	t.Helper()
	events, bytes, unopened := 0, 0, 0
	for id, w := range v.watches {
		a := v.accounts[id]
		if a == nil {
			unopened++
			continue
		}
		require.Same(t, w, a.watch)
		require.Nil(t, w.making)
		require.Empty(t, w.news)
		require.LessOrEqual(t, len(w.events), v.kept.accountMost)
		last := make(map[exchange.OrderID]uint64)
		for i, e := range w.events {
			require.Equal(t, a.n-uint64(len(w.events)-1-i), e.N)
			bytes += e.bytes
			require.Len(t, e.before, len(e.Orders))
			for k := range e.Orders {
				if before := last[e.Orders[k].ID]; before > 0 || e.before[k] >= w.events[0].N {
					require.Equal(t, before, e.before[k])
				}
				last[e.Orders[k].ID] = e.N
			}
		}
		a.orders.after(0, func(o *order) bool {
			if n := last[o.id]; n > 0 {
				require.Equal(t, n, o.event)
			}
			return true
		})
		events += len(w.events)
	}
	require.Equal(t, v.unopened, unopened)
	require.Equal(t, v.kept.bytes, bytes)
	require.LessOrEqual(t, bytes, v.kept.bytesMost)
	var before *event
	for e := v.kept.oldest; e != nil; e = e.newer {
		require.Same(t, before, e.older)
		require.True(t, before == nil || before.Seq <= e.Seq)
		before = e
		events--
	}
	require.Same(t, before, v.kept.newest)
	require.Zero(t, events)
}

// requireRests compares the resting orders of a symbol with those computed from its open orders.
func requireRests(t testing.TB, v *View, n symbolNumber) {
	t.Helper()
	var open []*order
	for _, a := range v.list {
		a.orders.after(0, func(o *order) bool {
			if o.symbol == n {
				open = append(open, o)
			}
			return true
		})
	}
	want, got := newResting(open), v.markets[n].resting
	require.Equal(t, want.bids.snapshot(), got.bids.snapshot())
	require.Equal(t, want.asks.snapshot(), got.asks.snapshot())
}
