package raftlog

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/replica/core"
)

// state is the result of all items of a log, in their order. Writing and reading a log build the
// same state.
//
// Reading may start at any record, since segments are deleted. Until the state has a mark with all entries
// that the mark leaves, it collects entries in parts.
//
// Invariants, once marked is set: entries are consecutive and the first has the index after the mark's;
// the commit of the hard state is at least the mark's index.
type state struct {
	self  core.Identity // zero before the first item
	mark  core.Mark
	heard map[uint64]core.Identity
	hard  *raftpb.HardState // nil if no hard state was written

	entries []*raftpb.Entry
	places  []place // place of each entry in the journal
	bytes   int64   // size of the entries' data

	marked   bool // a mark and all entries that it leaves were read
	markedAt place
	oldest   place // place of the oldest record that is needed

	begun bool // a mark was read; until marked is set, entries are in parts
	parts parts
}

// parts collects entries while some may be missing, since the front of the log is deleted. If a mark was
// read, all collected entries are after it.
type parts struct {
	entries map[uint64]part
	last    uint64 // index of the last entry in the log
}

type part struct {
	entry *raftpb.Entry
	at    place
}

func newState() state {
	return state{heard: map[uint64]core.Identity{}, parts: parts{entries: map[uint64]part{}}}
}

// place is the position of an item in the journal.
type place struct {
	seq uint64 // seq of the item's record
	at  int64  // size of all earlier records that were read or written
}

// last returns the index of the last entry, or the mark's index if the log has no entry.
func (s *state) last() uint64 {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].GetIndex()
	}
	return s.mark.Index
}

// first returns the index of the first entry, or the index that it will have.
func (s *state) first() uint64 {
	if len(s.entries) > 0 {
		return s.entries[0].GetIndex()
	}
	return s.mark.Index + 1
}

// findOldest finds the place of the oldest record that is needed.
func (s *state) findOldest() {
	s.oldest = s.markedAt
	for _, at := range s.places {
		if at.seq < s.oldest.seq {
			s.oldest = at
		}
	}
}

// apply adds an item to the state. It returns an error if no sequence of writes can have the item
// here; the state must not be used after that.
func (s *state) apply(it item, at place) error {
	switch it.kind {
	case kindSelf:
		return s.applySelf(it.self)
	case kindHeard:
		return s.applyHeard(it.heard)
	case kindMark:
		return s.applyMark(it.mark, it.last, at)
	case kindEntry:
		return s.applyEntry(it.entry, at)
	case kindAgain:
		return s.applyAgain(it.entry, at)
	case kindHard:
		s.hard = committed(it.hard, s.mark.Index)
		return nil
	}
	return fmt.Errorf("kind %d is unknown", it.kind)
}

// applyRecord applies all items of a record.
func (s *state) applyRecord(record []byte, at place) error {
	return items(record, func(it item) error { return s.apply(it, at) })
}

func (s *state) applySelf(id core.Identity) error {
	if id == (core.Identity{}) {
		return errors.New("the identity of this node is zero")
	}
	if s.self != (core.Identity{}) && s.self != id {
		return fmt.Errorf("the identity of this node is %x, but was %x before", id, s.self)
	}
	s.self = id
	return nil
}

func (s *state) applyHeard(m core.Member) error {
	_, ok := s.heard[m.ID]
	switch {
	case m.ID == 0:
		return fmt.Errorf("a hello has the invalid node number %d, with the identity %x", m.ID, m.Identity)
	case m.Identity == (core.Identity{}): // zeros remove the entry
		delete(s.heard, m.ID)
		return nil
	case !ok && len(s.heard) >= HeardMax:
		return fmt.Errorf("too many nodes were heard: node %d exceeds the limit of %d", m.ID, HeardMax)
	}
	s.heard[m.ID] = m.Identity
	return nil
}

// applyMark makes the log start after the mark. Entries up to last stay.
func (s *state) applyMark(m core.Mark, last uint64, at place) error {
	if s.marked && m.Index < s.mark.Index {
		return fmt.Errorf("mark %d comes after the later mark %d", m.Index, s.mark.Index)
	}
	if last < m.Index {
		return fmt.Errorf("mark %d leaves entries up to %d", m.Index, last)
	}
	switch {
	case !s.marked:
		s.parts.mark(m.Index, last)
	case last == m.Index:
		s.dropFront(len(s.entries))
	case s.first() <= m.Index+1 && s.last() == last:
		s.dropFront(int(m.Index + 1 - s.first()))
	default:
		return fmt.Errorf("mark %d leaves entries up to %d, but the log has those from %d to %d",
			m.Index, last, s.first(), s.last())
	}
	s.mark, s.markedAt, s.begun = m, at, true
	s.findOldest()
	s.join()
	return nil
}

