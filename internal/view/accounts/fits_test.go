package accounts

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// requireFits checks the invariants of a view.
func requireFits(t testing.TB, v *View) {
	t.Helper()
	all, blocks := 0, 0
	for _, a := range v.list {
		var last uint64
		for c, chunk := range a.orders.chunks {
			require.NotEmpty(t, chunk)
			require.LessOrEqual(t, len(chunk), ordersChunk)
			for i, p := range chunk {
				o := v.open.at(p)
				require.Greater(t, uint64(o.id), last, "chunk %d, place %d", c, i)
				last = uint64(o.id)
				require.Positive(t, int64(o.open))
				require.Equal(t, a.number, o.account)
			}
		}
		for i := range a.positions {
			p := &a.positions[i]
			require.True(t, p.shares.Sign() != 0 || p.held.Sign() != 0)
			require.True(t, i == 0 || a.positions[i-1].symbol < p.symbol)
		}
		kept, before := a.fills.kept, place(0)
		for p := a.fills.oldest; p != 0; p = v.fills.blocks.at(p).newer {
			require.Equal(t, before, v.fills.blocks.at(p).older)
			before = p
			blocks++
		}
		require.Equal(t, before, a.fills.newest)
		all += kept
		require.LessOrEqual(t, kept, v.fills.accountMost)
		require.LessOrEqual(t, uint64(kept), a.fills.count)
	}
	require.Equal(t, v.fills.used, all)
	require.Equal(t, v.fills.blocks.used, blocks)
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
	all, more := make([][]*order, len(v.markets)), 0
	for _, a := range v.list {
		a.orders.after(0, func(o *order) bool {
			all[o.symbol] = append(all[o.symbol], o)
			if o.more != 0 {
				more++
			}
			return true
		})
	}
	used := 0
	for i := range v.markets {
		slices.SortFunc(all[i], func(a, b *order) int { return cmp.Compare(a.id, b.id) })
		var queued []*order
		v.markets[i].open.each(&v.open, func(o *order) bool {
			queued = append(queued, o)
			return true
		})
		require.Len(t, queued, len(all[i]))
		var before place
		for n, o := range queued {
			require.Same(t, all[i][n], o)
			require.Equal(t, before, o.older)
			if before = v.markets[i].open.oldest; n > 0 {
				before = queued[n-1].newer
			}
		}
		require.Equal(t, before, v.markets[i].open.newest)
		used += len(queued)
	}
	require.Equal(t, v.open.used, used)
	require.Equal(t, v.open.more.used, more)
	requireSlab(t, &v.open.slab)
	requireSlab(t, &v.open.more)
	requireSlab(t, &v.fills.blocks)
}

// requireSlab checks the invariants of a slab.
func requireSlab[T any](t testing.TB, s *slab[T]) {
	t.Helper()
	used := 0
	for n, taken := range s.taken {
		in := 0
		for _, word := range taken {
			in += bits.OnesCount64(word)
		}
		require.Equal(t, in < slabPage, s.room[n/64]>>(n%64)&1 == 1, "page %d", n)
		require.True(t, in == slabPage || n/64 >= s.low)
		used += in
	}
	require.Equal(t, s.used, used)
	require.Len(t, s.pages, len(s.taken))
	for n := len(s.pages); n < 64*len(s.room); n++ {
		require.Zero(t, s.room[n/64]>>(n%64)&1)
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
				require.Equal(t, n, v.open.moreOf(o).event)
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
	want, got := newResting(&v.markets[n].open), v.markets[n].resting
	want.gather(&v.open, math.MaxInt)
	require.Equal(t, want.bids.snapshot(), got.bids.snapshot())
	require.Equal(t, want.asks.snapshot(), got.asks.snapshot())
}

// snapshot returns the orders sorted by priority.
func (l *ladder) snapshot() []RestingOrder {
	all := []RestingOrder{}
	for _, s := range slices.Backward(l.steps) {
		all = append(all, s.orders...)
	}
	return all
}

// each calls f for the orders, oldest first, until f returns false.
func (q *queue) each(all *openOrders, f func(*order) bool) {
	for p := q.oldest; p != 0; {
		o := all.at(p)
		if p = o.newer; !f(o) {
			return
		}
	}
}

// snapshot returns the state of an account, made in one piece.
func (v *View) snapshot(a *account) *Snapshot {
	snap := &Snapshot{N: a.n, LastFill: a.fills.count, Seq: v.Seq(), Balance: a.balance, Held: a.held,
		Positions: v.showPositions(a), Orders: make([]exchange.OrderDetail, 0, a.orders.len())}
	sortPositions(snap.Positions)
	a.orders.after(0, func(o *order) bool {
		snap.Orders = append(snap.Orders, v.detail(o))
		return true
	})
	return snap
}
