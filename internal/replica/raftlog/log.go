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

// ErrNone is returned by Open if the directory holds no log and Options.Found is nil.
var ErrNone = errors.New("raftlog: there is no log of a cluster")

const (
	segmentBytes = 16 << 20 // default of Options.SegmentBytes
	// pendingMax limits the data that waits to be written, and the buffer kept for the next Write.
	pendingMax = 16 << 20

	// recordFraction determines when a record gets no more items: at 1/recordFraction of a segment.
	recordFraction = 4

	// The kept records are written once more if they are larger than this many segments and twice
	// the entries in them. So this causes at most half of all bytes written.
	slackSegments = 4
)

// Options configure a log.
type Options struct {
	SegmentBytes int64      // size of the journal's segments; 0 means 16 MiB
	Found        *core.Mark // start of a new log; if nil, the log must exist

	// OnWrite is called after each Write with its size and the time until it was synced. It may be
	// nil. See Log.Writing for a Write in progress.
	OnWrite func(bytes int, took time.Duration)
}

// Log is an open data/raft. Write must be called from one goroutine; the other methods may be
// called from any.
type Log struct {
	options Options
	dir     string
	journal *journal.Journal
	writing atomic.Pointer[time.Time] // start of the Write in progress; nil if no Write is in progress

	// The fields below are used only by the goroutine that calls Write.
	writer writer
	err    error // the reason why no further Write is possible
}

// Open opens the log in dir. If it does not exist, Open founds one at o.Found with a new identity.
// o.Found does not change an existing log. The error is ErrNone, that of journal.Open, which
// reports damage (*journal.DamageError) and a version that is too new (*journal.VersionError), or a
// *ContentError if the records cannot be those of a log.
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
	if j.Appended() == 0 { // the log is new, or the power was cut before the first record was durable
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
		if err := l.writer.state.applyRecord(record, place{seq, l.writer.at}); err != nil {
			return &ContentError{Dir: l.dir, Seq: seq, Err: err}
		}
		l.writer.at += int64(len(record))
	}
	if err := l.writer.state.check(); err != nil {
		return &ContentError{Dir: l.dir, Seq: l.journal.Synced(), Err: err}
	}
	return nil
}

// ContentError reports that the records are undamaged but no sequence of writes can produce them.
type ContentError struct {
	Dir string
	Seq uint64 // seq of the first wrong record
	Err error  // what is wrong with it
}

// Error names the directory, the record and the reason.
func (e *ContentError) Error() string {
	return fmt.Sprintf("raftlog: record %d of %s: %v", e.Seq, e.Dir, e.Err)
}

// Unwrap returns the reason.
func (e *ContentError) Unwrap() error { return e.Err }

// Write writes the given Writes in order and returns once they are synced. Writes without After may
// stay in memory until later ones have After. Write keeps the entries, which must not change. An
// error is the journal's failure, or says which write does not follow from the earlier ones. Then
// the messages in After must not be sent, every later Write returns the same error, and some of the
// first writes may be on disk.
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
		return nil // stays in memory until a later Write has After or Mark, or the record is full
	}
	if err := w.cut(); err != nil {
		return err
	}
	if err := l.journal.Wait(context.Background(), l.journal.Appended()); err != nil || !marked {
		return err
	}
	return l.journal.RemoveBefore(w.state.oldest.seq)
}

// Writing returns the start of the Write in progress, or the zero time if no Write is in progress.
func (l *Log) Writing() time.Time {
	if start := l.writing.Load(); start != nil {
		return *start
	}
	return time.Time{}
}

// Room returns nil if the disk has room for further writes, otherwise the reason why not; see
// journal.Journal.Room. A Write waits until there is room.
func (l *Log) Room() error { return l.journal.Room() }

// Close makes a Write in progress fail, marks the end of the log, and unlocks the directory. Writes
// without After may be lost. The error is the journal's failure, or says what could not be closed.
func (l *Log) Close() error {
	if err := l.journal.Close(); err != nil {
		return fmt.Errorf("raftlog: %w", err)
	}
	return nil
}
