package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/remote"
	"outcry/internal/testing/pgtest"
)

// TestWhoIsAwaitedIsNamed: a node that founds a cluster, and a leader that waits for a new node, name the missing
// nodes.
func TestWhoIsAwaitedIsNamed(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t)
	first, second := nodes[0], nodes[1]
	first.launch(t)
	says := func(texts ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			status, body := first.get("/readyz")
			for _, text := range texts {
				if status != http.StatusServiceUnavailable || !strings.Contains(body, text) {
					return false
				}
			}
			return true
		}, patience, lookEvery, "%v", texts)
	}
	says("no leader is known; the cluster is founded once all of --peers are reached; not reached yet: node 2 (",
		", node 3 (", "connection refused)")
	require.Eventually(t, func() bool {
		return strings.Contains(first.log.String(), `"not_reached":"node 2 (`)
	}, patience, lookEvery, "log: %s", first.log)

	peers := strings.TrimPrefix(first.flags[1], "--peers=")
	two := peers[:strings.LastIndex(peers, ",")]
	second.launch(t, "--peers="+two, "--data="+t.TempDir(), "--database-url="+pgtest.NewDatabase(t))
	says("node 2 refuses this node: ",
		"node 1 founds a cluster of the nodes 1,2,3, but this node of 1,2: give all nodes the same --peers")
	second.kill()
	second.launch(t)
	nodes[2].launch(t)
	leader := leaderOf(t, nodes...)
	for _, n := range others(nodes, leader) {
		n.becomes(t, remote.RoleStandby)
		_, body := n.get("/readyz")
		require.NotContains(t, body, "--peers")
	}

	client := remote.NewClient(leader.http, 10*time.Second, nil)
	_, err := client.Change(t.Context(), remote.ChangeAdd,
		remote.ClusterChange{Node: 4, Address: peerAddresses(t, 1)[0]})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err = client.Change(t.Context(), remote.ChangePromote, remote.ClusterChange{Node: 4})
		return err != nil && strings.Contains(err.Error(), "connection refused")
	}, patience, lookEvery, "%v", &err)
	require.ErrorContains(t, err, "; it cannot be reached: peers: node 4: dial tcp ")
}
