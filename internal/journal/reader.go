package journal

import (
	"context"
	"fmt"
	"math"
	"os"
	"sort"
	"sync/atomic"
	"time"
)

// readBytes is the minimum size of a Reader's buffer, in bytes.
const readBytes = 256 << 10

// Reader reads the synced records of an open journal in order, including those appended while it
// reads. Its methods, except Hold, must be called from one goroutine.
type Reader struct {
	j       *Journal
	holdMax uint64        // how many of the newest records the journal keeps for this reader; guarded by j.mu
	next    atomic.Uint64 // seq of the record to read next
	segment segment       // segment whose file is f; its end is as of the last locate
	last    uint64        // seq of the last record that is known to be synced in this segment
	f       file
	at      int64  // offset in f of the first byte after buffer
	buffer  []byte // bytes read from f but not returned yet; a part of memory
	memory  []byte
	pass    int // size of the last returned record, still at the front of buffer
}

// NewReader returns a reader whose first record is seq, which need not exist yet. It returns ErrGone
// if seq is older than the oldest record. The journal keeps all records that the reader has not read
// until the reader is closed.
func (j *Journal) NewReader(seq uint64) (*Reader, error) {
	return j.NewFollower(seq, math.MaxUint64)
}

// NewFollower is NewReader for callers that must not prevent deletion for long: the journal keeps only
// the newest holdMax records for it. A follower that is slower than that gets ErrGone when it reaches
// a deleted record.
func (j *Journal) NewFollower(seq, holdMax uint64) (*Reader, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq < j.segments[0].first {
		return nil, fmt.Errorf("%w: record %d, the oldest is %d", ErrGone, seq, j.segments[0].first)
	}
	r := &Reader{j: j, holdMax: holdMax}
	r.next.Store(seq)
	j.readers[r] = struct{}{}
	return r, nil
}

// Hold changes how many of the newest records the journal keeps for this reader. It is safe for
// concurrent use.
func (r *Reader) Hold(holdMax uint64) {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	r.holdMax = holdMax
}

// FirstWithin returns the seq of the first record of the oldest segment such that this segment and all
// later ones together hold at most the given number of bytes. If the last segment alone holds more, it
// returns the first seq of the last segment.
func (j *Journal) FirstWithin(bytes int64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := len(j.segments) - 1
	for sum := j.segments[i].end; i > 0; i-- {
		if sum += j.segments[i-1].end; sum > bytes {
			break
		}
	}
	return j.segments[i].first
}

// Place is a position in the journal's files: the position of record seq in the segment that begins with record
// segment. If segment is 0, only seq is known.
type Place struct {
	seq, segment uint64
	at           int64
}

// Place returns the position of the next record.
func (r *Reader) Place() Place {
	p := Place{seq: r.next.Load()}
	if r.f != nil {
		p.segment, p.at = r.segment.first, int64(r.offset()+r.pass)
	}
	return p
}

// Jump moves the reader to a position of any reader of the same journal. p must not be before records that the
// journal may have deleted.
func (r *Reader) Jump(p Place) {
	if r.next.Load() == p.seq {
		return
	}
	r.next.Store(p.seq)
	r.buffer, r.pass = nil, 0
	if r.f != nil && p.segment == r.segment.first {
		r.at = p.at
		return
	}
	r.last = 0 // the next read finds the segment
	if r.f != nil {
		_ = r.f.Close()
		r.f = nil
	}
}

// Skip moves the reader to record seq, which may be one that is not synced yet, and closes its file.
func (r *Reader) Skip(seq uint64) { r.Jump(Place{seq: seq}) }

// holds returns the seq of the oldest record that the journal must keep for the reader. The caller
// holds j.mu.
func (r *Reader) holds() uint64 {
	synced := r.j.Synced()
	return max(r.next.Load(), synced-min(synced, r.holdMax)+1)
}

// Close releases the reader: the journal may then delete the records that it has not read.
func (r *Reader) Close() {
	r.j.mu.Lock()
	delete(r.j.readers, r)
	r.j.mu.Unlock()
	if r.f != nil {
		_ = r.f.Close()
		r.f = nil
	}
}

