// Package engine runs the exchange: it routes each command to the one goroutine
// that owns its symbol, which reserves, matches, appends to the journal, settles
// and replies, always in this order.
//
//	session ── Execute ──▶ shard of the symbol (bounded inbox, one goroutine)
//	                         1 reserve   the ledger takes the hold and the journal
//	                                     sets room aside, or the command is rejected
//	                         2 match     the book fills against resting orders
//	                         3 append    one journal record: everything it did
//	                         4 settle    the ledger moves cash and shares
//	                         5 reply     result; the shard takes its next command
//	session ◀─ Durable ─── the journal is synced up to the reply's seq
//
// A task with commands for several symbols moves from shard to shard, in the order of
// its commands, and from the last shard back to the session.
//
// One more goroutine, the registrar, makes accounts and symbols, so that two sessions
// that make the same one at once are serialized. A book belongs to its shard. The
// ledger has one lock, which is held for arithmetic only: never across a channel
// operation, an append or file access.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"outcry/internal/exchange"
)

// ErrStopped is returned by Execute and Durable once the engine is closed.
var ErrStopped = errors.New("engine: stopped")

// Engine is a running exchange. Its methods may be called from any goroutine.
type Engine struct {
	options   Options
	log       Log
	durable   durability
	registrar *registrar
	shards    sync.Map                 // exchange.Symbol → *shard; a shard is never removed
	index     *exchange.Index          // finds the book of each order in memory
	numbered  atomic.Pointer[[]*shard] // shards by the number of their book; the slice only grows
	tasks     sync.Pool

	lastOrder atomic.Uint64 // highest order id in use; New may raise it to Options.OrdersAfter
	counters  counters
	limits    limits

	// mu guards the ledger and the fields below, except failed, which is atomic.
	mu        sync.Mutex
	ledger    *exchange.Ledger
	refs      *refIndex         // mu guards its table only
	canceling *exchange.Account // account whose orders a cancelAll is about to record; mostly nil
	withdrawn uint64            // holds taken back because the journal had no room for their orders
	failed    atomic.Bool       // the journal has failed and accepts no more records

	// awakeMu guards the set of owners that have a goroutine.
	awakeMu    sync.Mutex
	awake      map[*inbox]struct{}
	awakeCount atomic.Int64 // len(awake)

	keeper     keeper
	cancelAlls cancelAllRates
	arms       cancelAllRates // how often each account set its switch in the journal's reserve
	ruled      atomic.Bool    // some account has, or had, rules
	unresumed  atomic.Bool    // Catchup has started and is not complete
	switchMu   sync.Mutex     // held while a record of a dead man's switch is appended and applied

	barrier   chan struct{}    // holds one value while a cancelAll holds shards
	lastKnown exchange.OrderID // the highest order id in the state that New was given

	// An engine stops in two steps. After Interrupt no command begins; commands in the inboxes
	// return ErrStopped. After Close no owner starts any more either, and no caller keeps waiting.
	interrupted atomic.Bool
	stop        chan struct{}  // closed by Close; see closing
	running     sync.WaitGroup // counts all goroutines of the engine
}

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
	e.adoptClosed(standby)
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

// openShard makes the shard that owns a symbol's book from now on. li is the symbol's
// instrument in the ledger.
func (e *Engine) openShard(li *exchange.Instrument, book *exchange.Book) *shard {
	d := &shard{engine: e, symbol: li.Symbol, book: book, instrument: li}
	d.inbox.engine, d.inbox.owner = e, d
	d.adopt()
	e.number(d)
	e.counters.symbols.Add(1)
	e.shards.Store(li.Symbol, d)
	return d
}

// number makes a shard findable by the number of its book, before any session can find the
// shard by its symbol. Only New and, after it, the registrar call it.
func (e *Engine) number(d *shard) {
	shards := *e.numbered.Load()
	if n := d.book.Number(); n < len(shards) {
		shards[n] = d
		return
	}
	shards = append(shards, d) // safe without a copy: readers of the shorter slice never read the new element
	e.numbered.Store(&shards)
}

// holder returns the shard whose book has an order, or nil if no book in memory has it.
func (e *Engine) holder(id exchange.OrderID) *shard {
	if number, found := e.index.Book(id); found {
		return (*e.numbered.Load())[number]
	}
	return nil
}

