package replica

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/replica/peers"
)

// overTCP gives a node real connections.
func overTCP(listeners map[uint64]net.Listener) func(*Options) {
	return func(o *Options) {
		o.Peers = map[uint64]string{}
		for id, l := range listeners {
			o.Peers[id] = l.Addr().String()
		}
		o.Listener, o.openNet = listeners[o.Node], nil
	}
}

// listen returns a listener for each of n nodes.
func listen(t *testing.T, n uint64) map[uint64]net.Listener {
	all := map[uint64]net.Listener{}
	for id := uint64(1); id <= n; id++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		all[id] = l
	}
	return all
}

// TestOverConnections founds a cluster over real connections, stops its leader and starts it again.
// Hellos, entries and fetches use these connections.
func TestOverConnections(t *testing.T) {
	listeners := listen(t, 3)
	c := newCluster(t, 3, small, overTCP(listeners))
	leader := c.leader(1, 2, 3)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				if _, err := leader.put(fmt.Sprintf("record %d of %d", i, g)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	seq := leader.Appended()
	require.NoError(t, leader.WaitConfirmed(t.Context(), seq, leader.Round()))
	for _, p := range leader.Status().Peers {
		require.Equal(t, p.ID != leader.id, p.Heard, "node %d", p.ID)
	}
	leader.stop()
	next := c.leader(c.others(leader.id)...)
	next.fill(50)
	again, err := net.Listen("tcp", listeners[leader.id].Addr().String())
	require.NoError(t, err)
	listeners[leader.id] = again
	leader.start()
	c.alike()
	require.Eventually(t, func() bool {
		return leader.Status().Leader == next.id && leader.Status().Peers[next.id-1].Heard
	}, patience, tick)
}

// TestAPeerWithSmallerSegmentsIsRefused checks that a node is refused if its journal might have no
// room for a record.
func TestAPeerWithSmallerSegmentsIsRefused(t *testing.T) {
	c := newCluster(t, 3)
	h := c.nodes[1].hello()
	h.SegmentBytes--
	require.True(t, errors.Is(c.nodes[2].onHello(h), peers.ErrSegment))
}
