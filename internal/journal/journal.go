package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options set up a journal. The zero value of each but Version means its default.
type Options struct {
	// Version is the newest version of records that the caller reads, and the one that it
	// writes: whatever adds to what a record may hold raises it. It has to be given. It
	// stands in each segment, and a program that reads only older ones refuses that.
	Version uint32

	FirstSeq        uint64 // seq of the first record, where the directory holds no journal yet; 1
	SegmentBytes    int64  // size of a segment; 64 MiB
	PendingBytesMax int    // what may wait to be written before Append waits; 64 MiB

	// Gather is how long records gather before they are written and synced, unless an Append
	// waits for that or the journal is closed; 0 is not at all. MarkSyncs writes an end mark
	// behind each batch that is synced, before anybody is told of it: from then on damage in
	// it is not taken for a torn write.
	Gather    time.Duration
	MarkSyncs bool

	// OnSync is told of each batch, by the flusher, how many records and bytes it
	// held and how long writing and syncing it took; nil means nobody wants to know.
	OnSync func(records, bytes int, took time.Duration)
}

// RecordBytesMax bounds one record. One that is larger than a segment gets a
// segment of its own size.
const RecordBytesMax = 1 << 30

// Errors of a journal.
var (
	ErrClosed         = errors.New("journal: closed")
	ErrFailed         = errors.New("journal: failed")
	ErrGone           = errors.New("journal: the record is no longer there")
	ErrTooLarge error = &noClaim{"journal: the record is too large", false}
	ErrNoRoom   error = &noClaim{"journal: no room for the next segment", true}
)

// noClaim is what the error of a claim wraps that leaves the journal as it was.
type noClaim struct {
	text   string
	noRoom bool
}

// Error returns the text.
func (r *noClaim) Error() string { return r.text }

// NoRoom reports whether a later try may find room; otherwise none ever does.
func (r *noClaim) NoRoom() bool { return r.noRoom }

// Journal is an open journal. Its methods may be called from any goroutine.
type Journal struct {
	options   Options
	fs        fileSystem
	dir       string
	id        [16]byte
	lock      *DirLock
	allocator *allocator

	appended, synced atomic.Uint64

	removing sync.Mutex // held by RemoveBefore, over the deletion of files
	unsynced bool       // a deletion is not durable yet; guarded by removing

	// mu guards what follows.
	mu       sync.Mutex
	pending  *batch     // gathers records
	writing  *batch     // is being written; nil between batches
	space    *sync.Cond // signaled when there may be more room, in memory or on the disk
	room     room
	segments []segment
	readers  map[*Reader]struct{}
	closing  bool
	err      error // why the journal has failed, or ErrClosed

	wake    chan struct{} // holds a value when pending may not be empty
	full    chan struct{} // holds a value when an Append has waited for pending to be written
	giveUp  chan struct{} // closed by Close: the flusher waits no more for room
	failed  chan struct{} // closed with err set by a failure
	flushed chan struct{} // closed when the flusher has ended

	// The flusher's own, until it has ended.
	current  file
	at, size int64  // where the next record goes in current, and its size
	spare    *batch // whose memory is used again; guarded by mu
	markErr  error  // why there is no end mark
}

// batch is a run of records that are written and synced together.
type batch struct {
	first, last uint64
	bytes       []byte
	done        chan struct{} // closed when the batch is synced, or never will be
	notify      []chan<- struct{}
}

// finish tells all who wait that the batch is synced, or never will be.
func (b *batch) finish() {
	close(b.done)
	for _, wake := range b.notify {
		wakeUp(wake)
	}
}

// Open opens the journal in dir, which it makes where it is not there. It locks
// the directory, checks every record, and cuts the torn tail of a crash. A
// *DamageError or *VersionError names what it refuses, and then no record is changed;
// another error says that the directory is in use, that o has no version, or what could
// not be read or written.
func Open(dir string, o Options) (*Journal, error) {
	if o.Version == 0 {
		return nil, fmt.Errorf("journal: open %s: the options name no version of records", dir)
	}
	lock, err := Lock(dir)
	if err != nil {
		return nil, err
	}
	j, err := open(disk{}, dir, o)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	j.lock = lock
	return j, nil
}

