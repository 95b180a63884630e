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

// readBytes is how much a Reader reads at once, at the least.
const readBytes = 256 << 10

// Reader reads the synced records of an open journal in their order, also those
// that come while it reads. Its methods, except Hold, are for one goroutine.
type Reader struct {
	j       *Journal
	holdMax uint64        // how many records it may keep from being deleted; guarded by j.mu
	next    atomic.Uint64 // seq of the record that is read next
	segment segment       // the one that f is, up to where it was synced when last looked at
	last    uint64        // seq of the record that ends at segment.end, if it is known
	f       file
	at      int64  // where in f the bytes behind buffer go on
	buffer  []byte // read, and not yet handed out
	memory  []byte
	pass    int // size of the record that was handed out last
}

// NewReader returns a reader whose first record is seq, which may be yet to come.
// It returns ErrGone where seq is older than the oldest record. The journal keeps
// what the reader has not read; Close ends that.
func (j *Journal) NewReader(seq uint64) (*Reader, error) {
	return j.NewFollower(seq, math.MaxUint64)
}

// NewFollower is NewReader for callers who must not stand in the way: the journal keeps no
// more than the newest holdMax records for it. One that falls further behind gets
// ErrGone when it comes to what is no longer there.
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

// Hold changes how many of the newest records the journal keeps for a follower, at the
// most. It may be called from any goroutine.
func (r *Reader) Hold(holdMax uint64) {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	r.holdMax = holdMax
}

// FirstWithin returns the seq of the first record of the oldest segment that is kept and,
// with all behind it, has at most so many bytes; the last segment counts in any case.
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

// holds returns the seq of the oldest record that the journal has to keep for it. The
// caller holds j.mu.
func (r *Reader) holds() uint64 {
	synced := r.j.Synced()
	return max(r.next.Load(), synced-min(synced, r.holdMax)+1)
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

// Next returns the next record, as soon as it is synced and its segment can be opened:
// it waits while the process has as many files open as it may. The payload is valid
// until the next call. The error is ctx's, the journal's failure or ErrClosed, or
// says what could not be read; the reader has not moved then.
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

// TryNext is Next without waiting: ok is false, without an error, where the next
// record is not synced yet, or its segment cannot be opened now.
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

// read returns the next record, which is synced.
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

// locate looks up how far the segment of record seq is synced and, where that is
// another one than before, opens it and goes to the record.
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
		r.f, r.segment, r.at, r.buffer = f, s, segmentHeader, nil
		for at := s.first; at < seq; at++ {
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

// record returns record seq, which is at the front of the buffer or of what
// follows it in the file.
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

// offset returns where in the file the buffer begins.
func (r *Reader) offset() int { return int(r.at) - len(r.buffer) }

// fill reads until the buffer holds need bytes.
func (r *Reader) fill(need int) error {
	if len(r.buffer) >= need {
		return nil
	}
	want := int(min(int64(max(need, readBytes)), r.segment.end-int64(r.offset())))
	if want < need {
		return r.segment.damaged(r.offset(), "a record of %d bytes ends behind the last record", need)
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
