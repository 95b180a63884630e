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
// entries that it leaves, entries are gathered in parts.
//
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
	oldest   place // that is needed

	begun bool // a mark was there; until it is marked, entries are in this:
	parts parts
}

// parts is entries some of which may be missing: what is left of them where the front of a log
// is deleted. All of them are behind the mark, if there was one.
type parts struct {
	entries map[uint64]part
	last    uint64 // index of the last one that the log has
}

type part struct {
	entry *raftpb.Entry
	at    place
}

func newState() state {
	return state{heard: map[uint64]core.Identity{}, parts: parts{entries: map[uint64]part{}}}
}

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

// findOldest works out the place of the oldest record that is needed.
func (s *state) findOldest() {
	s.oldest = s.markedAt
	for _, at := range s.places {
		if at.seq < s.oldest.seq {
			s.oldest = at
		}
	}
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
		return s.takeEntry(it.entry, at)
	case kindAgain:
		return s.takeAgain(it.entry, at)
	case kindHard:
		s.hard = committed(it.hard, s.mark.Index)
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
	_, ok := s.heard[m.ID]
	switch {
	case m.ID == 0:
		return fmt.Errorf("node %d was heard with the identity %x", m.ID, m.Identity)
	case m.Identity == (core.Identity{}): // forgotten
		delete(s.heard, m.ID)
		return nil
	case !ok && len(s.heard) >= HeardMax:
		return fmt.Errorf("the identity of node %d is one too many: the limit is %d", m.ID, HeardMax)
	}
	s.heard[m.ID] = m.Identity
	return nil
}

// takeMark begins the log at a mark, behind which entries up to last stay.
func (s *state) takeMark(m core.Mark, last uint64, at place) error {
	if s.marked && m.Index < s.mark.Index {
		return fmt.Errorf("mark %d comes behind mark %d", m.Index, s.mark.Index)
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
		return fmt.Errorf("mark %d leaves entries up to %d, and there are those from %d to %d",
			m.Index, last, s.first(), s.last())
	}
	s.mark, s.markedAt, s.begun = m, at, true
	s.findOldest()
	s.join()
	return nil
}

// committed returns h with a commit of at least index: what a mark covers is committed.
func committed(h *raftpb.HardState, index uint64) *raftpb.HardState {
	if h.GetCommit() >= index {
		return h
	}
	return &raftpb.HardState{Term: new(h.GetTerm()), Vote: new(h.GetVote()), Commit: new(index)}
}

// takeEntry puts an entry in place of the one of its index, and all behind it.
func (s *state) takeEntry(e *raftpb.Entry, at place) error {
	if err := s.behindMark(e); err != nil {
		return err
	}
	if !s.marked {
		s.parts.put(e, at)
		s.join()
		return nil
	}
	index := e.GetIndex()
	if index > s.last()+1 {
		return fmt.Errorf("entry %d comes behind entry %d", index, s.last())
	}
	s.dropBack(int(s.last() + 1 - index))
	s.push(e, at)
	return nil
}

// behindMark returns why an entry cannot be one that the mark leaves.
func (s *state) behindMark(e *raftpb.Entry) error {
	if s.begun && e.GetIndex() <= s.mark.Index {
		return fmt.Errorf("entry %d comes behind mark %d", e.GetIndex(), s.mark.Index)
	}
	return checkEntry(e)
}

// push adds an entry behind the last one.
func (s *state) push(e *raftpb.Entry, at place) {
	s.entries = append(s.entries, e)
	s.places = append(s.places, at)
	s.bytes += int64(len(e.GetData()))
}

// takeAgain takes an entry that is written once more: its older copy is no longer needed.
func (s *state) takeAgain(e *raftpb.Entry, at place) error {
	if err := s.behindMark(e); err != nil {
		return err
	}
	if !s.marked {
		s.parts.putAgain(e, at)
		s.join()
		return nil
	}
	index := e.GetIndex()
	if index < s.first() || index > s.last() || s.entries[index-s.first()].GetTerm() != e.GetTerm() {
		return fmt.Errorf("entry %d of term %d comes again, and is none of those from %d to %d",
			index, e.GetTerm(), s.first(), s.last())
	}
	if s.places[index-s.first()] = at; index == s.last() {
		s.findOldest()
	}
	return nil
}

// join makes a log of the parts if a mark and all entries behind it are there.
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

// mark forgets entries up to a mark, behind which those up to last stay.
func (p *parts) mark(index, last uint64) {
	p.last = last
	for i := range p.entries {
		if i <= index || i > last {
			delete(p.entries, i)
		}
	}
}

// put puts an entry in place of the one of its index, and all behind it.
func (p *parts) put(e *raftpb.Entry, at place) {
	if e.GetIndex() < p.last { // else there is nothing to look for
		for i := range p.entries {
			if i > e.GetIndex() {
				delete(p.entries, i)
			}
		}
	}
	p.last = e.GetIndex()
	p.entries[p.last] = part{e, at}
}

// putAgain puts an entry that the log has in its place, unless it is there.
func (p *parts) putAgain(e *raftpb.Entry, at place) {
	if _, there := p.entries[e.GetIndex()]; !there {
		p.entries[e.GetIndex()] = part{e, at}
		p.last = max(p.last, e.GetIndex())
	}
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
