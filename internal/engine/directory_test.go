package engine

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestDirectoryEqualsAMap adds and removes orders at random, with ids in steps that
// all fall into few shards, and compares with a map.
func TestDirectoryEqualsAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var d directory
	desks := make([]*desk, 5)
	for i := range desks {
		desks[i] = new(desk)
		d.enroll(desks[i])
	}
	want := map[exchange.OrderID]*desk{}
	for range 30_000 {
		id := 1 + exchange.OrderID(r.IntN(500))*directoryShards<<r.IntN(3)
		if r.IntN(3) == 0 {
			id = 1 + exchange.OrderID(r.IntN(2000))
		}
		if want[id] == nil {
			want[id] = desks[r.IntN(len(desks))]
			d.add(id, want[id])
		} else if r.IntN(2) == 0 {
			d.remove(id)
			delete(want, id)
		}
		require.Same(t, want[id], d.find(id), "order %d", id)
	}
	entered := 0
	for i := range d.shards {
		entered += d.shards[i].count
	}
	require.Len(t, want, entered)
	for id, owner := range want {
		require.Same(t, owner, d.find(id))
		d.remove(id)
		require.Nil(t, d.find(id))
	}
}

// TestDirectoryIsReadWhileDesksEnroll has the race detector as its judge.
func TestDirectoryIsReadWhileDesksEnroll(t *testing.T) {
	var d directory
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 500 {
				owner, id := new(desk), exchange.OrderID(1+n+4*i)
				d.enroll(owner)
				d.add(id, owner)
				if d.find(id) != owner {
					t.Errorf("order %d is not at its desk", id)
				}
				d.find(id + 1)
			}
		})
	}
	all.Wait()
}
