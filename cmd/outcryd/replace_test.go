package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/remote"
)

// TestReplaceChecksBeforeItRemoves: a mistyped request must not cost the cluster a node.
func TestReplaceChecksBeforeItRemoves(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	client := remote.NewClient(leader.http, 10*time.Second, nil)
	for _, m := range leader.view().Members {
		what, text := remote.ClusterChange{Node: m.Node, Address: "nonsense"}, "must be HOST:PORT"
		if m.Node == leader.view().Node {
			what.Address, text = "", "so it has not lost its disk"
		}
		_, err := client.Change(t.Context(), remote.ChangeReplace, what)
		require.ErrorContains(t, err, text)
	}
	standby := others(nodes, leader)[0]
	gone := remote.ClusterChange{Node: uint64(standby.number)}
	_, err := client.Change(t.Context(), remote.ChangeReplace, gone)
	require.ErrorContains(t, err, fmt.Sprintf("node %d votes and answers", standby.number))
	require.Len(t, leader.view().Members, 3)
	require.False(t, leader.view().Members[standby.number-1].Outside)

	_, err = client.Change(t.Context(), remote.ChangeRemove, gone)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return leader.view().Members[standby.number-1].Outside }, patience, 5e6,
		"it is named by --peers alone")

	// The removed node's data no longer advances, so its health check fails and no client is sent to it.
	require.Eventually(t, func() bool {
		status, body := standby.get("/healthz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "removed from the cluster")
	}, patience/6, lookEvery, "%s", standby.log)
}
