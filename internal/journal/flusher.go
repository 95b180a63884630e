package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// newBatch returns an empty batch that begins with record first. The caller holds mu, or no other
// goroutine uses j yet.
func (j *Journal) newBatch(first uint64) *batch {
	b := &batch{first: first, last: first - 1, done: make(chan struct{})}
	if j.spare != nil {
		b.bytes, b.notify = j.spare.bytes[:0], j.spare.notify[:0]
		j.spare = nil
	}
	return b
}

// wakeUp sends a value to a channel with a buffer of one, unless the buffer is full already.
func wakeUp(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// idleMark is how long the journal must be idle before the flusher writes an end mark.
const idleMark = 100 * time.Millisecond

// flush is the flusher: it writes and syncs one batch after another until the journal is closed or
// fails. No other goroutine writes records.
func (j *Journal) flush() {
	defer close(j.flushed)
	idle := time.NewTimer(idleMark)
	defer idle.Stop()
	for {
		select {
		case <-j.wake:
		case <-idle.C:
			if err := j.markEnd(); err != nil {
				j.fail(err)
				return
			}
			continue // one mark is enough until the next batch
		}
		// Yield, so that goroutines that are ready to append do so first. On busy processors this leads to fewer and larger
		// syncs; on idle ones it causes no delay.
		runtime.Gosched()
		j.gather()
		b, closing := j.takeBatch()
		if b != nil {
			if err := j.flushBatch(b); err != nil {
				j.fail(err)
				b.finish()
				return
			}
			idle.Reset(idleMark)
		}
		if closing {
			j.markErr = j.markEnd()
			j.shut(ErrClosed)
			return
		}
	}
}

// gather waits up to Options.Gather for more records to join the batch.
func (j *Journal) gather() {
	if j.options.Gather <= 0 {
		return
	}
	timer := time.NewTimer(j.options.Gather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-j.full:
	case <-j.giveUp:
	}
}

// flushBatch writes and syncs a batch and then publishes it.
func (j *Journal) flushBatch(b *batch) error {
	start := time.Now()
	if err := j.write(b); err != nil {
		return err
	}
	if err := j.markSynced(b.last); err != nil {
		return err
	}
	took, records, bytes := time.Since(start), int(b.last+1-b.first), len(b.bytes)
	j.publish(b)
	if j.options.OnSync != nil {
		j.options.OnSync(records, bytes, took)
	}
	return nil
}

// takeBatch returns the pending batch, or nil if it is empty, and starts a new one. If closing is
// true, there will be no further batch.
func (j *Journal) takeBatch() (b *batch, closing bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.pending.bytes) > 0 {
		b = j.pending
		j.writing = b
		j.pending = j.newBatch(b.last + 1)
		j.wakeClaims()
	}
	return b, j.closing
}

// write writes and syncs a batch. If the batch does not fit into the current segment, it is split
// over as many segments as needed; each part is synced before the next one is begun.
func (j *Journal) write(b *batch) error {
	for rest, seq := b.bytes, b.first; ; {
		n, records := fit(rest, j.size-j.at-recordHeader) // leaves room for an end mark
		if n > 0 {
			if err := j.put(rest[:n]); err != nil {
				return fmt.Errorf("write records %d to %d: %w", b.first, b.last, err)
			}
			if err := j.current.sync(); err != nil {
				return fmt.Errorf("sync records %d to %d: %w", b.first, b.last, err)
			}
			j.at += int64(n)
			seq += records
			j.wrote(n)
		}
		if rest = rest[n:]; len(rest) == 0 {
			return nil
		}
		if err := j.rotate(seq, paddedLength(rest)); err != nil {
			return fmt.Errorf("begin a segment at record %d: %w", seq, err)
		}
	}
}

// put writes b at the end of the current segment. A copy-on-write file system may have no room for
// that, although the bytes are allocated; then put retries the same write until it succeeds or the
// journal is closed. Retrying is safe: a write that was refused for lack of room has no other effect,
// and nothing was synced in between, so no failed sync goes unnoticed.
func (j *Journal) put(b []byte) error {
	return j.untilRoom(byWrite, func() error {
		_, err := j.current.WriteAt(b, j.at)
		return err
	})
}

// wrote accounts for n bytes that were written: their charge is released, and n bytes less are left in the current
// segment.
func (j *Journal) wrote(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.room.charged -= charge(n)
	j.room.tail -= int64(n)
	j.wakeClaims()
}

// paddedLength returns the size, with padding, of the record at the front of b.
func paddedLength(b []byte) int { return padded(int(binary.LittleEndian.Uint32(b))) }

// fit returns how many whole records from the front of b fit into room bytes, and their size n.
func fit(b []byte, room int64) (n int, records uint64) {
	for n < len(b) && int64(n+paddedLength(b[n:])) <= room {
		n += paddedLength(b[n:])
		records++
	}
	return n, records
}

// rotate switches to a new segment that begins with record first and has room for a record of need
// bytes. All earlier records are synced. While the disk is full, rotate waits; Close ends that.
func (j *Journal) rotate(first uint64, need int) error {
	s, err := j.takeSpare(int64(segmentHeader + need + recordHeader))
	if err != nil {
		return err
	}
	if err := j.untilRoom(byFlusher, func() error { return j.name(s, first) }); err != nil {
		return errors.Join(err, s.Close())
	}
	return j.begin(s, first, j.put)
}