// Next returns the next record. It waits until the record is synced and its segment can be opened,
// which fails while all file descriptors are in use. The payload is valid until the next call. The
// error is ctx's, the journal's failure or ErrClosed, or says what could not be read; the reader
// keeps its position then.
func (r *Reader) Next(ctx context.Context) (seq uint64, payload []byte, err error) {
	if err := r.j.Wait(ctx, r.next.Load()); err != nil {
		return 0, nil, err
	}
	for {
		if seq, payload, err = r.read(); !isNoDescriptor(err) {
			return seq, payload, err
		}
		select {
		case <-time.After(allocateRetry):
		case <-r.j.giveUp:
			return 0, nil, ErrClosed
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
}

// TryNext is Next without waiting. ok is false and err is nil if the next record is not synced yet, or
// if its segment cannot be opened because all file descriptors are in use.
func (r *Reader) TryNext() (seq uint64, payload []byte, ok bool, err error) {
	if r.next.Load() > r.j.Synced() {
		return 0, nil, false, nil
	}
	seq, payload, err = r.read()
	if isNoDescriptor(err) {
		return 0, nil, false, nil
	}
	return seq, payload, err == nil, err
}

// read returns the next record, which must be synced.
func (r *Reader) read() (uint64, []byte, error) {
	seq := r.next.Load()
	r.buffer, r.pass = r.buffer[r.pass:], 0
	if seq > r.last {
		if err := r.locate(seq); err != nil {
			return 0, nil, fmt.Errorf("journal: find record %d: %w", seq, err)
		}
	}
	rec, err := r.record(seq)
	if err != nil {
		return 0, nil, fmt.Errorf("journal: read record %d: %w", seq, err)
	}
	r.pass = rec.size
	r.next.Store(seq + 1)
	return seq, rec.payload, nil
}

// locate finds the segment of record seq and how far it is synced. If it is not the segment that is
// open, locate opens it and skips to the record.
func (r *Reader) locate(seq uint64) error {
	r.j.mu.Lock()
	all := r.j.segments
	i := sort.Search(len(all), func(i int) bool { return all[i].first > seq }) - 1
	if i < 0 {
		r.j.mu.Unlock()
		return fmt.Errorf("%w: the oldest is %d", ErrGone, all[0].first)
	}
	s, last := all[i], r.j.synced.Load()
	if i+1 < len(all) {
		last = all[i+1].first - 1
	}
	r.j.mu.Unlock()
	if r.f == nil || s.first != r.segment.first {
		f, err := r.j.fs.open(s.path, os.O_RDONLY)
		if err != nil {
			return err
		}
		if r.f != nil {
			_ = r.f.Close()
		}
		begin := s.near(seq)
		r.f, r.segment, r.at, r.buffer = f, s, begin.at, nil
		for at := begin.seq; at < seq; at++ {
			rec, err := r.record(at)
			if err != nil {
				_ = r.f.Close()
				r.f = nil
				return err
			}
			r.buffer = r.buffer[rec.size:]
		}
	}
	r.segment, r.last = s, last
	return nil
}

// record returns record seq, which must be the next one in the buffer or the file.
func (r *Reader) record(seq uint64) (record, error) {
	for need := recordHeader; ; {
		if err := r.fill(need); err != nil {
			return record{}, err
		}
		if length := paddedLength(r.buffer); length > need {
			need = length
			continue
		}
		rec, ok := parseRecord(r.buffer)
		if !ok || rec.mark() || rec.seq != seq {
			return rec, r.segment.damaged(r.offset(), "record %d is not readable", seq)
		}
		return rec, nil
	}
}

// offset returns the offset of the buffer in the file.
func (r *Reader) offset() int { return int(r.at) - len(r.buffer) }

// fill reads until the buffer holds at least need bytes.
func (r *Reader) fill(need int) error {
	if len(r.buffer) >= need {
		return nil
	}
	want := int(min(int64(max(need, readBytes)), r.segment.end-int64(r.offset())))
	if want < need {
		return r.segment.damaged(r.offset(), "a record of %d bytes extends beyond the end of the records", need)
	}
	if cap(r.memory) < want {
		r.memory = make([]byte, max(want, readBytes))
	}
	n := copy(r.memory[:want], r.buffer)
	r.buffer = r.memory[:n]
	if _, err := r.f.ReadAt(r.memory[n:want], r.at); err != nil {
		return fmt.Errorf("%s: %w", r.segment.path, err)
	}
	r.at += int64(want - n)
	r.buffer = r.memory[:want]
	return nil
}