// committed returns h with a commit of at least index, since everything up to a mark is committed.
func committed(h *raftpb.HardState, index uint64) *raftpb.HardState {
	if h.GetCommit() >= index {
		return h
	}
	return &raftpb.HardState{Term: new(h.GetTerm()), Vote: new(h.GetVote()), Commit: new(index)}
}

// applyEntry adds an entry. It replaces the entry with the same index and all after it.
func (s *state) applyEntry(e *raftpb.Entry, at place) error {
	if err := s.afterMark(e); err != nil {
		return err
	}
	if !s.marked {
		s.parts.put(e, at)
		s.join()
		return nil
	}
	index := e.GetIndex()
	if index > s.last()+1 {
		return fmt.Errorf("entry %d comes after entry %d", index, s.last())
	}
	s.dropBack(int(s.last() + 1 - index))
	s.push(e, at)
	return nil
}

// afterMark returns an error if the entry is not after the mark or is invalid.
func (s *state) afterMark(e *raftpb.Entry) error {
	if s.begun && e.GetIndex() <= s.mark.Index {
		return fmt.Errorf("entry %d comes after mark %d, which covers it", e.GetIndex(), s.mark.Index)
	}
	return checkEntry(e)
}

// push adds an entry after the last one.
func (s *state) push(e *raftpb.Entry, at place) {
	s.entries = append(s.entries, e)
	s.places = append(s.places, at)
	s.bytes += int64(len(e.GetData()))
}

// applyAgain moves an entry to a newer place, since its older copy is no longer needed.
func (s *state) applyAgain(e *raftpb.Entry, at place) error {
	if err := s.afterMark(e); err != nil {
		return err
	}
	if !s.marked {
		s.parts.putAgain(e, at)
		s.join()
		return nil
	}
	index := e.GetIndex()
	if index < s.first() || index > s.last() || s.entries[index-s.first()].GetTerm() != e.GetTerm() {
		return fmt.Errorf("entry %d of term %d is repeated, but is not one of the entries %d to %d",
			index, e.GetTerm(), s.first(), s.last())
	}
	if s.places[index-s.first()] = at; index == s.last() {
		s.findOldest()
	}
	return nil
}

// join turns parts into the log once there is a mark and all its entries.
func (s *state) join() {
	if s.marked || !s.begun || uint64(len(s.parts.entries)) != s.parts.last-s.mark.Index {
		return
	}
	for i := s.mark.Index + 1; i <= s.parts.last; i++ {
		s.push(s.parts.entries[i].entry, s.parts.entries[i].at)
	}
	s.marked, s.parts = true, parts{}
	s.findOldest()
}

// mark removes entries up to index and after last.
func (p *parts) mark(index, last uint64) {
	p.last = last
	for i := range p.entries {
		if i <= index || i > last {
			delete(p.entries, i)
		}
	}
}

// put adds an entry. It replaces the entry with the same index and all after it.
func (p *parts) put(e *raftpb.Entry, at place) {
	if e.GetIndex() < p.last { // otherwise there is no later entry
		for i := range p.entries {
			if i > e.GetIndex() {
				delete(p.entries, i)
			}
		}
	}
	p.last = e.GetIndex()
	p.entries[p.last] = part{e, at}
}

// putAgain adds an entry of the log, unless the log has one with this index.
func (p *parts) putAgain(e *raftpb.Entry, at place) {
	if _, there := p.entries[e.GetIndex()]; !there {
		p.entries[e.GetIndex()] = part{e, at}
		p.last = max(p.last, e.GetIndex())
	}
}

// check returns an error if the state is incomplete after the last item.
func (s *state) check() error {
	switch {
	case !s.marked || s.self == (core.Identity{}):
		return errors.New("the start of the log is missing: there is no mark with all entries that it leaves")
	case s.hard != nil && s.hard.GetCommit() > s.last():
		return fmt.Errorf("entry %d is committed, but the last entry is %d", s.hard.GetCommit(), s.last())
	}
	return nil
}

// dropFront removes the first n entries and releases their memory.
func (s *state) dropFront(n int) {
	s.forget(s.entries[:n])
	s.entries, s.places = s.entries[n:], s.places[n:]
}

// dropBack removes the last n entries and releases their memory.
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

// durable returns the state for a start. It shares only the entries with s.
func (s *state) durable() core.Durable {
	heard := make(map[uint64]core.Identity, len(s.heard))
	for id, identity := range s.heard {
		heard[id] = identity
	}
	return core.Durable{Self: s.self, Mark: s.mark, Hard: s.hard, Entries: slices.Clone(s.entries), Heard: heard}
}
