package raftlog

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

func mark(index, term uint64) *core.Mark {
	return &core.Mark{Index: index, Term: term, Conf: &raftpb.ConfState{Voters: []uint64{1, 2, 3}},
		Members:  []core.Member{{ID: 1, Address: "a:1"}, {ID: 2, Address: "b:1"}, {ID: 3, Address: "c:1"}},
		Position: core.Position{Seq: 10 * index, Chain: 7 * index}}
}

func entry(index, term uint64, bytes int) *raftpb.Entry {
	e := &raftpb.Entry{Index: new(index), Term: new(term), Type: new(raftpb.EntryNormal)}
	if bytes > 0 {
		e.Data = make([]byte, bytes)
		for i := range e.Data {
			e.Data[i] = byte(index + term + uint64(i))
		}
	}
	return e
}

func hard(term, vote, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: new(term), Vote: new(vote), Commit: new(commit)}
}

func mustOpen(t *testing.T, dir string, o Options) (*Log, core.Durable) {
	t.Helper()
	l, d, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l, d
}

// small makes segments that a few entries fill.
var small = Options{SegmentBytes: 4096, Found: mark(1, 1)}

func TestALogIsFoundAndFoundAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	_, _, err := Open(dir, Options{})
	require.ErrorIs(t, err, ErrNone)
	require.NoDirExists(t, dir)
	l, d := mustOpen(t, dir, small)
	require.NotZero(t, d.Self)
	requireSame(t, core.Durable{Self: d.Self, Mark: *mark(1, 1)}, d)
	_, _, err = Open(dir, small)
	require.ErrorIs(t, err, journal.ErrInUse)
	require.NoError(t, l.Close())

	other, _ := mustOpen(t, filepath.Join(t.TempDir(), "raft"), small)
	require.NotEqual(t, d.Self, other.writer.state.self, "of another disk")

	_, again := mustOpen(t, dir, Options{Found: mark(9, 9)})
	requireSame(t, d, again)
}

func TestWritesComeBack(t *testing.T) {
	dir := t.TempDir()
	bytes, writes := 0, 0
	o := small
	o.OnWrite = func(n int, took time.Duration) { bytes, writes = bytes+n, writes+1 }
	l, d := mustOpen(t, dir, o)
	require.NoError(t, l.Write([]*core.Write{
		{Heard: []core.Member{{ID: 2, Identity: core.Identity{2}}}, Hard: hard(2, 3, 1)},
		{Entries: []*raftpb.Entry{entry(2, 1, 0), entry(3, 2, 5), entry(4, 2, 20000)}},
		{Entries: []*raftpb.Entry{entry(4, 3, 7), entry(5, 3, 0)}, Hard: hard(3, 0, 3)},
	}))
	require.Equal(t, 2, writes, "the founding one as well")
	require.Greater(t, bytes, 20000)
	require.Zero(t, l.Writing())
	require.NoError(t, l.Room())
	require.NoError(t, l.Close())
	require.Error(t, l.Write([]*core.Write{{Hard: hard(4, 0, 3)}}))

	l, again := mustOpen(t, dir, Options{SegmentBytes: 4096})
	want := core.Durable{Self: d.Self, Mark: *mark(1, 1), Hard: hard(3, 0, 3),
		Entries: []*raftpb.Entry{entry(2, 1, 0), entry(3, 2, 5), entry(4, 3, 7), entry(5, 3, 0)},
		Heard:   map[uint64]core.Identity{2: {2}}}
	requireSame(t, want, again)
	require.NoError(t, l.Write([]*core.Write{{Mark: mark(4, 3)}}))
	require.NoError(t, l.Close())

	want.Mark, want.Entries, want.Hard = *mark(4, 3), want.Entries[3:], hard(3, 0, 4)
	l, again = mustOpen(t, dir, Options{})
	requireSame(t, want, again)
	require.NoError(t, l.Write([]*core.Write{{Mark: mark(50, 6), Entries: []*raftpb.Entry{entry(51, 6, 1)}}}))
	require.NoError(t, l.Close())

	want.Mark, want.Entries, want.Hard = *mark(50, 6), []*raftpb.Entry{entry(51, 6, 1)}, hard(3, 0, 50)
	_, again = mustOpen(t, dir, Options{})
	requireSame(t, want, again)
}

// requireSame compares what a start begins with.
func requireSame(t require.TestingT, want, got core.Durable) {
	require.Equal(t, show(want), show(got))
}
