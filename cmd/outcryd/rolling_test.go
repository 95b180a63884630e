//go:build slow

package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/harness"
	"outcry/internal/operate/remote"
)

// before is the last commit whose program reads journal records only up to version 3.
const before = "883058bb1f438857f6a31b23746f22301ec61c1f"

const (
	instructed   = `<transactions id="2"><order sym="SPY" amount="5" limit="9" tif="IOC"/></transactions>`
	notReadByAll = "node %d reads records only up to version 3, but version 4 is needed: upgrade it"
)

// TestARollingUpgradeRaisesTheVersionOfRecords upgrades three nodes of the previous version one after the other
// while clients place plain orders. Orders with instructions are accepted once the last node can read them. From
// then on a program of the previous version refuses to start.
func TestARollingUpgradeRaisesTheVersionOfRecords(t *testing.T) {
	_, err := os.Stat("../../.git")
	require.NoError(t, err, "the older program is built of git's history")
	t.Parallel()
	older, err := harness.BuildCommit(t.Context(), "../..", before, "./cmd/outcryd", t.TempDir())
	require.NoError(t, err)
	nodes := newCluster(t)
	for _, n := range nodes {
		n.path = older
		n.launch(t)
	}
	leader := leaderOf(t, nodes...)
	for _, n := range others(nodes, leader) {
		n.becomes(t, remote.RoleStandby)
	}
	for _, n := range nodes {
		n.xml = n.xmlOf()
	}
	setUp(t, leader)
	load := &retrying{nodes: nodes}
	load.begin(2)
	order := append(others(nodes, leader), leader)
	for i, n := range order {
		load.more(t, 20)
		n.stop(t)
		n.path = ""
		next := leaderOf(t, others(nodes, n)...)
		if i == len(order)-1 { // an upgraded node leads now, and knows that the last one cannot read version 4
			require.Contains(t, dial(t, next.xmlOf()).must(t, instructed), fmt.Sprintf(notReadByAll, n.number))
		}
		n.launch(t)
		n.becomes(t, remote.RoleStandby)
		n.xml = n.xmlOf()
		load.know()
		load.more(t, 20)
	}
	load.end(t)
	leader = leaderOf(t, nodes...)
	require.Contains(t, dial(t, leader.xmlOf()).must(t, instructed), "opened")
	oneDigest(t, nodes)

	back := others(nodes, leader)[0]
	back.stop(t)
	back.program = prepare(t, back.flags...)
	back.cmd.Path = older
	require.NoError(t, back.cmd.Start())
	require.Contains(t, back.fails(t), "has version 4 and this program reads up to version 3")
}
