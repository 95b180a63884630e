package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestANodeWhoseDigestIsNotTheMajoritysIsWrong: a node is wrong only if a majority agrees on another digest for the
// same record. Two nodes that differ, or digests of different records, prove nothing.
func TestANodeWhoseDigestIsNotTheMajoritysIsWrong(t *testing.T) {
	a, b := []seqDigest{{5, "a5"}, {7, "a7"}}, []seqDigest{{6, "b6"}, {7, "b7"}}
	for _, test := range []struct {
		name    string
		own     []seqDigest
		others  [][]seqDigest
		differs bool
		wrong   bool
	}{
		{"alike", a, [][]seqDigest{a, a}, false, false},
		{"nobody answers", a, nil, false, false},
		{"nothing in common", a[:1], [][]seqDigest{b, b}, false, false},
		{"one of two", a, [][]seqDigest{b}, true, false},
		{"each another", a, [][]seqDigest{b, {{7, "c7"}}}, true, false},
		{"the other one is wrong", a, [][]seqDigest{a, b}, true, false},
		{"this one is wrong", a, [][]seqDigest{b, b}, true, true},
	} {
		differs, wrong := judgeDigests(test.own, test.others, 3)
		require.Equal(t, test.differs, differs, test.name)
		if !test.wrong {
			require.NoError(t, wrong, test.name)
			continue
		}
		require.EqualError(t, wrong, "its state after record 7 has the digest a7, and that of 2 of 3 nodes is b7")
	}
	_, wrong := judgeDigests(a, [][]seqDigest{b, b}, 5)
	require.NoError(t, wrong, "two of five are no majority")

	var d digests
	for seq := range uint64(3 * digestsKept) {
		d.keep(fmt.Sprint(seq), seq)
	}
	require.Len(t, d.known(), digestsKept)
	require.Equal(t, seqDigest{3*digestsKept - 1, fmt.Sprint(3*digestsKept - 1)}, d.known()[digestsKept-1])
}

// TestANodeWithAnotherStateStaysDown changes a balance in a node's database, so that the node starts from a state
// that is consistent but differs from that of the other nodes.
func TestANodeWithAnotherStateStaysDown(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	oneDigest(t, nodes)
	changed := others(nodes, leader)[0]
	changed.stop(t)
	db := allTables(t, changed.database)
	_, err := db.Exec(background, "UPDATE accounts SET balance = balance + 100, opened = opened + 100 WHERE id = '1'")
	require.NoError(t, err)
	require.NoError(t, db.Close(background))
	changed.launch(t)
	log := changed.fails(t)
	require.Contains(t, log, "the history of this node differs from its cluster's: "+
		"its state after record 5 has the digest")

	require.Contains(t, launch(t, changed.flags...).fails(t), "this node stays down and the others continue without it")
	require.Contains(t, dial(t, leader.xml).must(t, buyFive), "opened")
}
