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

// newBatch begins a batch. Callers hold mu, or are alone.
func (j *Journal) newBatch(first uint64) *batch {
	b := &batch{first: first, last: first - 1, done: make(chan struct{})}
	if j.spare != nil {
		b.bytes, b.notify = j.spare.bytes[:0], j.spare.notify[:0]
		j.spare = nil
	}
	return b
}

// wakeUp sends to a channel that has room for one value, unless that is there.
func wakeUp(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// idleMark is how long nothing may come until the end is marked as it is by Close.
const idleMark = 100 * time.Millisecond

// flush is the flusher: it writes and syncs one batch after another until the
// journal is closed or fails. Nobody else writes records.
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
			continue // one mark is enough until something comes
		}
		// Goroutines that are ready to append do so first: fewer and larger syncs where the
		// processors are busy, and no wait where they are not.
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

// gather waits while more records may join the batch: see Options.Gather.
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

// flushBatch writes, syncs and publishes a batch.
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

// takeBatch takes what has gathered; nil where nothing has. What gathers from now
// on is the next batch. closing means that there will be none.
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

// write writes and syncs a batch: into one segment or, where it does not fit,
// into as many as it takes, each synced before the next is begun.
func (j *Journal) write(b *batch) error {
	for rest, seq := b.bytes, b.first; ; {
		n, records := fit(rest, j.size-j.at-recordHeader) // an end mark has to fit behind it
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

// put writes b at the end of the present segment. A file system that copies what is
// written over may have no room for it: put waits for that, until the journal is closed,
// and writes the same bytes in the same place. A write that was refused for lack of room
// has no other effect; nothing has been synced, so no failed sync is passed over.
func (j *Journal) put(b []byte) error {
	return j.untilRoom(byWrite, func() error {
		_, err := j.current.WriteAt(b, j.at)
		return err
	})
}

// wrote gives back the charge of n bytes that are written, and takes them from
// the present segment.
func (j *Journal) wrote(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.room.charged -= charge(n)
	j.room.tail -= int64(n)
	j.wakeClaims()
}

// paddedLength returns how many bytes the record at the front of b takes.
func paddedLength(b []byte) int { return padded(int(binary.LittleEndian.Uint32(b))) }

// fit returns how many bytes and whole records of b fit into room bytes.
func fit(b []byte, room int64) (n int, records uint64) {
	for n < len(b) && int64(n+paddedLength(b[n:])) <= room {
		n += paddedLength(b[n:])
		records++
	}
	return n, records
}

// rotate goes on in a new segment that begins with record first and has room for
// a record of need bytes. Everything before it is synced. While the disk is full
// it waits, until the journal is closed.
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

// takeSpare returns a segment of at least need bytes: the one that was made ahead,
// or one that is larger.
func (j *Journal) takeSpare(need int64) (s spare, err error) {
	if need <= j.options.SegmentBytes {
		if s, err = j.allocator.take(j.giveUp); err != nil || s.file != nil {
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

// beginAtOpen begins a segment before the flusher and the allocator are there. It does
// not wait for room. After an error the current segment is as it was.
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

// name gives a spare its header and then its name. Doing it again after an error
// writes the header anew: no sync is repeated for bytes that an earlier one lost.
func (j *Journal) name(s spare, first uint64) error {
	if _, err := s.WriteAt(segmentHead(j.id, j.options.Version, first, s.bytes), 0); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	return j.fs.rename(s.path, segmentPath(j.dir, first))
}

// begin goes on in a spare that has its name. It puts a mark behind the last record of
// the present segment.
func (j *Journal) begin(spare spare, first uint64, put func([]byte) error) error {
	// Only what failed to open the directory is tried again, never a sync that failed.
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
		j.segments = j.segments[:n-1] // it was empty, too small for the record, and is replaced
	} else if n > 0 {
		j.segments[n-1].end = j.at
	}
	j.segments = append(j.segments, segment{segmentPath(j.dir, first), first, segmentHeader})
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

// publish lets those who wait for the batch go on.
func (j *Journal) publish(b *batch) {
	j.mu.Lock()
	j.segments[len(j.segments)-1].end = j.at
	j.writing = nil
	j.synced.Store(b.last)
	j.mu.Unlock()
	b.finish()
	if cap(b.bytes) <= j.options.PendingBytesMax { // the memory of an oversize record is not kept
		j.mu.Lock()
		j.spare = b
		j.mu.Unlock()
	}
}

// markApart is what lies, at least, between the two end marks: a disk loses a
// sector or a page of the file, not both marks at once.
const markApart = 4096

// markEnd writes the end mark behind the last record, and syncs it.
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

// markSynced writes the end mark behind record last, which is synced and promised to
// nobody yet, if Options.MarkSyncs asks for it. It costs no sync: the mark is for damage
// that is found after the process was killed.
func (j *Journal) markSynced(last uint64) error {
	if !j.options.MarkSyncs {
		return nil
	}
	if _, err := j.writeMark(last); err != nil {
		return fmt.Errorf("mark the end at record %d: %w", last, err)
	}
	return nil
}

// writeMark writes the end mark behind record last, which is the last one, and once more
// further back where the segment has room. With one of them, damage to that record can be
// told from a batch that was torn by a crash. Where the disk has no room for a mark, there
// is none, and written is false.
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

// markRotation writes into the present segment that record first is in the next
// one, whose name is durable: should that be missing one day, it is missed.
func (j *Journal) markRotation(first uint64, put func([]byte) error) error {
	if err := put(appendRecord(nil, first-1, first, nil)); err != nil {
		return err
	}
	return j.current.sync()
}

// fail ends the journal: what is not synced by now is not durable.
func (j *Journal) fail(err error) {
	j.shut(fmt.Errorf("%w: %w", ErrFailed, err))
	close(j.failed)
}

// shut notes why nothing is appended any more and wakes all who wait.
func (j *Journal) shut(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
	j.pending.finish()
	j.wakeClaims()
}
