package trail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"outcry/internal/journal"
)

const (
	// chunkRecords and chunkWork bound a chunk, which a follower processes at a time: a chunk needs tens or hundreds of
	// microseconds, during which callers of the follower wait and other goroutines may need the processor. One record may
	// exceed chunkWork.
	chunkRecords = 256
	chunkWork    = 4096
)

// FollowOptions configure which records a follower sees, and which the journal keeps for it.
type FollowOptions struct {
	// After is the last record that the follower has already.
	After uint64
	// HoldMax is how many of the newest records the journal keeps for the follower.
	HoldMax uint64
	// Limit returns the last record that the follower may see. Nil means every synced record.
	Limit func() uint64
}

// Follower passes records to one reader, in order. One goroutine calls Run, Chunk, TryNext, Next and Close; the other
// methods may be called from any goroutine.
type Follower[E any] struct {
	*Pace
	options *Options[E]
	trail   *Trail[E] // nil for a follower of Records
	limit   func() uint64
	next    uint64 // record to pass on next

	reader  *journal.Reader // the journal keeps the segments from its position on; nil for a follower of Records
	records Records         // nil for a follower of a trail
	decode  func(record []byte, into *E) error

	page    *page[E]      // fetched from the ring; nil if there is a block
	block   *block[E]     // block fetched from files; nil if there is a page
	at, end int           // the fetched records that are still to be passed on: indexes in the page or block
	pin     atomic.Uint64 // 1 + the number of the page that it may read; 0 for none
	inFiles bool          // the follower is further back than the ring
	err     error         // why the record after the fetched ones cannot be passed on
}

// Follow returns a follower of the trail. The error is package journal's ErrGone if the journal no longer has the
// record after o.After.
func (t *Trail[E]) Follow(o FollowOptions) (*Follower[E], error) {
	reader, err := t.journal.NewFollower(o.After+1, o.HoldMax)
	if err != nil {
		return nil, err
	}
	f := &Follower[E]{Pace: NewPace(t.journal.Notify), options: &t.options, trail: t, limit: o.Limit, next: o.After + 1,
		reader: reader}
	f.reached.Store(o.After)
	t.join(f)
	if o.After+1 < t.first { // blocks are kept for it from now on, because others may be faster
		f.joinFiles()
	}
	return f, nil
}

// FollowRecords returns a follower that reads and decodes all records itself. notify is that of NewPace.
func FollowRecords[E any](
	records Records, o Options[E], follow FollowOptions, notify func(seq uint64, wake chan<- struct{}),
) *Follower[E] {
	f := &Follower[E]{Pace: NewPace(notify), options: &o, limit: follow.Limit, next: follow.After + 1,
		records: records, decode: o.Decode(), block: new(block[E])}
	f.reached.Store(follow.After)
	return f
}

// Hold changes how many of the newest records the journal keeps for the follower.
func (f *Follower[E]) Hold(holdMax uint64) { f.reader.Hold(holdMax) }

// PanicError is the error of Run after a panic. Its text has no stack, because others than operators may read it.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Stack returns the stack of a PanicError in err, for the log; "" if err has none.
func Stack(err error) string {
	if p, ok := errors.AsType[*PanicError](err); ok {
		return string(p.Stack)
	}
	return ""
}

// EndListener calls end, by which a listener learns that its view has ended. It logs a panic: the other listeners and
// the process are not affected.
func EndListener(log *slog.Logger, end func()) {
	defer func() {
		if p := recover(); p != nil {
			err := &PanicError{p, debug.Stack()}
			log.Error("a listener failed at the end of its view; trading continues", "error", err, "stack", Stack(err))
		}
	}()
	end()
}

// Loop has the functions that Run calls, on its own goroutine.
type Loop struct {
	// Chunk calls the follower's Chunk, mostly with a lock.
	Chunk func() error
	// Idle is called when all records that may be seen are passed on; it may be nil.
	Idle func(now time.Time)
	// Listened reports whether there are listeners, which need all records soon.
	Listened func() bool
}

// Run passes records on until ctx ends, and then returns nil. It returns the error of Chunk or of a record that cannot
// be read; a panic of Chunk or Idle is such an error. Other followers are not affected. Run is called once, and
// End releases callers that wait for the follower.
func (f *Follower[E]) Run(ctx context.Context, l Loop) (err error) {
	defer f.Close()
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	for {
		if err := f.Step(ctx, l); err != nil {
			return err
		}
		if l.Idle != nil {
			l.Idle(time.Now())
		}
		if !f.Sleep(ctx, f.next-1, l.Listened()) {
			return nil
		}
	}
}

// Step passes on all records that may be seen now, in chunks. The error is that of Run.
func (f *Follower[E]) Step(ctx context.Context, l Loop) error {
	for ctx.Err() == nil {
		ok, err := f.fetch()
		if ok {
			err = l.Chunk()
		}
		if err != nil {
			return err // End releases waiting callers, which can then see why the follower has ended
		}
		f.Reached(f.next - 1)
		if !ok {
			return nil
		}
		runtime.Gosched() // let goroutines that process orders run first
	}
	return nil
}

