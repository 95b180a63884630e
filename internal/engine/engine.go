// Package engine runs the exchange: it routes each command to the one goroutine
// that owns its symbol, which reserves, matches, appends to the journal, settles
// and replies, always in this order.
//
//	session ── Execute ──▶ shard of the symbol (bounded inbox, one goroutine)
//	                         1 reserve   the ledger holds what the order may cost and the
//	                                     journal sets room aside, or the command is rejected
//	                         2 match     the book fills against resting orders
//	                         3 append    one journal record: everything it did
//	                         4 settle    the ledger moves cash and shares
//	                         5 reply     result; the shard executes its next command
//	session ◀─ Durable ─── the journal is synced up to the reply's seq
//
// A task with commands for several symbols moves from shard to shard, in the order of
// its commands, and from the last shard back to the session.
//
// One more goroutine, the registrar, makes accounts and symbols, so that two sessions
// that make the same one at once are serialized. A book belongs to its shard. The
// ledger has one lock, which is held for arithmetic only: never across a channel
// operation, an append or file access.
//
// The files are in layers; a function calls those in its own layer and below:
//
//	engine                                  start and stop
//	execute, recall                         commands of clients
//	halt, rules, stats, digest, standby     operators and the other machines of a cluster
//	background, cancelall                   cancels without a client; cancels in several symbols
//	shard, registrar                        the owners: which function executes a command
//	place, amend, cancel                    commands that change a book, each a list of steps
//	judge, reserve, parts, append, settle   the steps; parts is for orders of several records
//	inbox, task, route, refs                how a task gets to its owners and is executed once
//	query, mark                             what a result says, and when it may be sent
//	state                                   what all of them share
package engine

import (
	"cmp"

	"outcry/internal/exchange"
)

// New starts the goroutines of an exchange in the given state, all of whose records are in
// the journal or in the projection. Callers end it with Close.
func New(o Options) *Engine {
	steady := o.steadyClock()
	o.setDefaults()
	standby, refs := o.Standby, (*refIndex)(nil)
	if standby != nil {
		o.State, refs = standby.handOver(o.Journal.Appended())
		o.Standby = nil
	} else {
		refs = newRefIndex(o.State.Refs, o.History)
	}
	o.notBefore(o.State.Time)
	steady.wall = o.Now
	e := &Engine{refs: refs, options: o, log: o.Journal, ledger: o.State.Ledger, index: o.State.Index,
		stop:  make(chan struct{}),
		awake: make(map[*inbox]struct{}), barrier: make(chan struct{}, 1)}
	e.durable.log = e.log
	e.durable.shared, _ = e.log.(Shared)
	if o.AckPostgres {
		e.durable.projection = o.Projection
	}
	e.SetLimits(Limits{ClosedOrdersMax: o.ClosedOrdersMax, BacklogMax: o.BacklogMax,
		SymbolsMax: o.SymbolsMax, AccountsMax: o.AccountsMax, OpenOrdersMax: o.OpenOrdersMax,
		AccountOpenOrdersMax: o.AccountOpenOrdersMax, OrderValueMin: o.OrderValueMin})
	e.tasks.New = func() any { return &task{done: make(chan struct{}, 1)} }
	e.lastKnown = o.State.OrderID
	e.lastOrder.Store(uint64(o.State.OrderID))
	if o.OrdersAfter > e.lastOrder.Load() {
		e.lastOrder.Store(o.OrdersAfter)
	}
	e.counters.lastAtStart = e.lastOrder.Load()
	e.counters.accounts.Store(int64(e.ledger.Accounts()))
	// One part of an order must always fit into a segment.
	e.index.FillsMax = min(cmp.Or(e.index.FillsMax, exchange.FillsMax), exchange.PartFillsFor(e.log.ClaimBytesMax()))
	none := make([]*shard, e.index.Books())
	e.numbered.Store(&none)
	for sym, book := range o.State.Books {
		e.openShard(e.ledger.Instrument(sym), book)
	}
	e.queueRestored(standby)
	for _, d := range *e.numbered.Load() {
		e.finishFirst(d)
	}
	e.registrar = &registrar{engine: e, symbols: len(o.State.Books)}
	e.registrar.inbox.engine, e.registrar.inbox.owner = e, e.registrar
	e.keeper.init(steady)
	e.restoreSwitches()
	e.running.Go(e.endIdleOwners)
	e.running.Go(e.keep)
	if o.Projection != nil {
		e.running.Go(e.sweep)
	}
	return e
}

// queueRestored queues the closed orders of restored books for forgetting. A standby knows which record closed
// each; without one they all count as closed by the journal's last record.
func (e *Engine) queueRestored(s *Standby) {
	shards := *e.numbered.Load()
	if s != nil {
		for _, c := range s.closed.Items() {
			shards[c.book].close(c.seq, c.orders)
		}
		return
	}
	for _, d := range shards {
		if n := d.book.Closed(); n > 0 {
			d.close(e.log.Appended(), n)
		}
	}
}

// finishFirst makes a shard finish an unfinished order of its book before any other task. If there is no room for its
// records, the next command tries again.
func (e *Engine) finishFirst(d *shard) {
	if d.book.Unfinished() == 0 {
		return
	}
	t := &task{done: make(chan struct{}, 1), request: &call{work: func() error {
		_, err := d.finish()
		return err
	}}}
	_ = d.inbox.offer(t) // cannot fail: the inbox is still empty
}

// restoreSwitches arms the switches of a restored state, and sets e.ruled if an account has rules.
func (e *Engine) restoreSwitches() {
	for a := range e.ledger.Ruled() {
		if a.Rules() != nil {
			e.ruled.Store(true)
		}
		e.keeper.arm(a, a.Due())
	}
}

// Interrupt makes all commands that have not begun end with ErrStopped. An order that is
// executing in parts stops after its current part, and the next start finishes it.
// Execute then returns soon. Interrupt is for a stop that has run out of time; Close also
// calls it.
func (e *Engine) Interrupt() { e.interrupted.Store(true) }

// Close ends all goroutines and waits for them. Calls of Execute and Durable
// in progress return ErrStopped or their result. The journal stays
// open: the caller closes it.
func (e *Engine) Close() {
	e.Interrupt()
	close(e.stop)
	e.endOwners()
	e.refs.end()
	e.running.Wait()
}

// endOwners ends all owners once Close has begun. They first return the tasks in their inboxes, because sessions may
// be waiting for them. No owner starts later: wake checks whether Close has begun, under awakeMu, which awakeNow also
// holds.
func (e *Engine) endOwners() {
	for _, in := range e.awakeNow() {
		in.mu.Lock()
		in.nudge()
		in.mu.Unlock()
	}
}

// State returns the state of the exchange. It must only be called after Close has
// returned. If the journal has failed, the state may contain changes that are in no
// record. State.Time is not set.
func (e *Engine) State() *exchange.State {
	s := &exchange.State{Ledger: e.ledger, Books: make(map[exchange.Symbol]*exchange.Book), Index: e.index,
		Refs: e.refs.table, OrderID: e.lastOrderID()}
	e.shards.Range(func(sym, d any) bool {
		s.Books[sym.(exchange.Symbol)] = d.(*shard).book
		return true
	})
	return s
}
