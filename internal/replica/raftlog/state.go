package raftlog

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/replica/core"
)

// state is what the items of a log say, one after the other. It is the same whether they
// are being written or read again.
//
// What is read may begin anywhere, as segments are deleted: until a mark is there with all
// entries that it leaves, gaps are no error, and s knows nothing yet.
// Invariants, once marked: entries are consecutive, the first has the index behind the
// mark's; the hard state's commit is the mark's index or more.
type state struct {
	self  core.Identity // zero until the first item
	mark  core.Mark
	heard map[uint64]core.Identity
	hard  *raftpb.HardState // nil if there is none

	entries []*raftpb.Entry
	places  []place // of each entry, in the journal
	bytes   int64   // of the entries' data

	marked   bool // a mark was there, and all entries that it leaves
	markedAt place
	owed     uint64  // index up to which the mark leaves entries, if they are still to come again; or 0
	again    []place // of the entries that have come again since the mark
}

func newState() state { return state{heard: map[uint64]core.Identity{}} }

// place is where an item is in the journal.
type place struct {
	seq uint64 // of the record
	at  int64  // bytes of all records before it, as far as they are known
}

// last returns the index of the last entry, or the one before the first.
func (s *state) last() uint64 {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].GetIndex()
	}
	return s.mark.Index
}

// first returns the index of the first entry, or of the one that would be it.
func (s *state) first() uint64 {
	if len(s.entries) > 0 {
		return s.entries[0].GetIndex()
	}
	return s.mark.Index + 1
}

// needed returns the place of the oldest record that the log still needs.
func (s *state) needed() place {
	if len(s.places) > 0 && s.places[0].seq < s.markedAt.seq {
		return s.places[0]
	}
	return s.markedAt
}

// take adds an item. The error says why no sequence of writes has it here; the state is then
// of no more use.
func (s *state) take(it item, at place) error {
	switch it.kind {
	case kindSelf:
		return s.takeSelf(it.self)
	case kindHeard:
		return s.takeHeard(it.heard)
	case kindMark:
		return s.takeMark(it.mark, it.last, at)
	case kindEntry:
		s.again, s.owed = nil, 0
		return s.takeEntry(it.entry, at)
	case kindAgain:
		return s.takeAgain(it.entry, at)
	case kindHard:
		s.hard = it.hard
		if s.marked {
			s.hard = committed(it.hard, s.mark.Index)
		}
		return nil
	}
	return fmt.Errorf("kind %d is unknown", it.kind)
}

// takeRecord takes all items of a record.
func (s *state) takeRecord(record []byte, at place) error {
	return items(record, func(it item) error { return s.take(it, at) })
}

func (s *state) takeSelf(id core.Identity) error {
	if id == (core.Identity{}) {
		return errors.New("the identity of this node is zero")
	}
	if s.self != (core.Identity{}) && s.self != id {
		return fmt.Errorf("the identity of this node is %x, and was %x before", id, s.self)
	}
	s.self = id
	return nil
}

func (s *state) takeHeard(m core.Member) error {
	known, ok := s.heard[m.ID]
	switch {
	case m.ID == 0 || m.Identity == (core.Identity{}):
		return fmt.Errorf("node %d was heard with the identity %x", m.ID, m.Identity)
	case ok && known != m.Identity:
		return fmt.Errorf("node %d was heard with the identity %x, and with %x before", m.ID, m.Identity, known)
	case !ok && len(s.heard) >= HeardMax:
		return fmt.Errorf("the identity of node %d is one too many: the limit is %d", m.ID, HeardMax)
	}
	s.heard[m.ID] = m.Identity
	return nil
}

