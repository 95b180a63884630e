package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// entryOverhead is about what an entry takes in memory besides its data.
const entryOverhead = 160

// state is what the entries up to an index have led to.
type state struct {
	Position
	*membership
}

// storage is raft's log in memory: all entries behind a mark, as they were handed to the
// disk. raft asks it only for those that it knows to be synced. Not safe for concurrent use.
// Invariant: entries are consecutive from mark.Index + 1; states[i] is behind entries[i].
type storage struct {
	hard    *raftpb.HardState // that raft begins with
	mark    *Mark
	entries []*raftpb.Entry
	states  []state // of the entries that were told to the driver, the first len(states)
	bytes   int     // of entries

	// snapshot is for raft.Storage.Snapshot; the node decides where it is.
	snapshot func() (*raftpb.Snapshot, error)
}

func sizeOf(e *raftpb.Entry) int { return len(e.GetData()) + entryOverhead }

func (s *storage) last() uint64 { return s.mark.Index + uint64(len(s.entries)) }

// append adds entries, which replace those of the same index and all behind it.
func (s *storage) append(es []*raftpb.Entry) {
	if len(es) == 0 {
		return
	}
	first := es[0].GetIndex()
	if first <= s.mark.Index || first > s.last()+1 {
		panic(fmt.Sprintf("core: entry %d for a log of %d to %d", first, s.mark.Index+1, s.last()))
	}
	keep := first - s.mark.Index - 1
	if keep < uint64(len(s.states)) {
		panic(fmt.Sprintf("core: entry %d was committed, and is replaced", first))
	}
	for _, e := range s.entries[keep:] {
		s.bytes -= sizeOf(e)
	}
	for _, e := range es {
		s.bytes += sizeOf(e)
	}
	// raft may hold a slice of what was there: nothing is overwritten.
	s.entries = append(s.entries[:keep:keep], es...)
}

// tell notes what the next committed entry has led to.
func (s *storage) tell(st state) { s.states = append(s.states, st) }

// told is the index of the last entry with a state.
func (s *storage) told() uint64 { return s.mark.Index + uint64(len(s.states)) }

// at returns the state behind the entry of the index, which is told or the mark's.
func (s *storage) at(index uint64) state {
	if index == s.mark.Index {
		return stateOf(s.mark)
	}
	return s.states[index-s.mark.Index-1]
}

// upTo returns the last index, at most limit, whose records are all at or below seq.
func (s *storage) upTo(seq, limit uint64) uint64 {
	n, _ := slices.BinarySearchFunc(s.states, seq, func(st state, seq uint64) int {
		if st.Seq <= seq {
			return -1
		}
		return 1
	})
	return min(s.mark.Index+uint64(n), max(limit, s.mark.Index))
}

// compact lets the log begin behind the index, which is told, and returns the mark.
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

// restore lets the log be empty behind the mark.
func (s *storage) restore(mark *Mark) {
	s.mark, s.entries, s.states, s.bytes = mark, nil, nil, 0
}

// InitialState is part of raft.Storage.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return s.hard, s.mark.Conf, nil
}

// Entries is part of raft.Storage.
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
		// What raft itself adds to the data of an entry is less than the overhead.
		if size += uint64(sizeOf(e)); size > maxSize && i > 0 {
			es = es[:i]
			break
		}
	}
	return slices.Clip(es), nil
}

// Term is part of raft.Storage.
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

// LastIndex is part of raft.Storage.
func (s *storage) LastIndex() (uint64, error) { return s.last(), nil }

// FirstIndex is part of raft.Storage.
func (s *storage) FirstIndex() (uint64, error) { return s.mark.Index + 1, nil }

// Snapshot is part of raft.Storage.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) { return s.snapshot() }
