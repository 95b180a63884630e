package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// entryOverhead is the approximate memory of an entry besides its data.
const entryOverhead = 160

// state is the result of all entries up to an index.
type state struct {
	Position
	*membership
}

// storage is raft's log in memory: all entries after a mark, as they were emitted for the disk.
// raft reads only entries that it knows to be synced. Not safe for concurrent use. Invariants:
// entries are consecutive from mark.Index + 1; states[i] is the state after entries[i].
type storage struct {
	hard    *raftpb.HardState // the hard state with which raft starts
	mark    *Mark
	entries []*raftpb.Entry
	states  []state // states after the first len(states) entries, which were emitted to the driver
	bytes   int     // size of entries

	// snapshot implements raft.Storage.Snapshot; the node chooses the index.
	snapshot func() (*raftpb.Snapshot, error)
}

func sizeOf(e *raftpb.Entry) int { return len(e.GetData()) + entryOverhead }

func (s *storage) last() uint64 { return s.mark.Index + uint64(len(s.entries)) }

// append adds entries. They replace existing entries with the same index and all after those.
func (s *storage) append(es []*raftpb.Entry) {
	if len(es) == 0 {
		return
	}
	first := es[0].GetIndex()
	if first <= s.mark.Index || first > s.last()+1 {
		panic(fmt.Sprintf("core: entry %d does not fit a log of entries %d to %d", first, s.mark.Index+1, s.last()))
	}
	keep := first - s.mark.Index - 1
	if keep < uint64(len(s.states)) {
		panic(fmt.Sprintf("core: entry %d was committed and cannot be replaced", first))
	}
	for _, e := range s.entries[keep:] {
		s.bytes -= sizeOf(e)
	}
	for _, e := range es {
		s.bytes += sizeOf(e)
	}
	// raft may still hold a slice of the old entries, so they are not overwritten.
	s.entries = append(s.entries[:keep:keep], es...)
}

// addState records the state after the next committed entry.
func (s *storage) addState(st state) { s.states = append(s.states, st) }

// emitted returns the index of the last entry with a state.
func (s *storage) emitted() uint64 { return s.mark.Index + uint64(len(s.states)) }

// at returns the state after the entry with the index, which must be the mark's or that of an
// emitted entry.
func (s *storage) at(index uint64) state {
	if index == s.mark.Index {
		return stateOf(s.mark)
	}
	return s.states[index-s.mark.Index-1]
}

// upTo returns the highest index, at most limit, up to which all records have a seq of at most seq.
func (s *storage) upTo(seq, limit uint64) uint64 {
	n, _ := slices.BinarySearchFunc(s.states, seq, func(st state, seq uint64) int {
		if st.Seq <= seq {
			return -1
		}
		return 1
	})
	return min(s.mark.Index+uint64(n), max(limit, s.mark.Index))
}

// compact makes the log start after the entry with the index, which must be emitted, and returns
// the mark.
func (s *storage) compact(index uint64) *Mark {
	n := index - s.mark.Index
	term, _ := s.Term(index)
	mark := s.at(index).mark(index, term)
	for _, e := range s.entries[:n] {
		s.bytes -= sizeOf(e)
	}
	s.entries = append([]*raftpb.Entry(nil), s.entries[n:]...)
	s.states = append([]state(nil), s.states[n:]...)
	s.mark = mark
	return mark
}

// restore makes the log empty and start after the mark.
func (s *storage) restore(mark *Mark) {
	s.mark, s.entries, s.states, s.bytes = mark, nil, nil, 0
}

// InitialState implements raft.Storage.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return s.hard, s.mark.Conf, nil
}

// Entries implements raft.Storage.
func (s *storage) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	if lo <= s.mark.Index {
		return nil, raft.ErrCompacted
	}
	if hi > s.last()+1 {
		return nil, raft.ErrUnavailable
	}
	es := s.entries[lo-s.mark.Index-1 : hi-s.mark.Index-1]
	size := uint64(0)
	for i, e := range es {
		// The size that raft adds to an entry's data is less than entryOverhead.
		if size += uint64(sizeOf(e)); size > maxSize && i > 0 {
			es = es[:i]
			break
		}
	}
	return slices.Clip(es), nil
}

// Term implements raft.Storage.
func (s *storage) Term(i uint64) (uint64, error) {
	switch {
	case i < s.mark.Index:
		return 0, raft.ErrCompacted
	case i == s.mark.Index:
		return s.mark.Term, nil
	case i > s.last():
		return 0, raft.ErrUnavailable
	}
	return s.entries[i-s.mark.Index-1].GetTerm(), nil
}

// LastIndex implements raft.Storage.
func (s *storage) LastIndex() (uint64, error) { return s.last(), nil }

// FirstIndex implements raft.Storage.
func (s *storage) FirstIndex() (uint64, error) { return s.mark.Index + 1, nil }

// Snapshot implements raft.Storage.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) { return s.snapshot() }
