package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"outcry/internal/exchange"
)

// Halt makes a symbol reject orders, and amends that replace an order, until Resume. Resting orders keep their places,
// and cancels and queries still work. If the symbol is halted already, Halt changes nothing and writes no
// record. The result is durable. Its Reason is OK, UnknownSymbol, NoRoomToCancel or, if an unfinished order
// cannot be finished first, TooManyFills. reason has passed exchange.ParseHaltReason.
//
// An error means that the exchange has failed or is stopping, or is ctx's; whether the symbol
// was halted is then unknown.
func (e *Engine) Halt(ctx context.Context, sym exchange.Symbol, reason string) (exchange.HaltResult, error) {
	return e.change(ctx, sym, func(d *shard, r *exchange.HaltResult) error { return d.halt(reason, r) })
}

// Resume ends a halt. The result has the halt that it ended. Otherwise it is like Halt.
func (e *Engine) Resume(ctx context.Context, sym exchange.Symbol) (exchange.HaltResult, error) {
	return e.change(ctx, sym, (*shard).resume)
}

// change has the shard of a symbol execute do, and waits until the result is durable.
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

// halt halts the symbol, see Engine.Halt. An error is the journal's and final, or ErrStopped.
func (d *shard) halt(reason string, r *exchange.HaltResult) error {
	if before := d.book.Halted(); before != nil {
		r.Halt = *before
		return nil
	}
	if reason, err := d.finish(); err != nil || reason != exchange.OK {
		r.Reason = reasonForCancel(reason)
		return err
	}
	h := exchange.Halt{Since: d.book.Moment(d.engine.options.Now()), Reason: reason}
	d.event = exchange.Event{Kind: exchange.SymbolHalted, Time: h.Since, Symbol: d.symbol, Reason: reason}
	seq, err := d.log(r)
	if seq == 0 {
		return err
	}
	d.book.Halt(&h)
	d.addHaltChange(seq, &h)
	r.Changed, r.Halt = true, h
	return nil
}

// resume ends the symbol's halt, see Engine.Resume. An error is the journal's and final, or ErrStopped.
func (d *shard) resume(r *exchange.HaltResult) error {
	if d.book.Halted() == nil {
		return nil
	}
	if reason, err := d.finish(); err != nil || reason != exchange.OK {
		r.Reason = reasonForCancel(reason)
		return err
	}
	d.event = exchange.Event{Kind: exchange.SymbolResumed, Time: d.book.Moment(d.engine.options.Now()), Symbol: d.symbol}
	seq, err := d.log(r)
	if seq == 0 {
		return err
	}
	r.Changed, r.Halt = true, *d.book.Resume()
	d.addHaltChange(seq, nil)
	return nil
}

// log appends d.event, whose size is known, and returns the record's seq. Like a cancel, it may use the
// journal's reserve. If there is no room even there, it returns 0 and sets r.Reason.
func (d *shard) log(r *exchange.HaltResult) (seq uint64, err error) {
	var refused exchange.Result
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	ok, err := d.engine.claimToCancel(len(d.record), &refused)
	if ok {
		seq, err = d.engine.append(&d.event, d.record, len(d.record))
	}
	r.Reason = refused.Reason
	return seq, err
}

// HaltedSymbol is a symbol that accepts no orders.
type HaltedSymbol struct {
	Symbol exchange.Symbol
	exchange.Halt
}

// Halts returns the halted symbols, sorted by name. It only shows durable changes: a
// halt or resume that is not durable yet is ignored. See Confirm.
func (e *Engine) Halts() (all []HaltedSymbol) {
	durable := e.durable.seq()
	for _, d := range *e.numbered.Load() {
		if h := d.durableHalt(durable); h != nil {
			all = append(all, HaltedSymbol{d.symbol, *h})
		}
	}
	slices.SortFunc(all, func(a, b HaltedSymbol) int { return cmp.Compare(a.Symbol, b.Symbol) })
	return all
}

// durableHalt returns the halt that readers may see, that of the last record up to durable, or nil if the symbol
// accepts orders.
func (d *shard) durableHalt(durable uint64) (h *exchange.Halt) {
	for _, c := range d.haltChanges() {
		if c.seq <= durable {
			h = c.halt
		}
	}
	return h
}

// haltChange is a halt or a resume of a symbol, and the record that made it.
type haltChange struct {
	seq  uint64         // seq of the record; 0 for the state at the start, which is durable
	halt *exchange.Halt // nil if the symbol accepts orders
}

// addHaltChange keeps a halt or resume for readers, who may only see it once it is durable. It drops older changes,
// except the last durable one. So it keeps one entry for each change that is not durable yet.
func (d *shard) addHaltChange(seq uint64, h *exchange.Halt) {
	changes, durable := d.haltChanges(), d.engine.durable.seq()
	for len(changes) > 1 && changes[1].seq <= durable {
		changes = changes[1:]
	}
	changes = append(slices.Clone(changes), haltChange{seq, h})
	d.halts.Store(&changes)
}

// haltChanges returns the changes that are kept, oldest first, or the zero haltChange if none is kept.
func (d *shard) haltChanges() []haltChange {
	if all := d.halts.Load(); all != nil {
		return *all
	}
	return []haltChange{{}}
}
