package replica

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"

	"outcry/internal/journal"
)

// Reasons why a log accepts no records.
var (
	// ErrNotLeading means that this node does not lead yet, or is not ready to accept records.
	ErrNotLeading = errors.New("replica: this node does not lead the cluster")
	// ErrDeposed means that this node has lost the leadership. Another node may have continued, so
	// no result that was read or computed here may be revealed any more.
	ErrDeposed = errors.New("replica: this node no longer leads the cluster: another one may have continued without it")
	// ErrClosed means that the replica is closed.
	ErrClosed = errors.New("replica: closed")
)

const (
	// gatherBytesMax limits the size of the records that a leader has appended and its journal has
	// not received yet. Above it appenders wait, as they do for journal.Options.PendingBytesMax.
	gatherBytesMax = 64 << 20
	// batchBytesMax limits the size of the records in one entry of Raft's log. A larger record has
	// an entry of its own.
	batchBytesMax = 1 << 20
	// spareBatches is the number of batches whose memory is kept for reuse.
	spareBatches = 8
)

// leadership is the log to which an engine appends while this node leads. It implements engine.Log
// and its extension for reads. Records get their seqs at once and are collected in batches, which
// the replica's loop proposes. They are durable once they are committed. A process has at most one
// leadership.
//
// Three atomics decide whether a result may be revealed: committed, confirmed and over. Only the loop
// writes them. When a leadership ends, the loop sets over before it handles any other output of that
// step, and never changes committed and confirmed afterwards. So committed and confirmed were true at a
// moment when this node led, and never count a record of another leader, although that may have the same
// seq. Readers load over last. If it is not set then, they answer at a moment when the loop did not know
// of an end. If they loaded it first, the leadership could end before the other loads, and they would
// reveal a result after the end.
type leadership struct {
	journal *journal.Journal
	wake    func() // makes the loop look for batches to propose and rounds to start; does not block

	over      atomic.Pointer[error] // the reason why the leadership has ended; set once
	appended  atomic.Uint64         // seq of the last appended record; 0 before the leadership
	committed atomic.Uint64         // seq of the last record that a majority has
	begun     atomic.Uint64         // number of the last round that has started
	confirmed atomic.Uint64         // number of the last round in which this node is known to have led

	mu       sync.Mutex // guards the fields below
	space    *sync.Cond // signaled when held has shrunk or the leadership has ended
	open     bool       // records are accepted
	batches  []*batch   // batches that are not committed, in order of seq; the last one accepts records
	proposed int        // number of batches that are proposed
	spare    []memory
	held     int     // size of the records that the journal has not received yet
	claims   []claim // claims of the records in batches; the first one belongs to record claimed
	claimed  uint64
	rounds   []*round // rounds that callers wait for, in rising order
}

// batch is a run of records that are proposed and committed together.
type batch struct {
	first, last uint64 // last is first - 1 while the batch is empty
	memory      memory
	waiters
}

// memory holds the records of a batch in one slice, with the end of each.
type memory struct {
	bytes []byte
	ends  []int
}

// records appends the records to the slice to.
func (m *memory) records(to [][]byte) [][]byte {
	at := 0
	for _, end := range m.ends {
		to = append(to, m.bytes[at:end:end])
		at = end
	}
	return to
}

// waiters are the callers that wait for one event.
type waiters struct {
	done   chan struct{}
	notify []notification
}

// notification is a channel to wake. If the field then is set, the channel is woken only after that
// round has ended too.
type notification struct {
	wake chan<- struct{}
	then *round
}

// finish wakes all waiters.
func (w *waiters) finish() {
	close(w.done)
	for _, n := range w.notify {
		if n.then != nil && !n.then.over {
			n.then.notify = append(n.then.notify, notification{wake: n.wake})
			continue
		}
		wakeUp(n.wake)
	}
	w.notify = nil
}