// open is Open on any file system, without the lock.
func open(fs fileSystem, dir string, o Options) (*Journal, error) {
	o.FirstSeq = max(o.FirstSeq, 1)
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	o.SegmentBytes = max(o.SegmentBytes, segmentHeader+recordHeader)
	if o.PendingBytesMax <= 0 {
		o.PendingBytesMax = 64 << 20
	}
	r, current, err := recoverDir(fs, dir, o.Version)
	if err != nil {
		return nil, err
	}
	j := &Journal{options: o, fs: fs, dir: dir, id: r.id, segments: r.segments,
		readers: make(map[*Reader]struct{}), wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
		giveUp: make(chan struct{}), failed: make(chan struct{}), flushed: make(chan struct{}), current: current,
		room: newRoom(o.SegmentBytes)}
	j.space = sync.NewCond(&j.mu)
	if current == nil {
		r.next = o.FirstSeq
		rand.Read(j.id[:]) // never fails
		if err := j.beginAtOpen(r.next); err != nil {
			return nil, fmt.Errorf("journal: make the first segment in %s: %w", dir, err)
		}
	} else {
		j.at, j.size = r.segments[len(r.segments)-1].end, int64(len(r.bytes))
		if err := j.renew(r); err != nil {
			err = errors.Join(err, j.current.Close())
			return nil, fmt.Errorf("journal: make a segment of version %d in %s: %w", o.Version, dir, err)
		}
	}
	if err := j.markSynced(r.next - 1); err != nil {
		return nil, fmt.Errorf("journal: %s: %w", dir, errors.Join(err, j.current.Close()))
	}
	j.room.tail = j.size - j.at - recordHeader
	j.allocator = newAllocator(j)
	j.appended.Store(r.next - 1)
	j.synced.Store(r.next - 1)
	j.pending = j.newBatch(r.next)
	go j.flush()
	return j, nil
}

// renew goes on in a new segment where the last one is of an older version: records may
// follow that a program of that version cannot read, and it is to refuse them. A header
// is never written over, so that it is never torn.
func (j *Journal) renew(r *recovered) error {
	if r.version == j.options.Version {
		return nil
	}
	return j.beginAtOpen(r.next)
}

// ID returns the id that the journal was given when it was made.
func (j *Journal) ID() [16]byte { return j.id }

// First returns the seq of the oldest record that is kept, or of the first one to
// come where there is none.
func (j *Journal) First() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.segments[0].first
}

// SegmentCount returns how many segments there are.
func (j *Journal) SegmentCount() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.segments)
}

// Appended returns the seq of the last record appended.
func (j *Journal) Appended() uint64 { return j.appended.Load() }

// Synced returns the seq of the last record on stable storage.
func (j *Journal) Synced() uint64 { return j.synced.Load() }

// Failed returns a channel that is closed when a write or sync has failed. Err
// then tells why, and nothing can be appended any more.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err returns why the journal has failed, which wraps ErrFailed; ErrClosed once
// it is closed; else nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Append puts a copy of payload behind the last record and returns its seq. It
// does no I/O; Wait tells when the record is on stable storage. It waits while
// PendingBytesMax bytes are to be written. A record that no segment has room for
// is not lost and not refused: it and all behind it wait to be written until the
// disk has room. The error is ErrTooLarge, the journal's failure or ErrClosed, or
// says that payload is empty; nothing is appended then.
func (j *Journal) Append(payload []byte) (uint64, error) { return j.append(payload, 0, 0) }

// AppendClaimed is Append with room that was set aside by a claim of up to claimed
// bytes, the argument of Claim or ClaimReserve. An error uses the claim up as well.
func (j *Journal) AppendClaimed(payload []byte, claimed int) (uint64, error) {
	return j.append(payload, charge(recordBytes(claimed)), 0)
}

