package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"outcry/internal/exchange"
)

// Halt makes a symbol refuse orders from now on, until Resume; everything else goes
// on, and resting orders keep their places. A symbol that is halted stays so as it is,
// without another record. The result may be told: it is durable. Its Reason is OK,
// UnknownSymbol or NoRoomToCancel. reason has passed exchange.ParseHaltReason.
//
// The error says that the exchange has failed or is stopping, or is ctx's; nothing is
// known then of whether it was done.
func (e *Engine) Halt(ctx context.Context, sym exchange.Symbol, reason string) (exchange.HaltResult, error) {
	return e.change(ctx, sym, func(d *shard, r *exchange.HaltResult) error { return d.halt(reason, r) })
}

// Resume ends a halt. It is otherwise as Halt; the result has the halt that it ended.
func (e *Engine) Resume(ctx context.Context, sym exchange.Symbol) (exchange.HaltResult, error) {
	return e.change(ctx, sym, (*shard).resume)
}

// change has the shard of a symbol do something, and waits until that is durable.
func (e *Engine) change(
	ctx context.Context, sym exchange.Symbol, do func(*shard, *exchange.HaltResult) error,
) (exchange.HaltResult, error) {
	found, ok := e.shards.Load(sym)
	if !ok {
		return exchange.HaltResult{Reason: exchange.UnknownSymbol}, e.Confirm(ctx)
	}
	d, r := found.(*shard), new(exchange.HaltResult)
	if err := e.call(ctx, &d.inbox, func() error { return do(d, r) }); err != nil {
		return exchange.HaltResult{}, err // the shard may still write to r
	}
	if e.failed.Load() {
		return exchange.HaltResult{}, fmt.Errorf("engine: %w", e.log.Err())
	}
	if err := e.Durable(ctx, e.mark(r.Changed)); err != nil {
		return exchange.HaltResult{}, err
	}
	return *r, nil
}

// call is a request to do something between two commands, unless its caller has given up
// by then.
type call struct {
	begun atomic.Bool // or given up
	work  func() error
}

func (c *call) do() error {
	if !c.begun.CompareAndSwap(false, true) {
		return nil
	}
	return c.work()
}

func (c *call) amid() bool { return false }

// call has an owner do work before whatever else waits for it, after the command that
// is under way, and waits until it is done. The error is ErrStopped, errBusy, ctx's, and
// then nothing was done; or it is that of work.
func (e *Engine) call(ctx context.Context, in *inbox, work func() error) error {
	c := &call{work: work}
	t := &task{request: c, done: make(chan struct{}, 1)}
	err := in.offer(t)
	if err != nil {
		return err
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.stop:
		err = ErrStopped
	}
	if c.begun.CompareAndSwap(false, true) {
		return err
	}
	<-t.done // soon
	return t.err
}

// halt is Engine.Halt. An error is the journal's and final.
func (d *shard) halt(reason string, r *exchange.HaltResult) error {
	if before := d.book.Halted(); before != nil {
		r.Halt = *before
		return nil
	}
	if reason, err := d.finish(); err != nil || reason != exchange.OK {
		r.Reason = ofCancel(reason)
		return err
	}
	h := exchange.Halt{Since: d.book.Moment(d.engine.options.Now()), Reason: reason}
	d.event = exchange.Event{Kind: exchange.SymbolHalted, Time: h.Since, Symbol: d.symbol, Reason: reason}
	seq, err := d.log(r)
	if seq == 0 {
		return err
	}
	d.book.Halt(&h)
	d.note(seq, &h)
	r.Changed, r.Halt = true, h
	return nil
}

// resume is Engine.Resume. An error is the journal's and final.
func (d *shard) resume(r *exchange.HaltResult) error {
	if d.book.Halted() == nil {
		return nil
	}
	if reason, err := d.finish(); err != nil || reason != exchange.OK {
		r.Reason = ofCancel(reason)
		return err
	}
	d.event = exchange.Event{Kind: exchange.SymbolResumed, Time: d.book.Moment(d.engine.options.Now()), Symbol: d.symbol}
	seq, err := d.log(r)
	if seq == 0 {
		return err
	}
	r.Changed, r.Halt = true, *d.book.Resume()
	d.note(seq, nil)
	return nil
}

// log appends d.event, whose size is known, and returns the record's seq; or it returns 0
// and says in r that there is no room for it: it may use the reserve, as a cancel may.
func (d *shard) log(r *exchange.HaltResult) (seq uint64, err error) {
	var refused exchange.Result
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	ok, err := d.engine.claimToCancel(len(d.record), &refused)
	if ok {
		seq, err = d.engine.append(d.record, len(d.record))
	}
	r.Reason = refused.Reason
	return seq, err
}

// haltChange is what a record made of a symbol: halted, or not.
type haltChange struct {
	seq  uint64         // of the record; 0 for what the shard began with, which is durable
	halt *exchange.Halt // nil where the symbol takes orders
}

// note keeps a change for those who ask how the symbol is, until it is durable beside the
// last one that is: as long as halts and resumes are not, there is a record of each.
func (d *shard) note(seq uint64, h *exchange.Halt) {
	changes, durable := d.changes(), d.engine.durable.seq()
	for len(changes) > 1 && changes[1].seq <= durable {
		changes = changes[1:]
	}
	changes = append(slices.Clone(changes), haltChange{seq, h})
	d.halts.Store(&changes)
}

// changes returns what note has kept, oldest first, and first what there was before.
func (d *shard) changes() []haltChange {
	if all := d.halts.Load(); all != nil {
		return *all
	}
	return []haltChange{{}}
}

// told returns the halt that may be told, nil where the symbol takes orders: that of the
// last record up to durable.
func (d *shard) told(durable uint64) (h *exchange.Halt) {
	for _, c := range d.changes() {
		if c.seq <= durable {
			h = c.halt
		}
	}
	return h
}

// HaltedSymbol is a symbol that takes no orders.
type HaltedSymbol struct {
	Symbol exchange.Symbol
	exchange.Halt
}

// Halts returns the symbols that are halted, in order of their names. They are durable: a
// halt or resume that is not yet is left out, as if it had not come. See Confirm.
func (e *Engine) Halts() (all []HaltedSymbol) {
	durable := e.durable.seq()
	for _, d := range *e.numbered.Load() {
		if h := d.told(durable); h != nil {
			all = append(all, HaltedSymbol{d.symbol, *h})
		}
	}
	slices.SortFunc(all, func(a, b HaltedSymbol) int { return cmp.Compare(a.Symbol, b.Symbol) })
	return all
}