// takeSpare returns a segment of at least need bytes: the allocator's spare if that is large enough,
// otherwise a new, larger one.
func (j *Journal) takeSpare(need int64) (s spare, err error) {
	if need <= j.options.SegmentBytes {
		if s, err = j.allocator.next(j.giveUp); err != nil || s.file != nil {
			return s, err
		}
		err = j.untilRoom(byFlusher, func() error {
			s.file, err = j.fs.open(s.path, os.O_RDWR)
			return err
		})
		return s, err
	}
	err = j.untilRoom(byFlusher, func() error {
		s, err = makeSpare(j.fs, filepath.Join(j.dir, "large"+spareSuffix), need)
		return err
	})
	return s, err
}

// beginAtOpen begins a segment before the flusher and the allocator run. It does not wait for disk
// room. After an error the current segment is unchanged.
func (j *Journal) beginAtOpen(first uint64) error {
	s, err := makeSpare(j.fs, filepath.Join(j.dir, "first"+spareSuffix), j.options.SegmentBytes)
	if err != nil {
		return err
	}
	if err := j.name(s, first); err != nil {
		return errors.Join(err, s.Close())
	}
	return j.begin(s, first, func(b []byte) error {
		_, err := j.current.WriteAt(b, j.at)
		return err
	})
}

// name writes the header of a spare, syncs it, and renames the file to its segment name. It may be
// called again after an error: it then rewrites the header before it syncs, so it never relies on
// repeating a failed sync.
func (j *Journal) name(s spare, first uint64) error {
	if _, err := s.WriteAt(segmentHead(j.id, j.options.Version, first, s.bytes), 0); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	return j.fs.rename(s.path, segmentPath(j.dir, first))
}

// begin switches to a spare that already has its segment name. It ends the current segment with a
// mark that says that another one follows.
func (j *Journal) begin(spare spare, first uint64, put func([]byte) error) error {
	// Only a failure to open the directory is retried, never a failed sync.
	if err := j.until(byFlusher, isNoDescriptor, func() error { return j.fs.syncDir(j.dir) }); err != nil {
		return errors.Join(err, spare.Close())
	}
	if j.at > segmentHeader {
		if err := j.markRotation(first, put); err != nil {
			return errors.Join(err, spare.Close())
		}
	}
	j.mu.Lock()
	if n := len(j.segments); n > 0 && j.segments[n-1].first == first {
		j.segments = j.segments[:n-1] // the current segment is empty but too small: the new one replaces it
	} else if n > 0 {
		j.segments[n-1].end = j.at
	}
	j.segments = append(j.segments, segment{path: segmentPath(j.dir, first), first: first, end: segmentHeader})
	j.room.tail = spare.bytes - segmentHeader - recordHeader
	if spare.ahead {
		j.room.spares--
		wakeUp(j.allocator.recheck)
	}
	j.mu.Unlock()
	old := j.current
	j.current, j.at, j.size = spare, segmentHeader, spare.bytes
	if old == nil {
		return nil
	}
	return old.Close()
}

// publish marks the batch as synced and wakes all that wait for it.
func (j *Journal) publish(b *batch) {
	j.mu.Lock()
	last := &j.segments[len(j.segments)-1]
	last.end = j.at
	last.mark(b.last+1, j.at)
	j.writing = nil
	j.synced.Store(b.last)
	j.mu.Unlock()
	b.finish()
	if cap(b.bytes) <= j.options.PendingBytesMax { // memory of an oversize batch is not reused
		j.mu.Lock()
		j.spare = b
		j.mu.Unlock()
	}
}

// markApart is the page size, in bytes: the second end mark is at the start of the page after the
// first one. A disk that loses one sector or page of the file does not lose both marks.
const markApart = 4096

// markEnd writes the end mark after the last record and syncs it.
func (j *Journal) markEnd() error {
	last := j.synced.Load()
	written, err := j.writeMark(last)
	if err == nil && written {
		err = j.current.sync()
	}
	if err != nil {
		return fmt.Errorf("mark the end at record %d: %w", last, err)
	}
	return nil
}

// markSynced writes the end mark after record last if Options.MarkSyncs is set. The record is synced
// but not reported as synced yet. The mark itself is not synced: it protects against damage that is
// found after the process was killed, not after a power cut.
func (j *Journal) markSynced(last uint64) error {
	if !j.options.MarkSyncs {
		return nil
	}
	if _, err := j.writeMark(last); err != nil {
		return fmt.Errorf("mark the end at record %d: %w", last, err)
	}
	return nil
}

// writeMark writes the end mark after record last, the last one of the journal, and a second copy at
// the start of the next page if the segment has room. Either copy allows recovery to distinguish
// damage to that record from a batch torn by a crash. If the disk has no room for a mark, written is
// false and err is nil.
func (j *Journal) writeMark(last uint64) (written bool, err error) {
	mark := appendRecord(nil, last, last, nil)
	_, err = j.current.WriteAt(mark, j.at)
	if again := (j.at + recordHeader + markApart - 1) / markApart * markApart; err == nil && again+recordHeader <= j.size {
		_, err = j.current.WriteAt(mark, again)
	}
	if isNoRoom(err) {
		return false, nil
	}
	return err == nil, err
}

// markRotation writes a mark into the current segment that says that record first is in the next segment, whose name
// is already durable. If that file is ever missing, the mark makes Open notice it.
func (j *Journal) markRotation(first uint64, put func([]byte) error) error {
	if err := put(appendRecord(nil, first-1, first, nil)); err != nil {
		return err
	}
	return j.current.sync()
}

// fail ends the journal after err: records that are not synced by now are not durable.
func (j *Journal) fail(err error) {
	j.shut(fmt.Errorf("%w: %w", ErrFailed, err))
	close(j.failed)
}

// shut records the reason why nothing can be appended any more and wakes all waiting goroutines.
func (j *Journal) shut(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
	j.pending.finish()
	j.wakeClaims()
}
