package raftlog

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"

	"outcry/internal/replica/core"
)

// twin is the naive log: a list of all Writes, each split into the smallest possible ones.
type twin struct {
	self   core.Identity
	writes []core.Write
}

// add splits a Write and appends the parts.
func (w *twin) add(one *core.Write) {
	for _, m := range one.Heard {
		w.writes = append(w.writes, core.Write{Heard: []core.Member{m}})
	}
	if one.Mark != nil {
		w.writes = append(w.writes, core.Write{Mark: one.Mark})
	}
	for _, e := range one.Entries {
		w.writes = append(w.writes, core.Write{Entries: []*raftpb.Entry{e}})
	}
	if one.Hard != nil {
		w.writes = append(w.writes, core.Write{Hard: one.Hard})
	}
}

// after returns the state after the first n parts.
func (w *twin) after(n int) core.Durable {
	d := core.Durable{Self: w.self, Heard: map[uint64]core.Identity{}}
	for _, one := range w.writes[:n] {
		for _, m := range one.Heard {
			if d.Heard[m.ID] = m.Identity; m.Identity == (core.Identity{}) {
				delete(d.Heard, m.ID)
			}
		}
		if m := one.Mark; m != nil {
			behind := slices.IndexFunc(d.Entries, func(e *raftpb.Entry) bool {
				return e.GetIndex() == m.Index && e.GetTerm() == m.Term
			}) + 1
			same := m.Index == d.Mark.Index && m.Term == d.Mark.Term
			if behind == 0 && !same {
				behind = len(d.Entries)
			}
			d.Mark, d.Entries = *m, d.Entries[behind:]
		}
		for _, e := range one.Entries {
			at := int(e.GetIndex() - d.Mark.Index - 1)
			d.Entries = append(slices.Clone(d.Entries[:at]), e)
		}
		if one.Hard != nil {
			d.Hard = one.Hard
		}
		if d.Hard != nil && d.Hard.GetCommit() < d.Mark.Index {
			d.Hard = hard(d.Hard.GetTerm(), d.Hard.GetVote(), d.Mark.Index)
		}
	}
	return d
}

// draw returns a random Write that a node might make next.
func (w *twin) draw(t *rapid.T) *core.Write {
	d := w.after(len(w.writes))
	last := d.Mark.Index + uint64(len(d.Entries))
	term, commit := d.Mark.Term, d.Mark.Index
	if d.Hard != nil {
		term, commit = max(term, d.Hard.GetTerm()), d.Hard.GetCommit()
	}
	one := &core.Write{}
	if id := rapid.Uint64Range(1, 10).Draw(t, "heard"); id <= 3 {
		one.Heard = []core.Member{{ID: id, Identity: core.Identity{rapid.ByteRange(0, 2).Draw(t, "identity")}}}
	}
	switch rapid.IntRange(0, 5).Draw(t, "mark") {
	case 0: // compaction
		index := rapid.Uint64Range(d.Mark.Index, commit).Draw(t, "compacted")
		of := d.Mark.Term
		if index > d.Mark.Index {
			of = d.Entries[index-d.Mark.Index-1].GetTerm()
		}
		one.Mark = mark(index, of)
	case 1: // a snapshot that replaces the entries that are not committed
		term++
		index := rapid.Uint64Range(commit+1, last+3).Draw(t, "snapshot")
		one.Mark, last, commit = mark(index, term), index, index
	}
	if n := rapid.IntRange(-2, 4).Draw(t, "entries"); n > 0 {
		from := rapid.Uint64Range(commit+1, last+1).Draw(t, "from")
		if from <= last {
			term++
		}
		for i := range uint64(n) {
			one.Entries = append(one.Entries, entry(from+i, term, rapid.IntRange(0, 300).Draw(t, "bytes")))
		}
		last = from + uint64(n) - 1
	}
	if rapid.Bool().Draw(t, "hard") {
		one.Hard = hard(term+rapid.Uint64Range(0, 1).Draw(t, "election"), rapid.Uint64Range(0, 3).Draw(t, "vote"),
			rapid.Uint64Range(commit, last).Draw(t, "commit"))
	}
	return one
}

