package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// awaited is an After that makes Write sync at once.
var awaited = []*raftpb.Message{{}}

func mustOpen(t *testing.T, dir string, o Options) (*Log, core.Durable) {
	t.Helper()
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 16 << 10
	}
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
		{Entries: []*raftpb.Entry{entry(4, 3, 7), entry(5, 3, 0)}, Hard: hard(3, 0, 3), After: awaited},
	}))
	require.Equal(t, 2, writes, "the founding Write counts too")
	require.Greater(t, bytes, 20000)
	require.Zero(t, l.Writing())
	require.NoError(t, l.Room())
	require.NoError(t, l.Close())
	require.Error(t, l.Write([]*core.Write{{Hard: hard(4, 0, 3), After: awaited}}))

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

// TestOneSyncForAll checks that the writes of one call make one record, and that writes without After are stored
// together with the next one that has After.
func TestOneSyncForAll(t *testing.T) {
	l, d := mustOpen(t, t.TempDir(), Options{Found: mark(1, 1)})
	require.Equal(t, uint64(1), l.journal.Appended())
	var all []*core.Write
	for i := range uint64(20) {
		all = append(all, &core.Write{Entries: []*raftpb.Entry{entry(2+i, 1, 100)}, Hard: hard(1, 0, 1+i), After: awaited})
	}
	require.NoError(t, l.Write(all))
	require.Equal(t, uint64(2), l.journal.Synced())
	require.NoError(t, l.Write([]*core.Write{{Hard: hard(1, 0, 21)}}))
	require.Equal(t, uint64(2), l.journal.Appended())
	require.NoError(t, l.Write([]*core.Write{{Entries: []*raftpb.Entry{entry(22, 1, 0)}, After: awaited}}))
	require.Equal(t, uint64(3), l.journal.Synced())
	require.NoError(t, l.Close())
	_, again := mustOpen(t, filepath.Dir(segmentsOf(t, l)[0]), Options{})
	require.Len(t, again.Entries, 21)
	require.Equal(t, uint64(21), again.Hard.GetCommit())
	require.Equal(t, d.Self, again.Self)
}

// segmentsOf returns the paths of a log's segments, oldest first.
func segmentsOf(t *testing.T, l *Log) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(l.dir, "*.seg"))
	require.NoError(t, err)
	return all
}

// bytesOf returns the total size of the files in a directory.
func bytesOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		info, infoErr := d.Info()
		if infoErr == nil && !d.IsDir() {
			n += info.Size()
		}
		return err
	}))
	return n
}

// TestTheLogStaysSmall writes many times the size that may be kept: first entries followed by
// marks, then only votes.
func TestTheLogStaysSmall(t *testing.T) {
	const segment, live, slack = 16 << 10, 64 << 10, 10
	t.Run("marks", func(t *testing.T) {
		dir := t.TempDir()
		l, _ := mustOpen(t, dir, Options{SegmentBytes: segment, Found: mark(1, 1)})
		index := uint64(1)
		for range 20 * live / 2048 {
			index++
			w := &core.Write{Entries: []*raftpb.Entry{entry(index, 1, 2048)}, Hard: hard(1, 1, index), After: awaited}
			if behind := uint64(live / 2048); index > behind && index%8 == 0 {
				w.Mark = mark(index-behind, 1)
			}
			require.NoError(t, l.Write([]*core.Write{w}))
			require.Less(t, bytesOf(t, dir), int64(live+slack*segment))
		}
		require.NoError(t, l.Close())
		_, again := mustOpen(t, dir, Options{SegmentBytes: segment})
		require.Equal(t, index, again.Entries[len(again.Entries)-1].GetIndex())
	})
	t.Run("votes", func(t *testing.T) {
		dir := t.TempDir()
		l, _ := mustOpen(t, dir, Options{SegmentBytes: segment, Found: mark(1, 1)})
		var entries []*raftpb.Entry
		for i := range uint64(live / 2048) {
			entries = append(entries, entry(2+i, 1, 2048))
		}
		require.NoError(t, l.Write([]*core.Write{{Entries: entries, After: awaited}}))
		for term := range uint64(1500) {
			var all []*core.Write
			for n := range uint64(100) {
				all = append(all, &core.Write{Hard: hard(100*term+n, 1, 5), After: awaited})
			}
			require.NoError(t, l.Write(all))
			if term%50 == 0 {
				require.Less(t, bytesOf(t, dir), int64(2*live+slack*segment))
			}
		}
		require.NoError(t, l.Close())
		_, again := mustOpen(t, dir, Options{SegmentBytes: segment})
		require.Len(t, again.Entries, len(entries))
		require.Equal(t, uint64(100*1499+99), again.Hard.GetTerm())
	})
}

