package engine

import (
	"context"
	"crypto/sha256"
	"time"

	"outcry/internal/exchange"
)

const (
	// digestOrders is how many orders of a book are listed in one go, which blocks the
	// book's shard.
	digestOrders = 2048

	// digestPause is how long the ledger's lock is released between two pieces of a listing.
	digestPause = 20 * time.Microsecond
)

// Digest returns the digest of the state (exchange.State.Digest) after record seq, once that record is
// durable. ok is false if a record was appended during the calculation, or if ctx ended or the engine
// stopped. It lists the ledger and each book in pieces, between which trading
// continues. It uses much memory and work, so it should be called rarely.
func (e *Engine) Digest(ctx context.Context) (digest [sha256.Size]byte, seq uint64, ok bool) {
	r := digestRun{engine: e, seq: e.log.Appended()}
	e.mu.Lock()
	r.withdrawn = e.withdrawn
	e.mu.Unlock()
	// Commands in progress may have appended the last record without settling it. A command
	// that begins later and changes the state appends a record before the book
	// of its symbol is listed, because books are listed after the ledger.
	if !e.waitSettled(ctx) {
		return digest, 0, false
	}
	d := exchange.NewDigester(e.lastOrderID())
	if !r.list(ctx, d) || !r.unchanged() || e.failed.Load() || e.Durable(ctx, e.Mark()) != nil {
		return digest, 0, false
	}
	return d.Sum(), r.seq, true
}

// waitSettled waits until every command that is now in progress has ended. It returns false if ctx ends
// or the engine stops first.
func (e *Engine) waitSettled(ctx context.Context) bool {
	for _, in := range e.awakeNow() {
		if in.doBetween(ctx, func() {}) != nil {
			return false
		}
	}
	return true
}

// digestRun is the state of one call of Digest.
type digestRun struct {
	engine    *Engine
	seq       uint64 // seq of the last record when the run began
	withdrawn uint64 // Engine.withdrawn when the run began
}

// list lists the state. It returns false if the state changed during the listing.
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
			return false // the symbol is being made
		}
		e.mu.Unlock()
		ok = r.listBook(ctx, d, owner.(*shard))
		e.mu.Lock()
	}
	return ok
}

// listBook lists the book of a shard. It returns false if the state changed or the shard could not do it.
func (r *digestRun) listBook(ctx context.Context, d *exchange.Digester, s *shard) (ok bool) {
	var list func(most int) bool
	stop := func() {}
	defer func() { stop() }()
	for more := true; more; {
		err := s.inbox.doBetween(ctx, func() {
			if ok = r.unchanged(); !ok { // the orders to be listed next may no longer exist
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

// unchanged reports whether, since the run began, no record was appended and no hold was taken and
// withdrawn.
func (r *digestRun) unchanged() bool {
	r.engine.mu.Lock()
	withdrawn := r.engine.withdrawn
	r.engine.mu.Unlock()
	return withdrawn == r.withdrawn && r.engine.log.Appended() == r.seq
}
