package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate"
)

// TestReplaceChecksBeforeItRemoves: a slip of the pen must not cost the cluster a node.
func TestReplaceChecksBeforeItRemoves(t *testing.T) {
	_, leader := startCluster(t)
	client := operate.NewClient(leader.http, 10*time.Second, nil)
	for _, m := range leader.view().Members {
		what, text := operate.ClusterChange{Node: m.Node, Address: "nonsense"}, "must be HOST:PORT"
		if m.Node == leader.view().Node {
			what.Address, text = "", "so it has not lost its disk"
		}
		_, err := client.Change(t.Context(), operate.ChangeReplace, what)
		require.ErrorContains(t, err, text)
	}
	require.Len(t, leader.view().Members, 3)
}