// wakeUp sends to a channel with a buffer of one, unless a value is already there.
func wakeUp(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func newLeadership(j *journal.Journal, wake func()) *leadership {
	l := &leadership{journal: j, wake: wake}
	l.space = sync.NewCond(&l.mu)
	l.batches = []*batch{l.newBatch(1)}
	return l
}

// newBatch starts a batch. Callers hold mu or have the only reference to l.
func (l *leadership) newBatch(first uint64) *batch {
	b := &batch{first: first, last: first - 1, waiters: waiters{done: make(chan struct{})}}
	if n := len(l.spare); n > 0 {
		b.memory, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	return b
}

// begin makes the leadership accept records after record seq, the last one of the journal. It
// returns false if the leadership is already over.
func (l *leadership) begin(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over.Load() != nil {
		return false
	}
	l.claimed = seq + 1
	l.committed.Store(seq)
	l.appended.Store(seq)
	l.open = true
	l.batches[0].finish() // callers that wait for a lower seq check again
	l.batches[0] = l.newBatch(seq + 1)
	return true
}

// end ends the leadership: from then on nothing is appended, committed or confirmed. The loop calls it, or a goroutine
// that notices that the loop has ended. Only the first call has an effect.
func (l *leadership) end(why error) {
	l.over.CompareAndSwap(nil, &why)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.rounds {
		r.over = true
		r.finish()
	}
	for _, b := range l.batches {
		b.finish()
	}
	l.rounds, l.batches, l.proposed = nil, nil, 0
	l.spare, l.claims = nil, nil
	l.space.Broadcast()
}

// Err returns the reason why no records are accepted and no result may be revealed: ErrDeposed,
// ErrClosed, or the error that stopped the replica. It returns nil before and while this node
// leads.
func (l *leadership) Err() error {
	if why := l.over.Load(); why != nil {
		return *why
	}
	return nil
}

// append appends a copy of record and returns its seq. c is the record's claim, which stays charged
// until the journal receives the record. It waits while gatherBytesMax bytes are held.
func (l *leadership) append(record []byte, c claim) (uint64, error) {
	if n := l.ClaimBytesMax(); len(record) > n || len(record) == 0 {
		return 0, fmt.Errorf("replica: a record of %d bytes cannot be appended: a record has 1 to %d bytes", len(record), n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.over.Load() == nil && l.held > 0 && l.held+len(record) > gatherBytesMax {
		l.space.Wait()
	}
	switch err := l.Err(); {
	case err != nil:
		return 0, err
	case !l.open:
		return 0, ErrNotLeading
	}
	b := l.batches[len(l.batches)-1]
	if n := len(b.memory.bytes); n > 0 && n+len(record) > batchBytesMax {
		b = l.newBatch(b.last + 1)
		l.batches = append(l.batches, b)
	}
	b.memory.bytes = append(b.memory.bytes, record...)
	b.memory.ends = append(b.memory.ends, len(b.memory.bytes))
	b.last++
	l.held += len(record)
	l.claims = append(l.claims, c)
	l.appended.Store(b.last)
	l.wake()
	return b.last, nil
}

// nextBatch returns the next batch to propose, or nil if all records are proposed.
func (l *leadership) nextBatch() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proposed >= len(l.batches) || len(l.batches[l.proposed].memory.ends) == 0 {
		return nil
	}
	b := l.batches[l.proposed]
	l.proposed++
	if l.proposed == len(l.batches) {
		l.batches = append(l.batches, l.newBatch(b.last+1))
	}
	return b
}

// recycle keeps the memory of a proposed batch for reuse.
func (l *leadership) recycle(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := b.memory
	b.memory = memory{}
	if len(l.spare) < spareBatches && cap(m.bytes) <= 2*batchBytesMax {
		l.spare = append(l.spare, memory{m.bytes[:0], m.ends[:0]})
	}
}

// commit records that a majority has all records up to seq. Only the loop calls it.
func (l *leadership) commit(seq uint64) {
	if l.over.Load() != nil || seq <= l.committed.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed.Store(seq)
	done := 0
	for ; done < l.proposed && l.batches[done].last <= seq; done++ {
		l.batches[done].finish()
	}
	l.batches = append(l.batches[:0], l.batches[done:]...)
	l.proposed -= done
}

// Appended returns the seq of the last appended record. Before this node has led it is the
// journal's last seq.
func (l *leadership) Appended() uint64 {
	if seq := l.appended.Load(); seq > 0 {
		return seq
	}
	return l.journal.Appended()
}

// hasLed reports whether this node may have appended records as the leader.
func (l *leadership) hasLed() bool { return l.appended.Load() > 0 }

// Synced returns the seq up to which a majority has all records on disk, as known while this node
// led; 0 before.
func (l *leadership) Synced() uint64 { return l.committed.Load() }

// Wait returns nil once a majority has all records up to seq, while this node leads. The error is
// that of Err, or ctx's.
func (l *leadership) Wait(ctx context.Context, seq uint64) error {
	for {
		reached := l.committed.Load() >= seq
		if err := l.Err(); err != nil || reached {
			return err
		}
		done := l.coming(seq)
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// coming returns a channel that is closed once seq may be committed or the leadership is over. It
// returns nil if either is already the case.
func (l *leadership) coming(seq uint64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.batchOf(seq); b != nil {
		return b.done
	}
	return nil
}

// batchOf returns the batch of record seq, or the last batch if the record is not appended yet. It
// returns nil if seq is committed or the leadership is over. Callers hold mu.
func (l *leadership) batchOf(seq uint64) *batch {
	if l.committed.Load() >= seq || l.over.Load() != nil {
		return nil
	}
	i := sort.Search(len(l.batches), func(i int) bool { return l.batches[i].last >= seq })
	return l.batches[min(i, len(l.batches)-1)]
}

// Notify sends to wake once Wait(seq) would return without waiting, which may be at once. The send
// does not block, so wake should be a channel with a buffer of one.
func (l *leadership) Notify(seq uint64, wake chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.batchOf(seq); b != nil {
		b.notify = append(b.notify, notification{wake: wake})
		return
	}
	wakeUp(wake)
}
