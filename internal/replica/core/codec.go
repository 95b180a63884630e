package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"

	"go.etcd.io/raft/v3/raftpb"
)

// The first byte of an entry's data is its kind. Entries without data are raft's own. Numbers are
// big-endian; counts and lengths have 4 bytes.
const (
	entryBatch = 1 // data is a batch
	entryPins  = 2 // data is pins
)

// batchHeader is the length of an encoded batch without its records.
const batchHeader = 1 + 8 + 8 + 8 + 4

var (
	errShort   = errors.New("ends too early")
	errLong    = errors.New("has extra bytes at its end")
	chainTable = crc64.MakeTable(crc64.ECMA)
)

// batch holds the records of one entry and their place in the history.
type batch struct {
	term    uint64 // term of the leader that proposed it
	first   uint64 // seq of the first record
	chain   uint64 // chain after the last record of the batch
	records [][]byte
}

// After returns the position after p and the given records, which follow it.
func (p Position) After(records ...[]byte) Position {
	for _, r := range records {
		p.Chain = crc64.Update(p.Chain, chainTable, r)
	}
	p.Seq += uint64(len(records))
	return p
}

func (b batch) encode() []byte {
	size := batchHeader
	for _, r := range b.records {
		size += 4 + len(r)
	}
	d := append(make([]byte, 0, size), entryBatch)
	d = binary.BigEndian.AppendUint64(d, b.term)
	d = binary.BigEndian.AppendUint64(d, b.first)
	d = binary.BigEndian.AppendUint64(d, b.chain)
	d = binary.BigEndian.AppendUint32(d, uint32(len(b.records)))
	for _, r := range b.records {
		d = binary.BigEndian.AppendUint32(d, uint32(len(r)))
		d = append(d, r...)
	}
	return d
}

// decodeBatch decodes the result of encode. The records are subslices of d.
func decodeBatch(d []byte) (batch, error) {
	s := scanner{rest: d}
	if s.byte() != entryBatch {
		return batch{}, errors.New("core: an entry is not a batch")
	}
	b := batch{term: s.uint64(), first: s.uint64(), chain: s.uint64()}
	n := s.count(4)
	if s.err == nil && n == 0 {
		return batch{}, errors.New("core: a batch has no records")
	}
	b.records = make([][]byte, 0, n)
	for range n {
		b.records = append(b.records, s.bytes())
	}
	if err := s.end(); err != nil {
		return batch{}, fmt.Errorf("core: the batch of term %d from seq %d %w", b.term, b.first, err)
	}
	return b, nil
}

// pins records the identities of the cluster and its members in the log. A leader proposes it as
// the first entry of its term, and again when it hears a member whose identity is not in the log.
type pins struct {
	term    uint64
	cluster Identity
	members []Member
}

func (p pins) encode() []byte {
	d := binary.BigEndian.AppendUint64([]byte{entryPins}, p.term)
	d = append(d, p.cluster[:]...)
	return appendMembers(d, p.members)
}

func decodePins(d []byte) (pins, error) {
	s := scanner{rest: d}
	if s.byte() != entryPins {
		return pins{}, errors.New("core: an entry is not pins")
	}
	p := pins{term: s.uint64(), cluster: s.identity(), members: s.members()}
	if err := s.end(); err != nil {
		return pins{}, fmt.Errorf("core: the pins of term %d: the entry %w", p.term, err)
	}
	return p, nil
}

func appendMembers(d []byte, members []Member) []byte {
	d = binary.BigEndian.AppendUint32(d, uint32(len(members)))
	for _, m := range members {
		d = binary.BigEndian.AppendUint64(d, m.ID)
		d = append(d, m.Identity[:]...)
		d = binary.BigEndian.AppendUint32(d, uint32(len(m.Address)))
		d = append(d, m.Address...)
	}
	return d
}

// decodeMembers decodes the result of appendMembers.
func decodeMembers(d []byte) ([]Member, error) {
	s := scanner{rest: d}
	m := s.members()
	if err := s.end(); err != nil {
		return nil, fmt.Errorf("core: a list of members %w", err)
	}
	return m, nil
}

