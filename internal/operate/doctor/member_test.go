package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/replica/core"
	"outcry/internal/replica/raftlog"
)

// The files of a cluster node are checked; a single server gets no finding.
func TestANodeOfAClusterIsLookedAt(t *testing.T) {
	look := func(data string) (f Finding, found bool) {
		e := &examination{Options: Options{Data: data}}
		e.checkMember()
		if len(e.findings) == 0 {
			return f, false
		}
		require.Len(t, e.findings, 1)
		return e.findings[0], true
	}
	data := t.TempDir()
	_, found := look(data)
	require.False(t, found, "a single server")

	require.NoError(t, os.WriteFile(filepath.Join(data, raftlog.ClusterFile), nil, 0o600))
	f, _ := look(data)
	require.Equal(t, Bad, f.Grade)
	require.Contains(t, f.Value, "is gone")

	l, d, err := raftlog.Open(filepath.Join(data, "raft"), raftlog.Options{SegmentBytes: 4096, Found: &core.Mark{Index: 1,
		Term: 1, Conf: &raftpb.ConfState{Voters: []uint64{1}}, Members: []core.Member{{ID: 1}}}})
	require.NoError(t, err)
	f, _ = look(data)
	require.Equal(t, OK, f.Grade, "while it runs")
	require.Contains(t, f.Value, d.Self.String())
	require.Contains(t, f.Value, "members 1, term 1, entries 2 to 1 with 0 bytes")

	require.NoError(t, l.Write([]*core.Write{{Mark: &core.Mark{Index: 2, Term: 1, Conf: &raftpb.ConfState{},
		Position: core.Position{Seq: 5}}}}))
	j, err := journal.Open(filepath.Join(data, "journal"),
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 4096})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	f, _ = look(data)
	require.Equal(t, Bad, f.Grade)
	require.Contains(t, f.Value, "the journal ends at record 0, and Raft's log begins after record 5")

	require.NoError(t, l.Close())
	segments, err := filepath.Glob(filepath.Join(data, "raft", "*.seg"))
	require.NoError(t, err)
	b, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	b[100] ^= 1
	require.NoError(t, os.WriteFile(segments[0], b, 0o600))
	f, _ = look(data)
	require.Equal(t, Bad, f.Grade)
	require.Contains(t, f.Value, "is damaged at offset 64")

	require.NoError(t, os.WriteFile(filepath.Join(data, "BROKEN"), []byte("record 7 differs\n"), 0o600))
	f, _ = look(data)
	require.Equal(t, Bad, f.Grade)
	require.Contains(t, f.Value, "record 7 differs")
	require.Equal(t, replaceAdvice, f.Advice)
}
