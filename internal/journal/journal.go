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

// Options configure a journal. A zero value means the default, except for Version.
type Options struct {
	// Version is the version of records that the caller writes, and the newest that it reads. It is
	// required. Callers raise it whenever they extend what a record may hold. It is stored in each
	// segment; a program that reads only older versions refuses such a segment.
	Version uint32

	FirstSeq        uint64 // seq of the first record of a new journal; default 1
	SegmentBytes    int64  // size of a segment; default 64 MiB
	PendingBytesMax int    // Append waits while more bytes than this wait to be written; default 64 MiB

	// Gather is how long records are collected before they are written and synced as one batch. 0
	// means no delay. A full buffer or Close ends the delay early.
	// If MarkSyncs is set, an end mark is written after each synced batch, before the batch is
	// reported as synced. From then on, damage in the batch is not mistaken for a torn write.
	Gather    time.Duration
	MarkSyncs bool

	// OnSync, if not nil, is called by the flusher after each batch with the number of records and
	// bytes in it and the time that writing and syncing took.
	OnSync func(records, bytes int, took time.Duration)
}

// RecordBytesMax is the largest payload of a record, in bytes. A record that is larger than a
// segment gets a segment of its own, made large enough for it.
const RecordBytesMax = 1 << 30

// Errors that the methods of a Journal and a Reader return, possibly wrapped.
var (
	ErrClosed         = errors.New("journal: closed")
	ErrFailed         = errors.New("journal: failed")
	ErrGone           = errors.New("journal: the record is no longer kept")
	ErrTooLarge error = &noClaim{"journal: the record is too large", false}
	ErrNoRoom   error = &noClaim{"journal: no room for the next segment", true}
)

// noClaim is the type of ErrTooLarge and ErrNoRoom: a claim failed and the journal is unchanged.
type noClaim struct {
	text   string
	noRoom bool
}

// Error returns the text of the error.
func (r *noClaim) Error() string { return r.text }

// NoRoom reports whether the claim may succeed later. If false, retrying is pointless.
func (r *noClaim) NoRoom() bool { return r.noRoom }

// Journal is an open journal. Its methods are safe for concurrent use.
type Journal struct {
	options   Options
	fs        fileSystem
	dir       string
	id        [16]byte
	lock      *DirLock
	allocator *allocator

	appended, synced atomic.Uint64

	removing sync.Mutex // serializes RemoveBefore while it deletes files
	unsynced bool       // the last deletion is not durable yet; guarded by removing

	// mu guards the fields from here to err.
	mu       sync.Mutex
	pending  *batch     // batch that collects new records
	writing  *batch     // batch being written; nil between batches
	space    *sync.Cond // signaled when room in memory or on disk may have been freed
	room     room
	segments []segment
	readers  map[*Reader]struct{}
	closing  bool
	err      error // why the journal failed, or ErrClosed; nil while it is usable

	wake    chan struct{} // holds a value when pending may contain records
	full    chan struct{} // holds a value when an Append found pending full and waits
	giveUp  chan struct{} // closed by Close: the flusher stops waiting for disk room
	failed  chan struct{} // closed after a failure; err is set before
	flushed chan struct{} // closed when the flusher has returned

	// The fields below, except spare, belong to the flusher until it has returned.
	current  file
	at, size int64  // offset in current of the next record, and the size of current
	spare    *batch // written batch whose memory is reused; guarded by mu
	markErr  error  // why Close could not write the end mark
}

// batch is a run of records that are written and synced together.
type batch struct {
	first, last uint64
	bytes       []byte
	done        chan struct{} // closed when the batch is synced, or when the journal has failed or closed
	notify      []chan<- struct{}
}

// finish wakes all waiters of the batch: it is synced, or never will be.
func (b *batch) finish() {
	close(b.done)
	for _, wake := range b.notify {
		wakeUp(wake)
	}
}