const markVersion = 1

// Encode returns the mark in the format that DecodeMark reads.
func (m *Mark) Encode() []byte {
	d := binary.BigEndian.AppendUint64([]byte{markVersion}, m.Index)
	d = binary.BigEndian.AppendUint64(d, m.Term)
	d = binary.BigEndian.AppendUint64(d, m.Seq)
	d = binary.BigEndian.AppendUint64(d, m.Chain)
	d = append(d, m.Cluster[:]...)
	d = appendMembers(d, m.Members)
	d = binary.BigEndian.AppendUint32(d, uint32(len(m.Removed)))
	for _, id := range m.Removed {
		d = append(d, id[:]...)
	}
	c := m.Conf
	for _, ids := range [][]uint64{c.GetVoters(), c.GetLearners(), c.GetVotersOutgoing(), c.GetLearnersNext()} {
		d = binary.BigEndian.AppendUint32(d, uint32(len(ids)))
		for _, id := range ids {
			d = binary.BigEndian.AppendUint64(d, id)
		}
	}
	if c.GetAutoLeave() {
		return append(d, 1)
	}
	return append(d, 0)
}

// DecodeMark decodes the result of Encode. It returns an error that says what is malformed.
func DecodeMark(d []byte) (*Mark, error) {
	s := scanner{rest: d}
	if v := s.byte(); v != markVersion {
		return nil, fmt.Errorf("core: a mark has version %d, but this program reads version %d", v, markVersion)
	}
	m := &Mark{Index: s.uint64(), Term: s.uint64(), Position: Position{Seq: s.uint64(), Chain: s.uint64()}}
	m.Cluster, m.Members = s.identity(), s.members()
	for range s.count(len(Identity{})) {
		m.Removed = append(m.Removed, s.identity())
	}
	m.Conf = &raftpb.ConfState{Voters: s.ids(), Learners: s.ids(), VotersOutgoing: s.ids(), LearnersNext: s.ids()}
	switch v := s.byte(); {
	case v == 1:
		m.Conf.AutoLeave = new(true)
	case v > 1:
		return nil, fmt.Errorf("core: a mark has the unknown flag %d", v)
	}
	if err := s.end(); err != nil {
		return nil, fmt.Errorf("core: a mark of index %d %w", m.Index, err)
	}
	return m, nil
}

// scanner reads the fields that the functions above append. After an error it returns zeros.
type scanner struct {
	rest []byte
	err  error
}

func (s *scanner) next(n int) []byte {
	if s.err == nil && n > len(s.rest) {
		s.err = errShort
	}
	if s.err != nil {
		return nil
	}
	field := s.rest[:n:n]
	s.rest = s.rest[n:]
	return field
}

func (s *scanner) byte() byte {
	if b := s.next(1); b != nil {
		return b[0]
	}
	return 0
}

func (s *scanner) uint64() uint64 {
	if b := s.next(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// count reads the number of elements that follow, each of at least size bytes. It fails if the rest
// is too short for them, so a malformed count cannot cause a large allocation.
func (s *scanner) count(size int) int {
	b := s.next(4)
	if b == nil {
		return 0
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n)*uint64(size) > uint64(len(s.rest)) {
		s.err = errShort
		return 0
	}
	return int(n)
}

func (s *scanner) bytes() []byte { return s.next(s.count(1)) }

func (s *scanner) identity() (id Identity) {
	copy(id[:], s.next(len(id)))
	return id
}

func (s *scanner) members() (m []Member) {
	for range s.count(8 + len(Identity{}) + 4) {
		m = append(m, Member{ID: s.uint64(), Identity: s.identity(), Address: string(s.bytes())})
	}
	return m
}

func (s *scanner) ids() (ids []uint64) {
	for range s.count(8) {
		ids = append(ids, s.uint64())
	}
	return ids
}

func (s *scanner) end() error {
	if s.err == nil && len(s.rest) > 0 {
		return errLong
	}
	return s.err
}