// TestWhatAPeerWasToldOfIsNotCut kills the process as soon as a Write has returned, and damages any
// byte of that write. A start must refuse it and name the file and the offset.
func TestWhatAPeerWasToldOfIsNotCut(t *testing.T) {
	dir := t.TempDir()
	l, _ := mustOpen(t, dir, Options{SegmentBytes: 16 << 10, Found: mark(1, 1)})
	require.NoError(t, l.Write([]*core.Write{{Hard: hard(7, 2, 1), After: awaited}}))
	path := segmentsOf(t, l)[0]
	killed, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := 64; at < 64+400; at++ {
		if killed[at] == 0 && at > 64+200 {
			continue
		}
		copied := t.TempDir()
		damaged := append([]byte(nil), killed...)
		damaged[at] ^= 0x20
		require.NoError(t, os.WriteFile(filepath.Join(copied, filepath.Base(path)), damaged, 0o600))
		_, d, err := openOnce(copied)
		var damage *journal.DamageError
		if err == nil { // the damaged byte was in the mark of the sync, or changed nothing
			require.Equal(t, uint64(7), d.Hard.GetTerm(), "byte %d", at)
			continue
		}
		require.ErrorAs(t, err, &damage, "byte %d", at)
	}
}

func openOnce(dir string) (string, core.Durable, error) {
	l, d, err := Open(dir, Options{SegmentBytes: 16 << 10})
	if err == nil {
		err = l.Close()
	}
	return dir, d, err
}

// TestWhatDoesNotFollowIsRefused checks that a Write that no node makes fails, and that all later
// ones fail too.
func TestWhatDoesNotFollowIsRefused(t *testing.T) {
	for name, w := range map[string]*core.Write{
		"entry 9 comes after entry 3":                {Entries: []*raftpb.Entry{entry(9, 1, 0)}},
		"entry 2 comes after mark 2":                 {Entries: []*raftpb.Entry{entry(2, 1, 0)}},
		"mark 1 comes after the later mark 2":        {Mark: mark(1, 1)},
		"entry 4 is marked as committed":             {Hard: hard(1, 1, 4)},
		"an entry has the invalid index 4 or term 0": {Entries: []*raftpb.Entry{entry(4, 0, 0)}},
		"a hello has the invalid node number 0":      {Heard: []core.Member{{Identity: core.Identity{1}}}},
		"entry 4 has 134217729 bytes, more than ": {Entries: []*raftpb.Entry{
			{Index: new(uint64(4)), Term: new(uint64(1)), Data: make([]byte, EntryBytesMax+1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, _ := mustOpen(t, dir, small)
			require.NoError(t, l.Write([]*core.Write{{Entries: []*raftpb.Entry{entry(2, 1, 0), entry(3, 1, 0)}},
				{Mark: mark(2, 1)}}))
			w.After = awaited
			require.ErrorContains(t, l.Write([]*core.Write{w}), name)
			require.ErrorContains(t, l.Write([]*core.Write{{Hard: hard(1, 0, 3), After: awaited}}), name)
			require.NoError(t, l.Close())
			_, d := mustOpen(t, dir, Options{})
			require.Equal(t, uint64(2), d.Mark.Index)
			require.Len(t, d.Entries, 1)
		})
	}
}

// TestForeignRecordsAreRefused checks undamaged records that are not those of a log, and records of
// a newer version.
func TestForeignRecordsAreRefused(t *testing.T) {
	writeRecords := func(version uint32, records ...[]byte) string {
		dir := t.TempDir()
		j, err := journal.Open(dir, journal.Options{Version: version, SegmentBytes: 16 << 10})
		require.NoError(t, err)
		for _, record := range records {
			_, err := j.Append(record)
			require.NoError(t, err)
		}
		require.NoError(t, j.Close())
		return dir
	}
	self := appendItem(nil, item{kind: kindSelf, self: core.Identity{1}})
	founding := appendItem(self, item{kind: kindMark, mark: *mark(1, 1), last: 1})
	two := func(it item) string { return writeRecords(Version, founding, appendItem(nil, it)) }
	leaves0 := appendItem(self, item{kind: kindMark, mark: *mark(1, 1)})
	for what, dir := range map[string]string{
		"record 1 of %s: item at byte 0: kind 99 is unknown":      writeRecords(Version, []byte{99, 0, 0, 0, 0}),
		"record 2 of %s: item at byte 0: it is cut":               writeRecords(Version, founding, []byte{1, 9, 0, 0, 0}),
		"record 1 of %s: the start of the log is missing":         writeRecords(Version, self),
		"record 2 of %s: item at byte 0: the identity of this no": two(item{kind: kindSelf, self: core.Identity{2}}),
		"record 2 of %s: item at byte 0: entry 3 comes after":     two(item{kind: kindEntry, entry: entry(3, 1, 0)}),
		"record 2 of %s: item at byte 0: entry 3 of term 1 is re": two(item{kind: kindAgain, entry: entry(3, 1, 0)}),
		"record 1 of %s: item at byte 21: mark 1 leaves entr":     writeRecords(Version, leaves0),
		"record 2 of %s: entry 7 is committed, but the last":      two(item{kind: kindHard, hard: hard(1, 1, 7)}),
		"journal: %s/00000000000000000001.seg has version 2 and":  writeRecords(Version+1, founding),
	} {
		_, _, err := openOnce(dir)
		require.ErrorContains(t, err, fmt.Sprintf(what, dir))
	}
}

// requireSame compares the states of two starts.
func requireSame(t require.TestingT, want, got core.Durable) {
	require.Equal(t, show(want), show(got))
}