// Open opens the journal in dir and creates it if it does not exist. It locks the directory, checks
// every record, and cuts the torn tail that a crash may have left. A *DamageError or *VersionError
// names the file that it refuses; then no record is changed. Other errors say that another process
// uses the directory, that o has no version, or what could not be read or written.
func Open(dir string, o Options) (*Journal, error) {
	if o.Version == 0 {
		return nil, fmt.Errorf("journal: open %s: the options have no record version", dir)
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

// open is Open for any file system, without the lock.
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

// renew begins a new segment if the last one has an older version. New records may be unreadable
// for programs of that version, so those must refuse the journal. The old header is not
// overwritten, because a crash could tear it.
func (j *Journal) renew(r *recovered) error {
	if r.version == j.options.Version {
		return nil
	}
	return j.beginAtOpen(r.next)
}

// ID returns the random id that the journal got when it was created.
func (j *Journal) ID() [16]byte { return j.id }

// First returns the seq of the oldest record in the journal. If the journal has no records, it is
// the seq that the next record will get.
func (j *Journal) First() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.segments[0].first
}

// SegmentCount returns the number of segments.
func (j *Journal) SegmentCount() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.segments)
}

// Appended returns the seq of the last appended record.
func (j *Journal) Appended() uint64 { return j.appended.Load() }

// Synced returns the seq of the last record on stable storage.
func (j *Journal) Synced() uint64 { return j.synced.Load() }

// Failed returns a channel that is closed when a write or sync has failed. From then on Err
// returns the reason and nothing can be appended.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err returns the reason if the journal has failed, which wraps ErrFailed, or ErrClosed if it is
// closed. Otherwise it returns nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Append copies payload into a new record at the end of the journal and returns its seq. It does no
// I/O; use Wait to wait until the record is on stable storage. Append blocks while PendingBytesMax
// bytes wait to be written. If no segment has room for the record, it is still accepted: it and all
// later records are written once the disk has room. The error is ErrTooLarge, the journal's failure
// or ErrClosed, or says that payload is empty; in each case nothing was appended.
func (j *Journal) Append(payload []byte) (uint64, error) { return j.append(payload, 0, 0) }

// AppendClaimed is Append for a record whose room was set aside with Claim or ClaimReserve; claimed
// is the argument of that call and at least len(payload). The claim is used up even if
// AppendClaimed returns an error.
func (j *Journal) AppendClaimed(payload []byte, claimed int) (uint64, error) {
	return j.append(payload, charge(recordBytes(claimed)), 0)
}

// append implements Append, AppendClaimed and AppendMany. paid is the number of bytes already charged
// for the record; many is the part of paid that ClaimMany charged.
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

// Wait returns nil once all records up to seq are on stable storage. If the journal fails or is
// closed or ctx ends before that, it returns the journal's failure, ErrClosed or ctx's error. A
// caller that waits for an appended record is woken once, by the sync that covers the record.
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

// Notify sends to wake once Wait(seq) would return without waiting, which may be at once. It is for
// callers that do other work while they wait, or that wait for several things. If record seq is not
// appended yet, the next sync may send to wake too early. Neither Notify nor the flusher blocks on
// wake, so its buffer must hold one value.
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

// RemoveBefore deletes the segments that hold only records before seq. It keeps the last segment and
// those that an open Reader still needs. The error says what could not be deleted; that segment stays
// in the journal, and the next call tries it again. If no file can be opened because all descriptors
// are in use, RemoveBefore stops early and returns nil; the next call continues.
func (j *Journal) RemoveBefore(seq uint64) error {
	j.removing.Lock()
	defer j.removing.Unlock()
	for {
		// Each deletion is synced before the next one, so that a power cut leaves no gap. This
		// includes a deletion whose sync failed in an earlier call.
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

// dropOldest removes the oldest segment from the list if RemoveBefore(seq) may delete it.
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

// Close writes and syncs the appended records, writes the end mark and unlocks the directory. If the
// disk has no room for all records, the rest are dropped; no Wait has returned nil for them. After
// Close, Append returns ErrClosed, and so does Wait for records that are not synced; if records were
// dropped, both return an error that wraps ErrFailed and gives the reason. Close returns the
// journal's failure, or what could not be closed. A second Close does nothing and returns nil.
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
