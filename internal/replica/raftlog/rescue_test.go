package raftlog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

// led lets a single node lead, propose records one by one, and write them to its log. Its journal
// receives only the records up to seq journaled.
func led(t *testing.T, data string, records, journaled int) Stopped {
	t.Helper()
	s := Stopped{Dir: filepath.Join(data, "raft"), Node: 2, Journal: filepath.Join(data, "journal"),
		Options: journal.Options{Version: 1, SegmentBytes: 16 << 10}}
	found := mark(1, 1)
	found.Conf, found.Position = &raftpb.ConfState{Voters: []uint64{2}}, core.Position{}
	l, d := mustOpen(t, s.Dir, Options{Found: found})
	n, err := core.New(core.Options{ID: 2, Durable: d})
	require.NoError(t, err)
	j, err := journal.Open(s.Journal, s.Options)
	require.NoError(t, err)
	leads, proposed := false, 0
	for range restTicks {
		n.Tick()
		o := n.Output()
		require.NoError(t, o.Broken)
		if o.Write != nil {
			require.NoError(t, l.Write([]*core.Write{o.Write}))
			n.Written(o.Write.After)
		}
		for _, c := range o.Commits {
			for i, record := range c.Records {
				if c.First+uint64(i) <= uint64(journaled) {
					_, err := j.Append(record)
					require.NoError(t, err)
				}
			}
		}
		if o.Index > 0 {
			n.Applied(o.Index)
		}
		if leads = leads || o.Leads; leads && n.CanPropose() && proposed < records {
			proposed++
			require.NoError(t, n.Propose(uint64(proposed), [][]byte{{byte(proposed)}}))
		}
	}
	require.Equal(t, records, proposed)
	require.NoError(t, l.Close())
	require.NoError(t, j.Close())
	require.NoError(t, os.WriteFile(filepath.Join(data, ClusterFile), []byte("x"), 0o600))
	return s
}

// journalOf returns the first byte of each record in a node's journal.
func journalOf(t *testing.T, s Stopped) (all []byte) {
	t.Helper()
	require.NoError(t, journal.Scan(s.Journal, 1, func(_ uint64, record []byte) error {
		all = append(all, record[0])
		return nil
	}))
	return all
}

// TestARescuedNodeHasAllThatItsLogHas checks that a rescue keeps records that the journal did not have yet, and those
// that could only have been committed with the lost members.
func TestARescuedNodeHasAllThatItsLogHas(t *testing.T) {
	data := t.TempDir()
	s := led(t, data, 5, 2)
	before, err := Inspect(s.Dir)
	require.NoError(t, err)
	l, d := mustOpen(t, s.Dir, Options{})
	last := before.Last
	require.NoError(t, l.Write([]*core.Write{{Entries: []*raftpb.Entry{
		{Index: new(last + 1), Term: new(before.Term), Type: raftpb.EntryConfChangeV2.Enum(), Data: []byte{0x0a}},
	}, After: awaited}}))
	require.NoError(t, l.Close())

	o, err := s.Rescue("here:7")
	require.NoError(t, err)
	require.Equal(t, Outcome{Aside: s.Dir + ".aside-1", Last: 5, Taken: 3}, o)
	require.Equal(t, []byte{1, 2, 3, 4, 5}, journalOf(t, s))
	require.NoFileExists(t, filepath.Join(data, ClusterFile))
	require.FileExists(t, filepath.Join(o.Aside, ClusterFile))

	old, err := Inspect(o.Aside)
	require.NoError(t, err)
	require.Equal(t, d.Self, old.Self)
	require.Equal(t, last+1, old.Last)
	now, err := Inspect(s.Dir)
	require.NoError(t, err)
	require.NotEqual(t, d.Self, now.Self)
	require.Equal(t, []core.Member{{ID: 2, Address: "here:7"}}, now.Mark.Members)
	require.Equal(t, core.Position{Seq: 5}, now.Mark.Position)
	require.Equal(t, []uint64{2}, now.Mark.Conf.GetVoters())
	require.Zero(t, now.Mark.Cluster)

	// The node elects itself and continues.
	l, d = mustOpen(t, s.Dir, Options{})
	records, err := rest(d, 2, 5)
	require.NoError(t, err)
	require.Empty(t, records)
	require.NoError(t, l.Close())
	again, err := Stopped{Dir: s.Dir, Node: 2, Journal: s.Journal, Options: s.Options}.Rescue("here:7")
	require.NoError(t, err)
	require.True(t, again.Alone, "there is no other node that may have more")
}