// disk holds the records of a journal, the first of which may be deleted.
type disk struct {
	records [][]byte
	deleted int
}

func (d *disk) writer(recordBytes int) writer {
	return writer{state: newState(), recordBytes: recordBytes, next: uint64(len(d.records)) + 1,
		out: func(record []byte) error {
			d.records = append(d.records, slices.Clone(record))
			return nil
		}}
}

// recovered returns a writer that has read the records in a range.
func (d *disk) recovered(t require.TestingT, from, to, recordBytes int) writer {
	w := d.writer(recordBytes)
	for i, record := range d.records[from:to] {
		require.NoErrorf(t, w.state.applyRecord(record, place{uint64(from + i + 1), w.at}),
			"record %d of those from %d to %d", from+i, from, to)
		w.at += int64(len(record))
	}
	require.NoErrorf(t, w.state.check(), "the records from %d to %d", from, to)
	return w
}

// machine is a node's log with its disk and the twin that it must equal.
type machine struct {
	t           *rapid.T
	recordBytes int
	disk        disk
	naive       twin
	w           writer
}

// TestEveryCutLeavesWhatWritesLeave makes Writes, repeats the whole state now and then, and cuts
// the power after every record of each Write, with any permitted number of the first records
// deleted. A start must find the state after some number of Writes, which include all synced ones.
// Sometimes the test continues from that state.
func TestEveryCutLeavesWhatWritesLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{t: t, recordBytes: rapid.IntRange(1, 1000).Draw(t, "record"), naive: twin{self: core.Identity{1}}}
		m.w = m.disk.writer(m.recordBytes)
		m.w.state.self = m.naive.self
		m.step([]*core.Write{{Mark: mark(1, 1)}}, false)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			m.step(nil, rapid.IntRange(0, 3).Draw(t, "again") == 0)
		}
	})
}

// step writes all, or random Writes if all is nil.
func (m *machine) step(all []*core.Write, again bool) {
	durable, promised := len(m.disk.records), len(m.naive.writes)
	for range rapid.IntRange(0, 3).Draw(m.t, "together") {
		if promised > 0 {
			all = append(all, m.naive.draw(m.t))
			m.naive.add(all[len(all)-1])
		}
	}
	if promised == 0 {
		m.naive.add(all[0])
	}
	for _, one := range all {
		require.NoError(m.t, m.w.put(one))
	}
	if again {
		require.NoError(m.t, m.w.putAgain())
	}
	require.NoError(m.t, m.w.cut())
	requireSame(m.t, m.naive.after(len(m.naive.writes)), m.w.state.durable())
	found, on := promised, -1
	if promised > 0 {
		on = rapid.IntRange(2*durable-len(m.disk.records)-1, len(m.disk.records)).Draw(m.t, "goes on")
	}
	for cut := max(durable, 1); cut <= len(m.disk.records); cut++ {
		from := rapid.IntRange(0, m.disk.deleted).Draw(m.t, "front")
		w := m.disk.recovered(m.t, from, cut, m.recordBytes)
		got := show(w.state.durable())
		for found < len(m.naive.writes) && show(m.naive.after(found)) != got {
			found++
		}
		require.Equalf(m.t, show(m.naive.after(found)), got, "the records from %d to %d", from, cut)
		if cut == on {
			m.disk.records, m.naive.writes = m.disk.records[:cut], m.naive.writes[:found]
			w.next = uint64(cut) + 1
			m.w = w
			return
		}
	}
	require.Equal(m.t, show(m.naive.after(len(m.naive.writes))), show(m.naive.after(found)))
	m.disk.deleted = max(m.disk.deleted, int(m.w.state.oldest.seq)-1)
}
