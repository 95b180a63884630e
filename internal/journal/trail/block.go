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

	mu       sync.Mutex                           // guards the fields below; it is not held while files are read
	blocks   []*block[E]                          // the newest last
	bytes    int                                  // size of the records in blocks and of what their values refer to
	reading  []*block[E]                          // each is filled by one follower; others read only its field first
	ended    *sync.Cond                           // signaled when a block leaves reading
	spare    *block[E]                            // memory for the next block, or nil
	readers  int                                  // followers that read files
	read     uint64                               // number of records that were read, for tests
	decoders []func(record []byte, into *E) error // unused ones
}

// block returns the block that contains record seq. If no follower has read it recently, block reads it with own, up to
// record last; if another follower is reading it, block waits for that. The block is nil if the record is not synced.
// The caller must give it back.
func (s *files[E]) block(own *journal.Reader, seq, last uint64) *block[E] {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.found(seq)
	for ; b == nil && s.isRead(seq); b = s.found(seq) {
		s.ended.Wait()
	}
	if b != nil {
		b.users++
		return b
	}
	b = s.spare
	if s.spare = nil; b == nil {
		b = new(block[E])
	}
	b.first = seq
	s.readBlock(b, own, last)
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

// found returns the block that contains record seq, or nil. Its caller holds mu.
func (s *files[E]) found(seq uint64) *block[E] {
	for _, b := range s.blocks {
		if b.first <= seq && seq <= b.last() {
			return b
		}
	}
	return nil
}

// isRead reports whether a follower is reading a block that will probably contain record seq. Its caller holds mu.
func (s *files[E]) isRead(seq uint64) bool {
	return slices.ContainsFunc(s.reading, func(b *block[E]) bool { return b.first <= seq && seq < b.first+blockRecords })
}

// readBlock fills a block. Its caller holds mu, which is unlocked while files are read.
func (s *files[E]) readBlock(b *block[E], own *journal.Reader, last uint64) {
	var decode func([]byte, *E) error
	if n := len(s.decoders); n > 0 {
		decode, s.decoders = s.decoders[n-1], s.decoders[:n-1]
	} else {
		decode = s.options.Decode()
	}
	s.reading = append(s.reading, b)
	s.mu.Unlock()
	panicked := true
	defer func() { // a panic of decode ends only the caller's follower
		s.mu.Lock()
		s.reading = slices.DeleteFunc(s.reading, func(other *block[E]) bool { return b == other })
		if s.ended.Broadcast(); !panicked {
			s.decoders = append(s.decoders, decode)
		}
	}()
	// The reader is there already, unless the last block was read by another follower and only partly passed on.
	own.Skip(b.first)
	b.fill(s.options, decode, own, last)
	panicked = false
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
		s.blocks, s.decoders, s.spare, s.bytes = nil, nil, nil, 0
	}
}