// TestARescueOfANodeToBeRestored checks that a node that still has its journal keeps it and
// continues with it, and that a node whose new journal was started is refused and unchanged.
func TestARescueOfANodeToBeRestored(t *testing.T) {
	for name, leave := range map[string]func(Stopped) (Outcome, error){
		"rescue": func(s Stopped) (Outcome, error) { return s.Rescue("here:7") },
		"leave":  Stopped.Leave,
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			s := led(t, data, 5, 2)
			note := filepath.Join(data, RestoreFile)
			require.NoError(t, os.WriteFile(note, []byte(`{"seq":301,"begun":true}`), 0o600))
			_, err := leave(s)
			require.ErrorContains(t, err, "is being restored from another one")
			require.FileExists(t, note)
			require.FileExists(t, filepath.Join(data, ClusterFile))

			require.NoError(t, os.WriteFile(note, []byte("torn"), 0o600))
			_, err = leave(s)
			require.ErrorContains(t, err, note)

			require.NoError(t, os.WriteFile(note, []byte(`{"seq":301,"begun":false}`), 0o600))
			o, err := leave(s)
			require.NoError(t, err)
			require.Equal(t, uint64(5), o.Last)
			require.NoFileExists(t, note, "the next start would discard the journal")
			require.Equal(t, []byte{1, 2, 3, 4, 5}, journalOf(t, s))
		})
	}
}

// TestARescueGoesOnWhereItEnded interrupts a rescue at each of its steps. The next call must
// complete it.
func TestARescueGoesOnWhereItEnded(t *testing.T) {
	for name, ended := range map[string]func(s Stopped){
		"half of a new log": func(s Stopped) { require.NoError(t, os.MkdirAll(s.Dir+".new", 0o750)) },
		"the new log is there": func(s Stopped) {
			l, _, err := Open(s.Dir+".new", Options{Found: mark(1, 1)})
			require.NoError(t, err)
			require.NoError(t, l.Close())
		},
		"the old one is aside": func(s Stopped) {
			_, err := s.Rescue("here:7")
			require.NoError(t, err)
			require.NoError(t, os.Rename(s.Dir, s.Dir+".new"))
			require.NoError(t, os.Rename(filepath.Join(s.Dir+".aside-1", ClusterFile),
				filepath.Join(filepath.Dir(s.Dir), ClusterFile)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			s := led(t, data, 3, 1)
			ended(s)
			o, err := s.Rescue("here:7")
			require.NoError(t, err)
			require.Equal(t, uint64(3), o.Last)
			require.Equal(t, []byte{1, 2, 3}, journalOf(t, s))
			now, err := Inspect(s.Dir)
			require.NoError(t, err)
			require.Equal(t, uint64(3), now.Mark.Seq)
			require.NoFileExists(t, filepath.Join(data, ClusterFile))
			require.DirExists(t, s.Dir+".aside-1")
		})
	}
}

// TestANodeLeaves checks that a node that leaves keeps all its records, and that nothing in its
// directory shows that it was in a cluster.
func TestANodeLeaves(t *testing.T) {
	data := t.TempDir()
	s := led(t, data, 4, 1)
	require.NoError(t, os.WriteFile(filepath.Join(data, ReadersFile), nil, 0o600))
	o, err := s.Leave()
	require.NoError(t, err)
	require.Equal(t, Outcome{Aside: s.Dir + ".aside-1", Last: 4, Taken: 3}, o)
	require.Equal(t, []byte{1, 2, 3, 4}, journalOf(t, s))
	require.NoDirExists(t, s.Dir)
	require.NoFileExists(t, filepath.Join(data, ClusterFile))
	require.NoFileExists(t, filepath.Join(data, ReadersFile))
	_, err = Inspect(s.Dir)
	require.ErrorIs(t, err, ErrNone)
}

// TestARunningNodeIsNotRescued checks that Rescue refuses a running node, and a node whose journal
// lacks records that the log no longer has.
func TestARunningNodeIsNotRescued(t *testing.T) {
	s := led(t, t.TempDir(), 3, 3)
	l, _ := mustOpen(t, s.Dir, Options{})
	_, err := s.Rescue("here:7")
	require.ErrorIs(t, err, journal.ErrInUse)
	require.NoError(t, l.Write([]*core.Write{{Mark: mark(9, 9)}}))
	require.NoError(t, l.Close())
	_, err = s.Leave()
	require.ErrorContains(t, err, "data/journal ends at 3")
	require.DirExists(t, s.Dir)
}

// TestInspectReadsARunningLog reads a log while its segments are deleted.
func TestInspectReadsARunningLog(t *testing.T) {
	dir := t.TempDir()
	l, d := mustOpen(t, dir, small)
	ended := make(chan error, 1)
	go func() {
		var err error
		for index := uint64(2); index < 400 && err == nil; index++ {
			w := &core.Write{Entries: []*raftpb.Entry{entry(index, 1, 500)}, Hard: hard(1, 1, index), After: awaited}
			if index%5 == 0 {
				w.Mark = mark(index-1, 1)
			}
			err = l.Write([]*core.Write{w})
		}
		ended <- err
	}()
	for last := uint64(0); ; {
		s, err := Inspect(dir)
		require.NoError(t, err)
		require.Equal(t, d.Self, s.Self)
		require.GreaterOrEqual(t, s.Last, last)
		require.GreaterOrEqual(t, s.Last, s.Mark.Index)
		last = s.Last
		if last == 399 {
			break
		}
	}
	require.NoError(t, <-ended)
}
