package engine

import (
	"context"
	"crypto/sha256"
	"time"

	"outcry/internal/exchange"
)

const (
	// digestOrders is how many orders of a book are listed in one go, while its symbol
	// does nothing else.
	digestOrders = 2048

	// digestPause is how long the ledger is free between two pieces of it.
	digestPause = 20 * time.Microsecond
)

// Digest returns the digest of the state (exchange.State.Digest) after record seq, once that may
// be told, if no record has come while it was worked out: otherwise ok is false, as at the end
// of ctx or of the engine. It lists the ledger and each book in pieces between which trading
// goes on, and takes much memory and work for a while: it is for those who ask now and then.
func (e *Engine) Digest(ctx context.Context) (digest [sha256.Size]byte, seq uint64, ok bool) {
	r := digestRun{engine: e, seq: e.log.Appended()}
	e.mu.Lock()
	r.withdrawn = e.withdrawn
	e.mu.Unlock()
	// Commands that are under way may have appended the last record and not settled it. What
	// begins later, and changes anything that stays, has appended a record before the book
	// of its symbol is listed, which is after the ledger.
	if !e.settled(ctx) {
		return digest, 0, false
	}
	d := exchange.NewDigester(e.lastOrderID())
	if !r.list(ctx, d) || !r.unchanged() || e.failed.Load() || e.Durable(ctx, e.Mark()) != nil {
		return digest, 0, false
	}
	return d.Sum(), r.seq, true
}

// settled returns true once every command has ended that was under way, and false at the end
// of ctx or of the engine.
func (e *Engine) settled(ctx context.Context) bool {
	for _, in := range e.awakeNow() {
		if in.between(ctx, func() {}) != nil {
			return false
		}
	}
	return true
}

// between does work between two commands of an owner, which stays at rest if it is. The error is
// that of Engine.call.
func (in *inbox) between(ctx context.Context, work func()) error {
	in.mu.Lock()
	if in.tasks == nil { // it needs mu to wake up
		defer in.mu.Unlock()
		work()
		return nil
	}
	in.mu.Unlock()
	return in.engine.call(ctx, in, func() error { work(); return nil })
}

// digestRun is a call of Digest.
type digestRun struct {
	engine    *Engine
	seq       uint64 // of the last record
	withdrawn uint64 // as in Engine
}

// unchanged reports whether nothing has come that changes what is listed, or that did for a
// moment.
func (r *digestRun) unchanged() bool {
	r.engine.mu.Lock()
	withdrawn := r.engine.withdrawn
	r.engine.mu.Unlock()
	return withdrawn == r.withdrawn && r.engine.log.Appended() == r.seq
}

// list lists the state. It returns false if that has changed.
func (r *digestRun) list(ctx context.Context, d *exchange.Digester) bool {
	e := r.engine
	pause := func(work func()) bool {
		e.mu.Unlock()
		defer e.mu.Lock()
		work()
		time.Sleep(digestPause)
		return ctx.Err() == nil && !e.closing() && e.log.Appended() == r.seq
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	instruments, ok := d.Ledger(e.ledger, pause)
	for _, in := range instruments {
		if !ok || !d.Instrument(in, pause) {
			return false
		}
		owner, found := e.shards.Load(in.Symbol)
		if !found {
			return false // it is being made
		}
		e.mu.Unlock()
		ok = r.listBook(ctx, d, owner.(*shard))
		e.mu.Lock()
	}
	return ok
}

// listBook lists the book of a shard.
func (r *digestRun) listBook(ctx context.Context, d *exchange.Digester, s *shard) (ok bool) {
	var list func(most int) bool
	stop := func() {}
	defer func() { stop() }()
	for more := true; more; {
		err := s.inbox.between(ctx, func() {
			if ok = r.unchanged(); !ok { // the orders that are to be listed next may be gone
				more = false
				return
			}
			if list == nil {
				list, stop = d.Book(s.symbol, s.book)
			}
			more = list(digestOrders)
		})
		if err != nil {
			return false
		}
	}
	return ok
}
