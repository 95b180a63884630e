//go:build slow

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/remote"
)

// dataOf returns a node's data directory.
func (n *node) dataOf() string { return strings.TrimPrefix(n.flags[2], "--data=") }

// TestANodeThatIsTooFarBehindIsRestored: a node restores its own Postgres from a backup of another node and votes
// during the restore. Afterwards it is a normal node and can lead.
func TestANodeThatIsTooFarBehindIsRestored(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	load := &retrying{nodes: nodes}
	load.begin(4)
	load.more(t, 50)
	behind := others(nodes, leader)[0]
	third := others(nodes, leader)[1]
	query(t, behind.database, "CREATE VIEW richest AS SELECT max(balance)::text FROM accounts")
	for _, n := range nodes {
		tokens := filepath.Join(n.dataOf(), "tokens")
		require.NoError(t, os.WriteFile(tokens, fmt.Appendln(nil, "# of node", n.number), 0o600))
	}
	behind.stop(t)
	load.more(t, 200)

	// Write the marker that a replica writes when it needs records that no node keeps any longer.
	term, seq := leader.view().Term, leader.view().Seq
	path := filepath.Join(behind.dataOf(), "RESTORE")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{"seq":%d}`, seq), 0o600))
	behind.launch(t)
	load.more(t, 50)
	behind.becomes(t, remote.RoleStandby)
	require.NoFileExists(t, path)
	require.NoFileExists(t, filepath.Join(behind.dataOf(), restoreFile))
	from := `"msg":"taking a backup of another node","peer":`
	require.Contains(t, behind.log.String(), from)
	if v := leader.view(); v.Role == remote.RoleLeader && v.Term == term { // it led during the whole restore
		require.Contains(t, behind.log.String(), from+fmt.Sprint(third.number), "not of the leader")
	}
	require.Contains(t, behind.log.String(), `"msg":"the database is restored"`)
	require.NotEqual(t, [][]string{{""}}, query(t, behind.database, "SELECT * FROM richest"), "a view of an operator's")
	tokens, err := os.ReadFile(filepath.Join(behind.dataOf(), "tokens"))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintln("# of node", behind.number), string(tokens), "each node has its own")
	_, err = os.Stat(filepath.Join(behind.dataOf(), "journal", fmt.Sprintf("%020d.seg", seq+1)))
	require.NoError(t, err, "a new journal begins after the record")
	load.moved(behind)

	third.kill() // so that the majority needs the restored node
	load.more(t, 50)
	third.launch(t)
	third.becomes(t, remote.RoleStandby)
	load.moved(third)
	behind.stop(t)
	behind.launch(t)
	behind.becomes(t, remote.RoleStandby)
	load.moved(behind)
	load.end(t)
	oneDigest(t, nodes)
	for _, n := range nodes {
		n.stop(t)
	}
}

// TestARestoreThatIsKilledIsDoneAgain kills the node at each of several lines of its log, or at two of them with
// -short.
func TestARestoreThatIsKilledIsDoneAgain(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	load := &retrying{nodes: nodes}
	load.begin(2)
	load.more(t, 50)
	behind := others(nodes, leader)[0]
	kills := []string{`"msg":"the HTTP side is up"`, `"msg":"taking a backup of another node"`,
		`"step":"filling table accounts"`, `"step":"committing"`, `"msg":"the database is restored"`}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	if testing.Short() {
		kills = kills[:2]
	}
	for _, at := range kills {
		behind.stop(t)
		load.more(t, 10)
		marker, err := json.Marshal(map[string]any{"seq": leader.view().Seq})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(behind.dataOf(), "RESTORE"), marker, 0o600))
		behind.program = launch(t, behind.flags...)
		require.Eventually(t, func() bool { return strings.Contains(behind.log.String(), at) }, patience, time.Millisecond,
			"log: %s", behind.log)
		behind.kill()
		behind.launch(t)
		behind.becomes(t, remote.RoleStandby)
		require.NoFileExists(t, filepath.Join(behind.dataOf(), "RESTORE"))
	}
	load.moved(behind)
	load.end(t)
	oneDigest(t, nodes)
}

// TestALocalPostgresIsRestored: a local Postgres is restored in the same way as a Postgres given by URL, even from
// another local Postgres's backup.
func TestALocalPostgresIsRestored(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t)
	for _, n := range nodes[1:] {
		n.flags = append(n.flags[:3:3], n.flags[4:]...) // no --database-url
	}
	for _, n := range nodes {
		n.launch(t)
	}
	leader := leaderOf(t, nodes...)
	leader.xml = leader.xmlOf()
	setUp(t, leader)
	local := nodes[2]
	if leader == local {
		local = nodes[1]
	}
	local.becomes(t, remote.RoleStandby)
	local.stop(t)
	seq := leader.view().Seq
	require.NoError(t, os.WriteFile(filepath.Join(local.dataOf(), "RESTORE"), fmt.Appendf(nil, `{"seq":%d}`, seq), 0o600))
	local.launch(t)
	local.becomes(t, remote.RoleStandby)
	require.NoFileExists(t, filepath.Join(local.dataOf(), "RESTORE"))
	c := dial(t, leader.xml)
	require.Contains(t, c.must(t, `<transactions id="2"><order sym="SPY" amount="5" limit="10"/></transactions>`),
		"opened")
	require.NoError(t, c.Close())
	require.EqualValues(t, seq+1, oneDigest(t, nodes))
	local.stop(t)
	local.launch(t)
	local.becomes(t, remote.RoleStandby)
	require.EqualValues(t, seq+1, oneDigest(t, nodes))
	for _, n := range nodes {
		n.stop(t)
	}
}
