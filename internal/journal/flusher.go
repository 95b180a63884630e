package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// newBatch begins a batch. Callers hold mu, or are alone.
func (j *Journal) newBatch(first uint64) *batch {
	b := &batch{first: first, last: first - 1, bytes: j.spare[:0], done: make(chan struct{})}
	j.spare = nil
	return b
}

// rouse tells the flusher that there is something to do.
func (j *Journal) rouse() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// flush is the flusher: it writes and syncs one batch after another until the
// journal is closed or fails. Nobody else writes records.
func (j *Journal) flush() {
	defer close(j.flushed)
	for range j.wake {
		b, closing := j.takeBatch()
		if b != nil {
			start := time.Now()
			if err := j.write(b); err != nil {
				j.fail(b, err)
				return
			}
			took, records, bytes := time.Since(start), int(b.last+1-b.first), len(b.bytes)
			j.publish(b)
			if j.options.OnSync != nil {
				j.options.OnSync(records, bytes, took)
			}
		}
		if closing {
			j.markErr = j.markEnd()
			j.shut(ErrClosed)
			return
		}
	}
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
		j.space.Broadcast()
	}
	return b, j.closing
}

// write writes and syncs a batch: into one segment or, where it does not fit,
// into as many as it takes, each synced before the next is begun.
func (j *Journal) write(b *batch) error {
	for rest, seq := b.bytes, b.first; ; {
		n, records := fit(rest, j.size-j.at-recordHeader) // an end mark has to fit behind it
		if n > 0 {
			if _, err := j.current.WriteAt(rest[:n], j.at); err != nil {
				return fmt.Errorf("write records %d to %d: %w", b.first, b.last, err)
			}
			if err := j.current.sync(); err != nil {
				return fmt.Errorf("sync records %d to %d: %w", b.first, b.last, err)
			}
			j.at += int64(n)
			seq += records
		}
		if rest = rest[n:]; len(rest) == 0 {
			return nil
		}
		if err := j.rotate(seq, paddedLength(rest)); err != nil {
			return fmt.Errorf("begin a segment at record %d: %w", seq, err)
		}
	}
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
// a record of need bytes. Everything before it is synced.
func (j *Journal) rotate(first uint64, need int) error {
	spare, err := j.allocator.take(int64(segmentHeader + need + recordHeader))
	if err != nil {
		return err
	}
	s := segment{segmentPath(j.dir, first), first, segmentHeader}
	_, err = spare.WriteAt(segmentHead(j.id, first, spare.bytes), 0)
	if err == nil {
		err = spare.sync()
	}
	if err == nil {
		err = j.fs.rename(spare.path, s.path)
	}
	if err == nil {
		err = j.fs.syncDir(j.dir)
	}
	if err != nil {
		return errors.Join(err, spare.Close())
	}
	j.mu.Lock()
	if n := len(j.segments); n > 0 && j.segments[n-1].first == first {
		j.segments = j.segments[:n-1] // it was empty, too small for the record, and s has replaced it
	} else if n > 0 {
		j.segments[n-1].end = j.at
	}
	j.segments = append(j.segments, s)
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
	if cap(b.bytes) <= j.options.PendingBytesMax { // the memory of an oversize record is not kept
		j.spare = b.bytes
	}
	j.synced.Store(b.last)
	j.mu.Unlock()
	close(b.done)
}

// markEnd writes the end mark of a journal that is closed in order.
func (j *Journal) markEnd() error {
	last := j.synced.Load()
	_, err := j.current.WriteAt(appendRecord(nil, last, last, nil), j.at)
	if err == nil {
		err = j.current.sync()
	}
	if err != nil {
		return fmt.Errorf("journal: mark the end at record %d: %w", last, err)
	}
	return nil
}

// fail ends the journal: what b holds, and all that comes after it, is not durable.
func (j *Journal) fail(b *batch, err error) {
	j.shut(fmt.Errorf("%w: %w", ErrFailed, err))
	close(b.done)
	close(j.failed)
}

// shut notes why nothing is appended any more and wakes all who wait.
func (j *Journal) shut(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
	close(j.pending.done)
	j.space.Broadcast()
}