// Chunk calls apply for the fetched records and those after them, at most a chunk of them. A value is valid during the
// call. The error is apply's, with the number of the record.
func (f *Follower[E]) Chunk(apply func(seq uint64, value *E) error) error {
	for n, work := 0, 0; n < chunkRecords && work < chunkWork; n++ {
		if ok, _ := f.fetch(); !ok {
			return nil // if there is an error, the next fetch returns it as well
		}
		seq, value := f.pass()
		if err := apply(seq, value); err != nil {
			return fmt.Errorf("journal record %d: %w", seq, err)
		}
		work += f.options.Work(value)
	}
	return nil
}

// TryNext returns the next record; value is valid until the next call. ok is false, without an error, if there is no
// record that may be seen.
func (f *Follower[E]) TryNext() (seq uint64, value *E, ok bool, err error) {
	if f.at == f.end {
		if ok, err := f.fetch(); !ok {
			return 0, nil, false, err
		}
	}
	seq, value = f.pass()
	return seq, value, true, nil
}

// Next returns the next record, and waits until it may be seen; value is valid until the next call. The error is
// ctx's, the journal's failure or ErrClosed, or says what could not be read.
func (f *Follower[E]) Next(ctx context.Context) (seq uint64, value *E, err error) {
	for {
		if seq, value, ok, err := f.TryNext(); ok || err != nil {
			return seq, value, err
		}
		if err := f.trail.journal.Wait(ctx, f.next); err != nil {
			return 0, nil, err
		}
		if seq, value, ok, err := f.TryNext(); ok || err != nil {
			return seq, value, err
		}
		select { // the record is synced, but must not be seen yet, was not put yet, or its file cannot be opened now
		case <-time.After(pollTime):
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
}

// Close releases the records that were not passed on. The follower must not be used afterwards.
func (f *Follower[E]) Close() {
	f.release()
	if f.trail == nil {
		f.records.Close()
		return
	}
	f.leaveFiles()
	f.trail.leave(f)
	f.reader.Close()
}

// pass returns the next fetched record.
func (f *Follower[E]) pass() (seq uint64, value *E) {
	if f.block != nil {
		value = &f.block.values[f.at]
	} else {
		value = &f.page.slots[f.at].value
	}
	seq = f.next
	f.at++
	f.next++
	return seq, value
}

// fetch makes sure that a record is fetched. ok is false if no further record may be seen, or if an error prevents it.
func (f *Follower[E]) fetch() (ok bool, err error) {
	if f.at < f.end {
		return true, nil
	}
	if f.err != nil {
		return false, f.err
	}
	last := f.Visible()
	if f.trail == nil {
		return f.decodeNext(last)
	}
	f.release()
	if f.next > last {
		if f.next > f.trail.journal.Synced() {
			f.leaveFiles()
		}
		return false, nil
	}
	page, n, gone := f.trail.recent(f, f.next, last)
	if gone {
		return f.fetchFromFiles(last)
	}
	f.leaveFiles()
	f.page, f.at = page, int(f.next%pageRecords)
	f.end = f.at + n
	f.reader.Skip(f.next + uint64(n))
	return n > 0, nil
}

// Visible returns the last record that the follower may see now. It may be called from any goroutine.
func (f *Follower[E]) Visible() uint64 {
	last := ^uint64(0) // Records return synced records only
	if f.trail != nil {
		last = f.trail.journal.Synced()
	}
	if f.limit != nil {
		last = min(last, f.limit())
	}
	return last
}

// decodeNext is fetch for a follower of Records.
func (f *Follower[E]) decodeNext(last uint64) (ok bool, err error) {
	b := f.block
	b.first = f.next
	b.fill(f.options, f.decode, f.records, last)
	f.at, f.end, f.err = 0, len(b.values), b.err
	if f.end == 0 {
		return false, f.err
	}
	return true, nil
}

// fetchFromFiles is fetch for a record that has left the ring.
func (f *Follower[E]) fetchFromFiles(last uint64) (ok bool, err error) {
	f.joinFiles()
	b := f.trail.files.block(f.reader, f.next, last)
	if b == nil {
		return false, nil
	}
	f.block, f.err = b, b.err
	f.at, f.end = int(f.next-b.first), int(min(uint64(len(b.values)), last-b.first+1))
	if f.end == len(b.values) {
		f.reader.Jump(b.end)
	} else {
		f.reader.Skip(f.next)
	}
	if f.at == f.end {
		return false, f.err
	}
	return true, nil
}

// joinFiles begins the use of files.
func (f *Follower[E]) joinFiles() {
	if !f.inFiles {
		f.inFiles = true
		f.trail.files.join()
	}
}

// leaveFiles ends the use of files, if the follower has used them.
func (f *Follower[E]) leaveFiles() {
	if f.inFiles {
		f.inFiles = false
		f.trail.files.leave()
	}
}

// release unpins the page or block of the last fetch.
func (f *Follower[E]) release() {
	if f.trail == nil {
		return
	}
	if f.block != nil {
		f.trail.files.give(f.block)
		f.block = nil
	}
	if f.page != nil {
		f.page = nil
		f.pin.Store(0)
	}
	f.at, f.end = 0, 0
}
