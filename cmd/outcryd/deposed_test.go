package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/operate/remote"
	"outcry/internal/testing/processes"
)

// TestADeposedLeaderShowsOnlyWhatIsCommitted: a leader gets orders while both other nodes are down. Neither its
// Postgres nor its market data have them, also after another leader has given their numbers to other orders.
func TestADeposedLeaderShowsOnlyWhatIsCommitted(t *testing.T) {
	t.Parallel()
	nodes, old := startCluster(t)
	setUp(t, old)
	buy := func(limit int) string {
		return fmt.Sprintf(`<transactions id="1"><order sym="SPY" amount="1" limit="%d"/></transactions>`, limit)
	}
	c := dial(t, old.xml)
	require.Contains(t, c.must(t, buy(11)), "opened")
	oneDigest(t, nodes)
	shows := func(n *node, limits ...int) bool {
		rows := query(t, text(t, n.database), "SELECT limit_price::text FROM orders ORDER BY id")
		_, book := n.get("/api/v1/book/SPY")
		found := strings.Count(book, `,"1"]`) == len(limits) && len(rows) == len(limits)
		for i, limit := range limits {
			found = found && rows[i][0] == fmt.Sprint(limit) && strings.Contains(book, fmt.Sprintf(`["%d","1"]`, limit))
		}
		if !found {
			t.Logf("node %d: %v, %s", n.number, rows, book)
		}
		return found
	}
	require.Eventually(t, func() bool { return shows(old, 11) }, patience, lookEvery)

	for _, n := range others(nodes, old) {
		n.crash()
	}
	for limit := 21; limit < 25; limit++ {
		_, err := c.Write(wire.AppendFrame(nil, []byte(buy(limit))))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { // until the leader notices that it has no others
		rows := query(t, text(t, old.database), "SELECT limit_price::text FROM orders ORDER BY id")
		assert.Equal(t, [][]string{{"11"}}, rows)
		_, book := old.get("/api/v1/book/SPY")
		assert.NotRegexp(t, `\["2[1-4]"`, book)
		return strings.Contains(book, `"error"`)
	}, patience, lookEvery)
	resume := processes.Stop(old.cmd.Process.Pid)
	t.Cleanup(resume)
	for _, n := range others(nodes, old) {
		n.launch(t)
	}
	next := leaderOf(t, others(nodes, old)...)
	next.xml = next.xmlOf()
	d := dial(t, next.xml)
	for limit := 31; limit < 37; limit++ {
		require.Contains(t, d.must(t, buy(limit)), "opened")
	}
	resume()
	old.becomes(t, remote.RoleStandby)
	oneDigest(t, nodes)
	for _, n := range nodes {
		require.Eventually(t, func() bool { return shows(n, 11, 31, 32, 33, 34, 35, 36) }, patience, lookEvery)
		n.stop(t)
	}
}