// append is Append; paid is what has been charged for the record, and many what of it
// was charged by ClaimMany.
func (j *Journal) append(payload []byte, paid, many int64) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.room.charged -= paid
	j.room.many -= many
	switch {
	case len(payload) > RecordBytesMax:
		return 0, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(payload), RecordBytesMax)
	case len(payload) == 0:
		return 0, errors.New("journal: a record of 0 bytes cannot be appended")
	}
	j.room.charged += charge(recordBytes(len(payload)))
	for j.err == nil && !j.closing && len(j.pending.bytes) > 0 &&
		len(j.pending.bytes)+len(payload) > j.options.PendingBytesMax {
		wakeUp(j.full)
		j.space.Wait()
	}
	if j.err != nil {
		return 0, j.err
	}
	if j.closing {
		return 0, ErrClosed
	}
	b := j.pending
	b.last++
	b.bytes = appendRecord(b.bytes, b.last, b.first-1, payload)
	j.appended.Store(b.last)
	wakeUp(j.wake)
	return b.last, nil
}

// Wait returns nil once all records up to seq are on stable storage. It returns
// the journal's failure, ErrClosed, or ctx's error where that comes first. Those
// who wait for a record that is appended are woken once, by the sync that covers it.
func (j *Journal) Wait(ctx context.Context, seq uint64) error {
	for j.synced.Load() < seq {
		j.mu.Lock()
		b, err := j.pending, j.err
		if j.writing != nil && seq <= j.writing.last {
			b = j.writing
		}
		j.mu.Unlock()
		switch {
		case j.synced.Load() >= seq:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Notify sends to wake once Wait(seq) would not wait, or at once where it would not:
// for callers who have something else to do meanwhile, or wait for several things. If record seq
// is not appended yet, the next sync may send to wake before. Notify and the flusher do not wait for wake to take
// the value: a channel with room for one misses nothing.
func (j *Journal) Notify(seq uint64, wake chan<- struct{}) {
	if j.synced.Load() < seq {
		j.mu.Lock()
		defer j.mu.Unlock()
		b := j.pending
		if j.writing != nil && seq <= j.writing.last {
			b = j.writing
		}
		if j.synced.Load() < seq && j.err == nil {
			b.notify = append(b.notify, wake)
			return
		}
	}
	wakeUp(wake)
}

// RemoveBefore deletes the segments that hold only records before seq, except
// the last segment and what an open Reader holds. The error says what
// could not be deleted; that stays part of the journal, and of the next call. While no
// file can be opened it deletes no more and returns nil: the next call goes on.
func (j *Journal) RemoveBefore(seq uint64) error {
	j.removing.Lock()
	defer j.removing.Unlock()
	for {
		// Each is synced before the next, so that no power cut leaves a gap, also if
		// that failed before.
		if j.unsynced {
			switch err := j.fs.syncDir(j.dir); {
			case isNoDescriptor(err):
				return nil
			case err != nil:
				return fmt.Errorf("journal: sync %s: %w", j.dir, err)
			}
			j.unsynced = false
		}
		s, ok := j.dropOldest(seq)
		if !ok {
			return nil
		}
		if err := j.fs.remove(s.path); err != nil {
			j.mu.Lock()
			j.segments = slices.Insert(j.segments, 0, s)
			j.mu.Unlock()
			return fmt.Errorf("journal: %w", err)
		}
		j.unsynced = true
	}
}

// dropOldest takes the oldest segment off the list if RemoveBefore(seq) may delete it.
func (j *Journal) dropOldest(seq uint64) (s segment, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for r := range j.readers {
		seq = min(seq, r.holds())
	}
	if len(j.segments) < 2 || j.segments[1].first > seq {
		return s, false
	}
	s, j.segments = j.segments[0], j.segments[1:]
	return s, true
}

// Close writes and syncs what was appended, marks the end, and gives the
// directory free. Where the disk has no room for all of it, the rest is dropped:
// no Wait has promised it. Append, and Wait for what is not synced, return ErrClosed
// from then on; where something was dropped, ErrFailed with the reason. The error is
// the journal's failure, or says what could not be closed.
// Closing again does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	again := j.closing
	if j.closing = true; !again {
		close(j.giveUp)
	}
	j.wakeClaims()
	j.mu.Unlock()
	wakeUp(j.wake)
	<-j.flushed
	if again {
		return nil
	}
	j.allocator.stop()
	err := j.Err()
	if errors.Is(err, ErrClosed) {
		err = nil
		if j.markErr != nil {
			err = fmt.Errorf("journal: %w", j.markErr)
		}
	}
	err = errors.Join(err, j.current.Close())
	if j.lock != nil {
		err = errors.Join(err, j.lock.Unlock())
	}
	return err
}