// Execute executes the commands in order and fills results, which has the same
// length. The caller must not send any byte of the results, not even of rejects and
// queries, before Durable has returned nil for the mark.
//
// If a query or a cancel is for an order that is no longer in memory, only in the
// database, its result is pending as InHistory, and Recall completes it. Executions in
// results belong to the exchange and must not be written to.
//
// An error means that the exchange has failed or is stopping, or that ctx ended
// before an inbox accepted a command. Some commands may then have been executed and
// others not, and no result may be sent.
func (e *Engine) Execute(ctx context.Context, commands []Request, results []exchange.Result) (Mark, error) {
	clock := e.newStageClock()
	if err := e.pace(ctx); err != nil {
		return Mark{}, err
	}
	clear(results)
	t := e.tasks.Get().(*task)
	t.commands, t.results, t.next, t.err, t.clock, t.appended = commands, results, 0, nil, clock, false
	if hasRefs(commands) {
		t.refs = e.lookUp(ctx, commands)
	}
	if reusable, err := e.executeAll(ctx, t); err != nil {
		if reusable {
			e.recycle(t)
		}
		return Mark{}, err
	}
	e.reportStages(&t.clock)
	appended := t.appended
	e.recycle(t)
	if e.failed.Load() {
		// A book may have changes that are in no record although the journal's last record
		// still becomes durable: no result may be sent any more.
		return Mark{}, fmt.Errorf("engine: %w", e.log.Err())
	}
	return e.mark(appended), nil
}

// executeAll executes all commands of a task: through their owners, or in this goroutine if a command has no
// owner. After an error, reusable reports whether it is certain that no owner still holds the task.
func (e *Engine) executeAll(ctx context.Context, t *task) (reusable bool, err error) {
	for retries := 0; ; {
		in := e.nextOwner(t)
		if in == nil && t.next == len(t.commands) {
			return true, nil
		}
		at := t.next
		if in == nil {
			reusable, err = true, e.cancelAllOf(ctx, t)
		} else {
			reusable, err = e.hand(ctx, in, t)
		}
		if err == nil && t.retryLater {
			if t.retryLater = false; t.next > at {
				retries = 0
			}
			err = e.pause(ctx, retries)
			retries++
		}
		if err != nil {
			return reusable, err
		}
	}
}

// owner returns the inbox of the owner that executes a command, or nil if there is no known owner.
// If the command names an order by a ref, it sets r.Order to that order, or r.Reason to why it has none.
func (e *Engine) owner(c *exchange.Command, r *exchange.Result, l *lookup) *inbox {
	var d any
	switch c.Kind {
	case exchange.OpenAccount, exchange.SetSwitch:
		return &e.registrar.inbox
	case exchange.CancelAll, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
		return nil
	case exchange.MakeSymbol, exchange.DepositShares, exchange.PlaceOrder:
		d, _ = e.shards.Load(c.Symbol)
	case exchange.QueryOrder, exchange.CancelOrder, exchange.ShowOrder, exchange.AmendOrder:
		var symbol exchange.Symbol
		if c.Ref != "" {
			r.Order, symbol, r.Reason = e.namedOrder(c, l)
		}
		if d := e.holder(c.Names(r)); d != nil {
			return &d.inbox
		}
		if symbol != "" { // memory may have dropped this order but still have one that replaced it
			d, _ = e.shards.Load(symbol)
		}
	}
	if d == nil {
		return nil
	}
	return &d.(*shard).inbox
}

// route returns the inbox of the owner that executes a command. If there is no such inbox, it
// answers the command itself and returns nil.
func (e *Engine) route(c *exchange.Command, r *exchange.Result, l *lookup) *inbox {
	inbox := e.owner(c, r, l)
	switch {
	case inbox != nil:
		return inbox
	case r.Reason != exchange.OK: // the command's ref names no order
	case c.Kind == exchange.MakeSymbol:
		return &e.registrar.inbox
	case c.Kind == exchange.ShowOrder:
		e.answerAbsent(c.Order, r)
	case c.Kind != exchange.DepositShares && e.account(c.Account) == nil:
		r.Reason = exchange.UnknownAccount
	case c.Kind == exchange.QueryOrder || c.Kind == exchange.CancelOrder || c.Kind == exchange.AmendOrder:
		e.answerAbsent(c.Names(r), r)
	case c.Kind.Views():
		e.inView(c, r)
	default:
		r.Reason = exchange.UnknownSymbol
	}
	return nil
}

// account returns an account, or nil if it does not exist.
func (e *Engine) account(id exchange.AccountID) *exchange.Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.Account(id)
}

// append appends one record to the journal and uses the room that was claimed for it. An
// error is final: the exchange has failed, and the contents of the record must not
// become visible.
func (e *Engine) append(record []byte, claimed int) (uint64, error) {
	seq, err := e.log.AppendClaimed(record, claimed)
	if err != nil {
		return 0, fmt.Errorf("engine: %w", err)
	}
	return seq, nil
}

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

// lastOrderID returns the highest id given to an order, in this run or before it.
func (e *Engine) lastOrderID() exchange.OrderID {
	if last := e.lastOrder.Load(); last > e.counters.lastAtStart {
		return exchange.OrderID(last)
	}
	return e.lastKnown
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
