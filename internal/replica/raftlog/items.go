package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/replica/core"
)

// Version is the version of the records of data/raft. It must be incremented when items can hold
// something new. See journal.Options.Version.
const Version = 1

// Limits on the content of a Write.
const (
	EntryBytesMax = 128 << 20 // maximum size of the data of one entry
	HeardMax      = 1024      // maximum number of nodes whose identity was heard
)

// kind is the kind of an item.
type kind uint8

const (
	kindSelf kind = iota + 1
	kindHeard
	kindMark
	kindEntry
	kindAgain
	kindHard
)

const (
	itemHeader    = 5
	identityBytes = len(core.Identity{})
)

// item is one item of a record. Its kind determines which fields are set.
type item struct {
	kind  kind
	self  core.Identity
	heard core.Member // without address
	mark  core.Mark
	last  uint64 // belongs to mark
	entry *raftpb.Entry
	hard  *raftpb.HardState
}

// errShort reports that an item is cut off.
var errShort = errors.New("it is cut off")

// appendItem appends an item to a record.
func appendItem(b []byte, it item) []byte {
	start := len(b)
	b = append(b, byte(it.kind), 0, 0, 0, 0)
	switch it.kind {
	case kindSelf:
		b = append(b, it.self[:]...)
	case kindHeard:
		b = binary.LittleEndian.AppendUint64(b, it.heard.ID)
		b = append(b, it.heard.Identity[:]...)
	case kindMark:
		b = binary.LittleEndian.AppendUint64(b, it.last)
		b = append(b, it.mark.Encode()...)
	case kindEntry, kindAgain:
		b = binary.LittleEndian.AppendUint64(b, it.entry.GetIndex())
		b = binary.LittleEndian.AppendUint64(b, it.entry.GetTerm())
		b = append(b, byte(it.entry.GetType()))
		b = append(b, it.entry.GetData()...)
	case kindHard:
		b = binary.LittleEndian.AppendUint64(b, it.hard.GetTerm())
		b = binary.LittleEndian.AppendUint64(b, it.hard.GetVote())
		b = binary.LittleEndian.AppendUint64(b, it.hard.GetCommit())
	}
	binary.LittleEndian.PutUint32(b[start+1:], uint32(len(b)-start-itemHeader))
	return b
}

// items calls f for each item of a record. Items share no memory with b. The error is f's, or
// describes a malformed item.
func items(b []byte, f func(item) error) error {
	for at := 0; at < len(b); {
		if len(b)-at < itemHeader {
			return fmt.Errorf("item at byte %d: %w", at, errShort)
		}
		length := binary.LittleEndian.Uint32(b[at+1:])
		body := b[at+itemHeader:]
		if uint64(length) > uint64(len(body)) {
			return fmt.Errorf("item at byte %d: %w", at, errShort)
		}
		it, err := parseItem(kind(b[at]), body[:length])
		if err == nil {
			err = f(it)
		}
		if err != nil {
			return fmt.Errorf("item at byte %d: %w", at, err)
		}
		at += itemHeader + int(length)
	}
	return nil
}

func parseItem(k kind, body []byte) (it item, err error) {
	r := reader{rest: body}
	it.kind = k
	switch k {
	case kindSelf:
		it.self = r.identity()
	case kindHeard:
		it.heard.ID, it.heard.Identity = r.u64(), r.identity()
	case kindMark:
		it.mark, it.last = r.mark()
	case kindEntry, kindAgain:
		it.entry = r.entry()
	case kindHard:
		it.hard = &raftpb.HardState{Term: new(r.u64()), Vote: new(r.u64()), Commit: new(r.u64())}
	default:
		return it, fmt.Errorf("kind %d is unknown", k)
	}
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("it has %d extra bytes at its end", len(r.rest))
	}
	return it, r.err
}

// reader reads fields from the front of an item's body. After an error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) bytes(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.rest)) {
		if r.err == nil {
			r.err = errShort
		}
		r.rest = nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uint(bytes int) (n uint64) {
	for i, b := range r.bytes(uint64(bytes)) {
		n |= uint64(b) << (8 * i)
	}
	return n
}

func (r *reader) u64() uint64 { return r.uint(8) }

func (r *reader) identity() (id core.Identity) {
	copy(id[:], r.bytes(uint64(identityBytes)))
	return id
}

func (r *reader) entry() *raftpb.Entry {
	e := &raftpb.Entry{Index: new(r.u64()), Term: new(r.u64()), Type: new(raftpb.EntryType(r.uint(1)))}
	if _, known := raftpb.EntryType_name[int32(e.GetType())]; !known && r.err == nil {
		r.err = fmt.Errorf("entry %d has the unknown type %d", e.GetIndex(), e.GetType())
	}
	if len(r.rest) > 0 {
		e.Data = append([]byte(nil), r.bytes(uint64(len(r.rest)))...)
	}
	return e
}

func (r *reader) mark() (m core.Mark, last uint64) {
	last = r.u64()
	if r.err != nil {
		return m, last
	}
	decoded, err := core.DecodeMark(r.bytes(uint64(len(r.rest))))
	if err != nil {
		r.err = err
		return m, last
	}
	return *decoded, last
}

// checkEntry returns an error if the entry is invalid.
func checkEntry(e *raftpb.Entry) error {
	switch {
	case e.GetIndex() == 0 || e.GetIndex() == math.MaxUint64 || e.GetTerm() == 0:
		return fmt.Errorf("an entry has the invalid index %d or term %d", e.GetIndex(), e.GetTerm())
	case len(e.GetData()) > EntryBytesMax:
		return fmt.Errorf("entry %d has %d bytes, more than %d", e.GetIndex(), len(e.GetData()), EntryBytesMax)
	}
	return nil
}