// takeMark begins the log at a mark, behind which entries up to last stay.
func (s *state) takeMark(m core.Mark, last uint64, at place) error {
	if err := checkMark(m); err != nil {
		return err
	}
	if s.marked && m.Index < s.mark.Index {
		return fmt.Errorf("mark %d comes behind mark %d", m.Index, s.mark.Index)
	}
	s.again, s.owed = nil, 0
	switch {
	case last < m.Index:
		return fmt.Errorf("mark %d leaves entries up to %d", m.Index, last)
	case last == m.Index:
		s.dropFront(len(s.entries))
		s.marked = true
	case len(s.entries) > 0 && s.first() <= m.Index+1 && s.last() == last:
		s.dropFront(int(m.Index + 1 - s.first()))
		s.marked = true
	case s.marked:
		return fmt.Errorf("mark %d leaves entries up to %d, and there are those from %d to %d",
			m.Index, last, s.first(), s.last())
	default: // they were deleted: they come again, or there is a later mark
		s.dropFront(len(s.entries))
		s.owed = last
	}
	s.mark, s.markedAt = m, at
	s.hard = committed(s.hard, m.Index)
	return nil
}

// committed returns h with a commit of at least index: what a mark covers is committed.
func committed(h *raftpb.HardState, index uint64) *raftpb.HardState {
	if h == nil || h.GetCommit() >= index {
		return h
	}
	return &raftpb.HardState{Term: new(h.GetTerm()), Vote: new(h.GetVote()), Commit: new(index)}
}

// takeEntry puts an entry in place of the one of its index, and all behind it.
func (s *state) takeEntry(e *raftpb.Entry, at place) error {
	if err := checkEntry(e); err != nil {
		return err
	}
	index := e.GetIndex()
	switch fits := index >= s.first() && index <= s.last()+1; {
	case fits:
		s.dropBack(int(s.last() + 1 - index))
	case s.marked:
		return fmt.Errorf("entry %d comes where those from %d to %d are", index, s.first(), s.last())
	default:
		s.dropFront(len(s.entries))
	}
	s.entries = append(s.entries, e)
	s.places = append(s.places, at)
	s.bytes += int64(len(e.GetData()))
	return nil
}

// takeAgain takes an entry that is written once more. Only when all of them have come again
// are their older copies no longer needed.
func (s *state) takeAgain(e *raftpb.Entry, at place) error {
	index, there := e.GetIndex(), len(s.entries) > 0 && e.GetIndex() >= s.first() && e.GetIndex() <= s.last()
	switch {
	case s.marked && (!there || index != s.first()+uint64(len(s.again))):
		return fmt.Errorf("entry %d comes again where those from %d to %d are", index, s.first(), s.last())
	case s.marked && s.entries[index-s.first()].GetTerm() != e.GetTerm():
		return fmt.Errorf("entry %d of term %d comes again with term %d",
			index, s.entries[index-s.first()].GetTerm(), e.GetTerm())
	case s.marked:
		if s.again = append(s.again, at); len(s.again) == len(s.entries) {
			s.places, s.again = s.again, nil
		}
		return nil
	case there:
		return nil
	}
	err := s.takeEntry(e, at)
	if s.owed != 0 && s.first() == s.mark.Index+1 && s.last() == s.owed {
		s.marked, s.owed = true, 0
	}
	return err
}

// check returns what no log has at its end.
func (s *state) check() error {
	switch {
	case !s.marked || s.self == (core.Identity{}):
		return errors.New("there is no mark with all entries that it leaves: the front of the log is missing")
	case s.hard != nil && s.hard.GetCommit() > s.last():
		return fmt.Errorf("entry %d is committed, and the last one is %d", s.hard.GetCommit(), s.last())
	}
	return nil
}

// dropFront forgets the first n entries, and lets their memory go.
func (s *state) dropFront(n int) {
	s.forget(s.entries[:n])
	s.entries, s.places = s.entries[n:], s.places[n:]
}

// dropBack forgets the last n entries.
func (s *state) dropBack(n int) {
	keep := len(s.entries) - n
	s.forget(s.entries[keep:])
	s.entries, s.places = s.entries[:keep], s.places[:keep]
}

func (s *state) forget(entries []*raftpb.Entry) {
	for _, e := range entries {
		s.bytes -= int64(len(e.GetData()))
	}
	clear(entries)
}

// durable returns what a start begins with. It shares entries with s, and nothing else
// that changes.
func (s *state) durable() core.Durable {
	heard := make(map[uint64]core.Identity, len(s.heard))
	for id, identity := range s.heard {
		heard[id] = identity
	}
	return core.Durable{Self: s.self, Mark: s.mark, Hard: s.hard, Entries: slices.Clone(s.entries), Heard: heard}
}
