package journal

import (
	"errors"
	"fmt"
	"time"
)

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
			j.publish(b)
			if j.options.OnSync != nil {
				j.options.OnSync(int(b.last+1-b.first), len(b.bytes), time.Since(start))
			}
		}
		if closing {
			j.finish()
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
	rest, seq := b.bytes, b.first
	for {
		n, records := fit(rest, j.size-j.at)
		if n > 0 {
			if _, err := j.current.WriteAt(rest[:n], j.at); err != nil {
				return fmt.Errorf("journal: write records %d to %d: %w", b.first, b.last, err)
			}
			if err := j.current.sync(); err != nil {
				return fmt.Errorf("journal: sync records %d to %d: %w", b.first, b.last, err)
			}
			j.at += int64(n)
			seq += uint64(records)
		}
		if rest = rest[n:]; len(rest) == 0 {
			return nil
		}
		r, _ := parseRecord(rest)
		if err := j.rotate(seq, r.size); err != nil {
			return fmt.Errorf("journal: begin a segment at record %d: %w", seq, err)
		}
	}
}

// fit returns how many bytes and whole records of b fit into room bytes.
func fit(b []byte, room int64) (n, records int) {
	for n < len(b) {
		length := int(uint32(b[n]) | uint32(b[n+1])<<8 | uint32(b[n+2])<<16 | uint32(b[n+3])<<24)
		if int64(n+padded(length)) > room {
			break
		}
		n += padded(length)
		records++
	}
	return n, records
}

// rotate goes on in a new segment that begins with record first and has room for
// a record of need bytes. Everything before it is synced.
func (j *Journal) rotate(first uint64, need int) error {
	f, path, size, err := j.allocator.take(int64(segmentHeader + need))
	if err != nil {
		return err
	}
	s := segment{segmentPath(j.dir, first), first}
	_, err = f.WriteAt(appendHeader(nil, j.id, first), 0)
	if err == nil {
		err = f.sync()
	}
	if err == nil {
		err = j.fs.rename(path, s.path)
	}
	if err == nil {
		err = j.fs.syncDir(j.dir)
	}
	j.allocator.prepare()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if j.current != nil {
		err = j.current.Close()
	}
	j.current, j.at, j.size = f, segmentHeader, size
	j.mu.Lock()
	j.segments, j.end = append(j.segments, s), j.at
	j.mu.Unlock()
	return err
}

// publish lets those who wait for the batch go on.
func (j *Journal) publish(b *batch) {
	j.mu.Lock()
	j.end = j.at
	j.writing = nil
	j.spare = b.bytes
	j.synced.Store(b.last)
	j.mu.Unlock()
	close(b.done)
}

// finish marks the end of a journal that is closed in order. A mark that cannot
// be written is only missed.
func (j *Journal) finish() {
	last := j.synced.Load()
	if mark := appendRecord(nil, last, last, nil); j.at+int64(len(mark)) <= j.size {
		if _, err := j.current.WriteAt(mark, j.at); err == nil {
			_ = j.current.sync()
		}
	}
	j.shut(ErrClosed)
}

// fail ends the journal: what b holds, and all that comes after it, is not durable.
func (j *Journal) fail(b *batch, err error) {
	j.shut(err)
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
