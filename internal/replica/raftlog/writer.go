package raftlog

import (
	"fmt"
	"maps"
	"slices"

	"outcry/internal/replica/core"
)

// writer turns Writes into records and maintains the resulting state.
type writer struct {
	state       state
	record      []byte // the record being built
	next        uint64 // seq of that record
	at          int64  // size of all earlier records
	recordBytes int    // a record of this size gets no more items
	out         func(record []byte) error
}

// kept returns the size of the records that are kept.
func (w *writer) kept() int64 { return w.at - w.state.oldest.at }

// put adds a Write to the record.
func (w *writer) put(one *core.Write) error {
	for _, m := range one.Heard {
		if err := w.add(item{kind: kindHeard, heard: m}); err != nil {
			return err
		}
	}
	if one.Mark != nil {
		if err := w.putMark(*one.Mark, w.leaves(one.Mark)); err != nil {
			return err
		}
	}
	for _, e := range one.Entries {
		if err := w.add(item{kind: kindEntry, entry: e}); err != nil {
			return err
		}
	}
	if one.Hard == nil {
		return nil
	}
	if one.Hard.GetCommit() > w.state.last() {
		return fmt.Errorf("entry %d is marked as committed, but the last entry is %d", one.Hard.GetCommit(), w.state.last())
	}
	return w.add(item{kind: kindHard, hard: one.Hard})
}

// leaves returns the index of the last entry that stays after a mark, or the mark's index if none
// stays. If the log has an entry of another term at the mark's index, all its entries belong to
// another history and none stays.
func (w *writer) leaves(m *core.Mark) uint64 {
	s := &w.state
	switch i := m.Index; {
	case s.marked && i == s.mark.Index && m.Term == s.mark.Term:
		return s.last()
	case i < s.first() || i > s.last() || len(s.entries) == 0 || s.entries[i-s.first()].GetTerm() != m.Term:
		return i
	}
	return s.last()
}

// putMark adds a mark and everything else that a start needs except entries, in one record.
func (w *writer) putMark(m core.Mark, last uint64) error {
	err := w.add(item{kind: kindSelf, self: w.state.self})
	if err == nil {
		err = w.join(item{kind: kindMark, mark: m, last: last})
	}
	for _, id := range slices.Sorted(maps.Keys(w.state.heard)) {
		if err == nil {
			err = w.join(item{kind: kindHeard, heard: core.Member{ID: id, Identity: w.state.heard[id]}})
		}
	}
	if err == nil && w.state.hard != nil {
		err = w.join(item{kind: kindHard, hard: w.state.hard})
	}
	return err
}

// putAgain adds the whole state once more.
func (w *writer) putAgain() error {
	if err := w.putMark(w.state.mark, w.state.last()); err != nil {
		return err
	}
	for _, e := range w.state.entries {
		if err := w.add(item{kind: kindAgain, entry: e}); err != nil {
			return err
		}
	}
	return nil
}

// add adds an item to the record, or to a new one if the record is large enough.
func (w *writer) add(it item) error {
	if len(w.record) >= w.recordBytes {
		if err := w.cut(); err != nil {
			return err
		}
	}
	return w.join(it)
}

// join adds an item to the same record as the item before it.
func (w *writer) join(it item) error {
	if err := w.state.apply(it, place{w.next, w.at}); err != nil {
		return err
	}
	w.record = appendItem(w.record, it)
	return nil
}

// cut ends the record and writes it.
func (w *writer) cut() error {
	if len(w.record) == 0 {
		return nil
	}
	if err := w.out(w.record); err != nil {
		return err
	}
	w.next++
	w.at += int64(len(w.record))
	if w.record = w.record[:0]; cap(w.record) > pendingMax {
		w.record = nil
	}
	return nil
}
