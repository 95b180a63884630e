package raftlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

// ErrNone is returned by Open for a directory that holds no log if Options.Found is nil.
var ErrNone = errors.New("raftlog: there is no log of a cluster")

const (
	segmentBytes = 16 << 20 // of Options.SegmentBytes that is 0
	pendingMax   = 16 << 20 // what waits in memory to be written, and what of it is kept for the next Write

	// recordFraction of a segment is how large a record may be to get one more item.
	recordFraction = 4

	// What is kept is written once more if it is larger than so many segments and twice
	// the entries in it: then at most half of the bytes that are written are for that.
	slackSegments = 4
)

// Options set up a log.
type Options struct {
	SegmentBytes int64      // size of the journal's segments; 0 is 16 MiB
	Found        *core.Mark // where a log begins that is not there yet; nil if it must be there

	// OnWrite is told, after each Write, how many bytes it was and how long it took until they
	// were synced; nil is nobody. See Log.Writing for the one that is under way.
	OnWrite func(bytes int, took time.Duration)
}

// Log is an open data/raft. Write is for one goroutine; the other methods may be called
// from any.
type Log struct {
	options Options
	dir     string
	journal *journal.Journal
	writing atomic.Pointer[time.Time] // when the Write under way began; nil if none is

	// For the goroutine that writes.
	writer writer
	err    error // why nothing can be written any more
}

// Open opens the log in dir, or founds one at o.Found, with a new identity. A log that is
// there is not changed by o.Found. The error is ErrNone, or that of journal.Open, which
// names damage (*journal.DamageError) and a version that is too new (*journal.VersionError),
// or a *ContentError if the records are those of no log.
func Open(dir string, o Options) (*Log, core.Durable, error) {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = segmentBytes
	}
	there, err := journal.Exists(dir)
	if err != nil {
		return nil, core.Durable{}, fmt.Errorf("raftlog: %w", err)
	}
	if !there && o.Found == nil {
		return nil, core.Durable{}, fmt.Errorf("%w in %s", ErrNone, dir)
	}
	j, err := journal.Open(dir, journal.Options{Version: Version, SegmentBytes: o.SegmentBytes,
		PendingBytesMax: pendingMax, MarkSyncs: true})
	if err != nil {
		return nil, core.Durable{}, fmt.Errorf("raftlog: %w", err)
	}
	l := &Log{options: o, dir: dir, journal: j, writer: writer{state: newState(), next: j.Appended() + 1,
		recordBytes: int(o.SegmentBytes / recordFraction), out: func(record []byte) error {
			_, err := j.Append(record)
			return err
		}}}
	if j.Appended() == 0 { // also where the power went out before the first record was durable
		err = l.found()
	} else {
		err = l.recover()
	}
	if err != nil {
		return nil, core.Durable{}, errors.Join(err, j.Close())
	}
	return l, l.writer.state.durable(), nil
}

// found writes the first record.
func (l *Log) found() error {
	if l.options.Found == nil {
		return fmt.Errorf("%w in %s", ErrNone, l.dir)
	}
	rand.Read(l.writer.state.self[:]) // never fails
	if err := l.Write([]*core.Write{{Mark: l.options.Found}}); err != nil {
		return fmt.Errorf("raftlog: found a log in %s: %w", l.dir, err)
	}
	return nil
}

// recover reads all records.
func (l *Log) recover() error {
	r, err := l.journal.NewReader(l.journal.First())
	if err != nil {
		return fmt.Errorf("raftlog: %w", err)
	}
	defer r.Close()
	for seq := uint64(0); seq < l.journal.Synced(); {
		var record []byte
		if seq, record, err = r.Next(context.Background()); err != nil {
			return fmt.Errorf("raftlog: %w", err)
		}
		if err := l.writer.state.takeRecord(record, place{seq, l.writer.at}); err != nil {
			return &ContentError{Dir: l.dir, Seq: seq, Err: err}
		}
		l.writer.at += int64(len(record))
	}
	if err := l.writer.state.check(); err != nil {
		return &ContentError{Dir: l.dir, Seq: l.journal.Synced(), Err: err}
	}
	return nil
}

// ContentError says that records are whole, and no sequence of writes leaves them.
type ContentError struct {
	Dir string
	Seq uint64 // of the record that does not fit
	Err error  // why
}

// Error names the directory, the record and the reason.
func (e *ContentError) Error() string {
	return fmt.Sprintf("raftlog: record %d of %s: %v", e.Seq, e.Dir, e.Err)
}

// Unwrap returns the reason.
func (e *ContentError) Unwrap() error { return e.Err }

// Write writes all of them, in their order, and returns once they are synced; those that
// have no After may stay in memory until others follow that have. It keeps the
// entries, which must not change any more. After an error, which is the journal's failure or
// says what of a Write does not follow what was written before, nothing may be told of any
// of them, every later Write returns it as well, and a front of them may be on the disk.
func (l *Log) Write(all []*core.Write) error {
	if l.err != nil {
		return l.err
	}
	start := time.Now()
	l.writing.Store(&start)
	defer l.writing.Store(nil)
	before := l.writer.at
	if err := l.write(all); err != nil {
		l.err = fmt.Errorf("raftlog: %w", err)
		return l.err
	}
	if l.options.OnWrite != nil {
		l.options.OnWrite(int(l.writer.at-before), time.Since(start))
	}
	return nil
}

func (l *Log) write(all []*core.Write) error {
	w := &l.writer
	marked, awaited := false, false
	for _, one := range all {
		if err := w.put(one); err != nil {
			return err
		}
		marked, awaited = marked || one.Mark != nil, awaited || len(one.After) > 0
	}
	if kept := w.kept(); kept > slackSegments*l.options.SegmentBytes && kept > 2*w.state.bytes {
		if err := w.putAgain(); err != nil {
			return err
		}
		marked = true
	}
	if !marked && !awaited && len(w.record) < w.recordBytes {
		return nil // it goes with what somebody waits for
	}
	if err := w.cut(); err != nil {
		return err
	}
	if err := l.journal.Wait(context.Background(), l.journal.Appended()); err != nil || !marked {
		return err
	}
	return l.journal.RemoveBefore(w.state.oldest.seq)
}

// Writing returns when the Write under way began; zero if none is.
func (l *Log) Writing() time.Time {
	if start := l.writing.Load(); start != nil {
		return *start
	}
	return time.Time{}
}

// Room returns why the disk has no room for what comes next, nil while it has: see
// journal.Journal.Room. A Write waits for it.
func (l *Log) Room() error { return l.journal.Room() }

// Close ends a Write under way with an error, marks the end, and gives the directory free.
// What no After waited for may be lost.
// The error is the journal's failure, or says what could not be closed.
func (l *Log) Close() error {
	if err := l.journal.Close(); err != nil {
		return fmt.Errorf("raftlog: %w", err)
	}
	return nil
}
