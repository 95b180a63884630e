package trail

import (
	"fmt"
	"slices"
	"sync"

	"outcry/internal/journal"
)

// Bounds of one read from the files, and of the records kept in memory afterwards.
const (
	blockRecords = 64
	blockBytes   = 1 << 20 // a block ends after the record that exceeds it
	blocksBytes  = 8 << 20
	blocksMax    = 128
)

// Records reads a journal's synced records in order. One goroutine calls its methods. *journal.Reader implements it.
type Records interface {
	// TryNext returns the next record, which is valid until the next call. ok is false, without an error, if the
	// record is not synced yet.
	TryNext() (seq uint64, record []byte, ok bool, err error)
	// Close releases the records that were not read.
	Close()
}

// block is decoded records, read from files, without a gap. Readers do not change it.
type block[E any] struct {
	first  uint64
	values []E
	bytes  int
	end    journal.Place // where the next block begins
	users  int           // followers that read it; files.mu guards it
	err    error         // why the record after the values cannot be read or decoded; nil if it can
}

// last returns the seq of the block's last record.
func (b *block[E]) last() uint64 { return b.first + uint64(len(b.values)) - 1 }

// fill reads and decodes the records from b.first up to last. The block may stay empty if none is synced.
func (b *block[E]) fill(o *Options[E], decode func([]byte, *E) error, from Records, last uint64) {
	for i := range b.values {
		o.Recycle(&b.values[i])
	}
	b.values, b.bytes, b.err = b.values[:0], 0, nil
	for at := b.first; at <= last && len(b.values) < blockRecords && b.bytes < blockBytes; at++ {
		seq, record, ok, err := from.TryNext()
		switch {
		case err == nil && !ok:
			return
		case err == nil && seq != at:
			err = fmt.Errorf("journal record %d follows record %d", seq, at-1)
		case err == nil:
			n := len(b.values)
			b.values = slices.Grow(b.values, 1)[:n+1] // an older value there is recycled
			if err = decode(record, &b.values[n]); err == nil {
				b.bytes += len(record) + o.Extra(&b.values[n])
				continue
			}
			b.values = b.values[:n]
			err = fmt.Errorf("journal record %d: %w", seq, err)
		}
		b.err = err
		return
	}
}

// files has the blocks that were recently read from files, so that followers at about the same place decode them once.
type files[E any] struct {
	options *Options[E]
	mu      sync.Mutex
	decode  func(record []byte, into *E) error
	blocks  []*block[E] // the newest last
	spare   *block[E]   // memory for the next block, or nil
	bytes   int
	readers int    // followers that read files
	read    uint64 // number of records that were read, for tests
}

// take returns the block that contains record seq. If no follower has read it recently, take reads it with own, up to
// record last. The block is nil if the record is not synced. The caller must give it back.
func (s *files[E]) take(own *journal.Reader, seq, last uint64) *block[E] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.blocks {
		if b.first <= seq && seq <= b.last() {
			b.users++
			return b
		}
	}
	if s.decode == nil {
		s.decode = s.options.Decode()
	}
	b := s.spare
	if s.spare = nil; b == nil {
		b = new(block[E])
	}
	b.first = seq
	own.Skip(seq) // has no effect unless another follower read the last block and this one passed on only part of it
	b.fill(s.options, s.decode, own, last)
	s.read += uint64(len(b.values))
	if len(b.values) == 0 && b.err == nil {
		s.spare = b
		return nil
	}
	b.users, b.end = 1, own.Place()
	if b.err != nil { // each follower finds its own error
		return b
	}
	s.blocks = append(s.blocks, b)
	for s.bytes += b.bytes; len(s.blocks) > 1 && (s.bytes > blocksBytes || len(s.blocks) > blocksMax); {
		s.drop()
	}
	return b
}

// give gives a block back.
func (s *files[E]) give(b *block[E]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.users--; b.users == 0 && !slices.Contains(s.blocks, b) {
		s.keep(b)
	}
}

// drop drops the oldest block. Its caller holds mu.
func (s *files[E]) drop() {
	b := s.blocks[0]
	s.blocks = slices.Delete(s.blocks, 0, 1)
	if s.bytes -= b.bytes; b.users == 0 {
		s.keep(b)
	}
}

// keep keeps the memory of a block for the next one. Its caller holds mu.
func (s *files[E]) keep(b *block[E]) {
	for i := range b.values {
		s.options.Recycle(&b.values[i])
	}
	b.values = b.values[:0]
	s.spare = b
}

// join counts a follower that begins to read files, and leave one that no longer does.
func (s *files[E]) join() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers++
}

func (s *files[E]) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers--; s.readers == 0 {
		s.blocks, s.spare, s.decode, s.bytes = nil, nil, nil, 0
	}
}
