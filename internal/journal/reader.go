package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// readBytes is how much a Reader reads at once, at the least.
const readBytes = 256 << 10

// Reader reads the synced records of an open journal in their order, also those
// that come while it reads. Its methods are for one goroutine.
type Reader struct {
	j       *Journal
	next    atomic.Uint64 // seq of the record that is read next
	segment segment       // the one that f is
	f       file
	at      int64  // where in f the bytes behind buffer go on
	buffer  []byte // read, and not yet handed out
	memory  []byte
	pass    int // size of the record that was handed out last
}

// NewReader returns a reader whose first record is seq, which may be yet to come.
// It returns ErrGone where seq is older than the oldest record. Close ends it.
func (j *Journal) NewReader(seq uint64) (*Reader, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq < j.segments[0].first {
		return nil, fmt.Errorf("%w: record %d, the oldest is %d", ErrGone, seq, j.segments[0].first)
	}
	r := &Reader{j: j}
	r.next.Store(seq)
	j.readers[r] = struct{}{}
	return r, nil
}

// Close lets the journal delete what the reader has not read.
func (r *Reader) Close() {
	r.j.mu.Lock()
	delete(r.j.readers, r)
	r.j.mu.Unlock()
	if r.f != nil {
		_ = r.f.Close()
		r.f = nil
	}
}

// Next returns the next record, as soon as it is synced. The payload is valid
// until the next call. The error is ctx's, the journal's failure or ErrClosed, or
// says what could not be read.
func (r *Reader) Next(ctx context.Context) (seq uint64, payload []byte, err error) {
	if err := r.j.Wait(ctx, r.next.Load()); err != nil {
		return 0, nil, err
	}
	return r.read()
}

// TryNext returns the next record if it is synced; ok tells. It does not wait.
func (r *Reader) TryNext() (seq uint64, payload []byte, ok bool, err error) {
	if r.next.Load() > r.j.Synced() {
		return 0, nil, false, nil
	}
	seq, payload, err = r.read()
	return seq, payload, err == nil, err
}

// read returns the next record, which is synced.
func (r *Reader) read() (uint64, []byte, error) {
	seq := r.next.Load()
	r.buffer, r.pass = r.buffer[r.pass:], 0
	s, limit, err := r.locate(seq)
	if err == nil && (r.f == nil || s != r.segment) {
		err = r.enter(s, seq)
	}
	var rec record
	if err == nil {
		rec, err = r.record(limit)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("journal: read record %d: %w", seq, err)
	}
	if rec.seq != seq {
		return 0, nil, &DamageError{r.segment.path, r.at - int64(len(r.buffer)), fmt.Sprintf("record %d is where record %d should be", rec.seq, seq)}
	}
	r.pass = rec.size
	r.next.Store(seq + 1)
	return seq, rec.payload, nil
}

// locate returns the segment that holds record seq, and where its synced bytes
// end; -1 stands for the end of the file.
func (r *Reader) locate(seq uint64) (s segment, limit int64, err error) {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	all := r.j.segments
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].first <= seq {
			if i == len(all)-1 {
				return all[i], r.j.end, nil
			}
			return all[i], -1, nil
		}
	}
	return s, 0, ErrGone
}

// enter opens a segment and goes to record seq.
func (r *Reader) enter(s segment, seq uint64) error {
	f, err := r.j.fs.open(s.path)
	if err != nil {
		return err
	}
	if r.f != nil {
		_ = r.f.Close()
	}
	r.f, r.segment, r.at, r.buffer = f, s, segmentHeader, nil
	for at := s.first; at < seq; at++ {
		_, limit, err := r.locate(seq)
		if err != nil {
			return err
		}
		rec, err := r.record(limit)
		if err != nil {
			return err
		}
		r.buffer = r.buffer[rec.size:]
	}
	return nil
}

// record returns the record at the front of the buffer, which it fills from the
// file up to limit where it has to.
func (r *Reader) record(limit int64) (record, error) {
	need := recordHeader
	for {
		if len(r.buffer) >= need {
			if length := padded(int(binary.LittleEndian.Uint32(r.buffer))); length > need {
				need = length
				continue
			}
			rec, ok := parseRecord(r.buffer)
			if !ok || rec.endMark() {
				return rec, &DamageError{r.segment.path, r.at - int64(len(r.buffer)), "the record is not readable"}
			}
			return rec, nil
		}
		if err := r.fill(need, limit); err != nil {
			return record{}, err
		}
	}
}

// fill reads until the buffer holds need bytes.
func (r *Reader) fill(need int, limit int64) error {
	if limit < 0 {
		size, err := r.f.size()
		if err != nil {
			return err
		}
		limit = size
	}
	want := int(min(int64(max(need, readBytes)), limit-r.at+int64(len(r.buffer))))
	if want < need {
		return &DamageError{r.segment.path, r.at - int64(len(r.buffer)), "the record is longer than the segment"}
	}
	if cap(r.memory) < want {
		r.memory = make([]byte, want)
	}
	n := copy(r.memory[:want], r.buffer)
	if _, err := r.f.ReadAt(r.memory[n:want], r.at); err != nil {
		return err
	}
	r.at += int64(want - n)
	r.buffer = r.memory[:want]
	return nil
}
