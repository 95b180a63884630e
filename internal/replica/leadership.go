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

// Why a log takes no records.
var (
	// ErrNotLeading: this node does not lead yet, or is not ready to.
	ErrNotLeading = errors.New("replica: this node does not lead the cluster")
	// ErrDeposed: this node led and leads no more. Another node may have gone on, so nothing
	// that was read or done here may be told any more.
	ErrDeposed = errors.New("replica: this node leads the cluster no more: another one may have gone on without it")
	// ErrClosed: the replica is closed.
	ErrClosed = errors.New("replica: closed")
)

const (
	// gatherBytesMax bounds the records that a leader has appended and its journal has not
	// taken yet; appenders wait above it, as they do for journal.Options.PendingBytesMax.
	gatherBytesMax = 64 << 20
	// batchBytesMax bounds the records of one entry of Raft's log. A larger record has an
	// entry of its own.
	batchBytesMax = 1 << 20
	// spareBatches is how many batches' memory is kept to be used again.
	spareBatches = 8
)

// leadership is the log that an engine appends to while this node leads: engine.Log and its
// extension for reads. Records get their seqs at once, gather in batches, and are proposed by
// the replica's loop; they are durable once they are committed. There is one leadership in the
// life of a process.
//
// Whether something may be told depends on three atomics: committed, confirmed and over. The
// loop alone writes them. It sets over before it looks at anything else of what ended the
// leadership, and changes neither of the others from then on. So whatever committed and
// confirmed say was so at a moment when this node led, and never counts a record of another
// leader, although that may have the same seq. Readers load over last: if it is not set then,
// they answer at a moment when the loop did not know of an end; loaded first, an end could
// come in between, and they would tell something after it.
type leadership struct {
	journal *journal.Journal
	wake    func() // lets the loop look at what is to be proposed and asked; it does not wait

	over      atomic.Pointer[error] // why nothing may be told any more; set once
	appended  atomic.Uint64         // the last record that was appended; 0 before the leadership
	committed atomic.Uint64         // the last one that a majority has
	begun     atomic.Uint64         // no round above it has begun
	confirmed atomic.Uint64         // in this round, and those before, this node led

	mu       sync.Mutex // guards what follows
	space    *sync.Cond // signaled when held has shrunk, or all is over
	open     bool       // records are taken
	batches  []*batch   // of rising seq, not committed yet; the last one takes records
	proposed int        // how many of the batches are proposed
	spare    []memory
	held     int     // bytes of the records that the journal has not taken
	claims   []claim // of these records, from seq claimed
	claimed  uint64
	rounds   []*round // that somebody waits for, rising
}

// batch is records that are proposed, and then committed, together.
type batch struct {
	first, last uint64 // last is first - 1 while it is empty
	memory      memory
	waiters
}

// memory holds records, one behind the other, and where each ends.
type memory struct {
	bytes []byte
	ends  []int
}

// records appends the records to to.
func (m *memory) records(to [][]byte) [][]byte {
	at := 0
	for _, end := range m.ends {
		to = append(to, m.bytes[at:end:end])
		at = end
	}
	return to
}

// waiters are those who wait for one thing.
type waiters struct {
	done   chan struct{}
	notify []notification
}

// notification is a channel to wake, once then has come as well unless that is nil.
type notification struct {
	wake chan<- struct{}
	then *round
}

// finish tells all who wait.
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

// wakeUp sends to a channel that has room for one value, unless that is there.
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

// newBatch begins a batch. Callers hold mu, or are alone.
func (l *leadership) newBatch(first uint64) *batch {
	b := &batch{first: first, last: first - 1, waiters: waiters{done: make(chan struct{})}}
	if n := len(l.spare); n > 0 {
		b.memory, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	return b
}

// begin takes records, behind record seq, which the journal has. It returns false if the
// leadership is over already.
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
	l.batches[0].finish() // who waited for less looks again
	l.batches[0] = l.newBatch(seq + 1)
	return true
}

// end ends it: nothing is appended, committed or confirmed any more. The loop calls it, or
// who has seen it end. Only the first call counts.
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

// Err returns why no records are taken and nothing may be told any more: ErrDeposed,
// ErrClosed, or what else has ended the replica; nil before and while this node leads.
func (l *leadership) Err() error {
	if why := l.over.Load(); why != nil {
		return *why
	}
	return nil
}

// append puts a copy of record behind the last one and returns its seq. c is what was claimed
// for it, and stays charged until the journal takes the record. It waits while gatherBytesMax
// bytes are held.
func (l *leadership) append(record []byte, c claim) (uint64, error) {
	if n := l.ClaimBytesMax(); len(record) > n || len(record) == 0 {
		return 0, fmt.Errorf("replica: a record of %d bytes cannot be appended: it has 1 to %d bytes", len(record), n)
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

// take returns the next batch to be proposed, nil if there is none.
func (l *leadership) take() *batch {
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

// recycle takes back the memory of a batch that was proposed.
func (l *leadership) recycle(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := b.memory
	b.memory = memory{}
	if len(l.spare) < spareBatches && cap(m.bytes) <= 2*batchBytesMax {
		l.spare = append(l.spare, memory{m.bytes[:0], m.ends[:0]})
	}
}

// commit notes that a majority has everything up to seq. The loop alone calls it.
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

// Appended returns the seq of the last record that was appended, the journal's while this
// node has not led yet.
func (l *leadership) Appended() uint64 {
	if seq := l.appended.Load(); seq > 0 {
		return seq
	}
	return l.journal.Appended()
}

// Synced returns the seq up to which a majority has everything on its disks, as far as this
// node knew while it led; 0 before.
func (l *leadership) Synced() uint64 { return l.committed.Load() }

// Wait returns nil once a majority has everything up to seq, while this node leads. The error
// is that of Err, or ctx's.
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

// coming returns what is closed once seq is committed, or may be soon, or all is over; nil if
// that is so already.
func (l *leadership) coming(seq uint64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.batchOf(seq); b != nil {
		return b.done
	}
	return nil
}

// batchOf returns the batch of record seq, the last one for a record that is not appended;
// nil if seq is committed or all is over. Callers hold mu.
func (l *leadership) batchOf(seq uint64) *batch {
	if l.committed.Load() >= seq || l.over.Load() != nil {
		return nil
	}
	i := sort.Search(len(l.batches), func(i int) bool { return l.batches[i].last >= seq })
	return l.batches[min(i, len(l.batches)-1)]
}

// Notify sends to wake once Wait(seq) would not wait, or at once. It does not wait for wake
// to take the value: a channel with room for one misses nothing.
func (l *leadership) Notify(seq uint64, wake chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.batchOf(seq); b != nil {
		b.notify = append(b.notify, notification{wake: wake})
		return
	}
	wakeUp(wake)
}
