// Package engine runs the exchange: it routes each command to the one goroutine
// that owns its symbol, and there reserves, matches, appends to the journal,
// settles and answers, in this order and nowhere else.
//
//	session ── Execute ──▶ shard of the symbol (bounded inbox, one goroutine)
//	                         1 reserve   the ledger takes the hold and the journal
//	                                     sets room aside, or they say why not
//	                         2 match     the book fills against resting orders
//	                         3 append    one journal record: everything it did
//	                         4 settle    the ledger moves cash and shares
//	                         5 reply     result; the shard goes on
//	session ◀─ Durable ─── the journal is synced up to the reply's seq
//
// What is for several symbols goes from shard to shard, in the order of its commands,
// and from the last one back to the session.
//
// Accounts and symbols are made by one more goroutine, the registrar, so that
// two sessions that make the same one at once meet in one place. A book belongs
// to its shard. The ledger has one lock, which is held for arithmetic alone:
// never across a channel, an append or a file.
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
	index     *exchange.Index          // of the orders that memory holds
	numbered  atomic.Pointer[[]*shard] // by the number of the book; only ever longer
	tasks     sync.Pool

	lastOrder atomic.Uint64 // the highest order id given out, or that must not be
	counters  counters
	limits    limits

	// mu guards the ledger and everything in it.
	mu        sync.Mutex
	ledger    *exchange.Ledger
	refs      *refIndex         // its table
	canceling *exchange.Account // whose orders a cancel of all is about to record; mostly nil
	withdrawn uint64            // holds that were taken back, as their orders found no room
	failed    atomic.Bool       // the journal takes no records any more

	// awakeMu guards which owners have a goroutine.
	awakeMu    sync.Mutex
	awake      map[*inbox]struct{}
	awakeCount atomic.Int64 // how many are awake

	keeper     keeper
	cancelAlls cancelAllRates
	arms       cancelAllRates // of switches, in the journal's reserve
	ruled      atomic.Bool    // an account has rules, or had some
	unresumed  atomic.Bool    // see Catchup
	switchMu   sync.Mutex     // held while a record of a dead man's switch is appended and done

	barrier   chan struct{}    // holds one value while a cancelAll holds shards
	lastKnown exchange.OrderID // the highest id that an order had at the start

	// An engine ends in two steps. Interrupt: no command begins any more, those in the inboxes
	// come back with ErrStopped. Close: no owner begins any more either, and nobody waits.
	interrupted atomic.Bool
	stop        chan struct{}  // closed by Close, see closing
	running     sync.WaitGroup // all goroutines
}

// New starts the goroutines of an exchange in the given state. The state's
// records are all in the journal or in the projection. Close ends it.
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
	o.neverBefore(o.State.Time)
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
	// A part of an order always fits into a segment.
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
	e.adoptRuled()
	e.running.Go(e.restIdle)
	e.running.Go(e.keep)
	if o.Projection != nil {
		e.running.Go(e.sweep)
	}
	return e
}

// openShard makes the shard that owns a symbol's book from now on. The instrument is its
// ledger's, and has the symbol's name.
func (e *Engine) openShard(li *exchange.Instrument, book *exchange.Book) *shard {
	d := &shard{engine: e, symbol: li.Symbol, book: book, instrument: li}
	d.inbox.engine, d.inbox.owner = e, d
	d.adopt()
	e.number(d)
	e.counters.symbols.Add(1)
	e.shards.Store(li.Symbol, d)
	return d
}

// number enters a shard where it is found by the number of its book, before it is known
// to any session. Only New and then the registrar call it.
func (e *Engine) number(d *shard) {
	shards := *e.numbered.Load()
	if n := d.book.Number(); n < len(shards) {
		shards[n] = d
		return
	}
	shards = append(shards, d) // readers of the shorter list do not look at the new place
	e.numbered.Store(&shards)
}

// holder returns the shard that holds an order, nil where none does.
func (e *Engine) holder(id exchange.OrderID) *shard {
	if number, found := e.index.Book(id); found {
		return (*e.numbered.Load())[number]
	}
	return nil
}

// Execute does the commands in their order and fills results, which has the same
// length. No byte of the results may be told, rejects and queries included, before
// Durable has returned nil for the mark.
//
// A query or a cancel of an order that is not in memory any more, and so only in
// the database, comes back as InHistory: Recall asks there. Executions in
// results belong to the exchange and must not be written to.
//
// An error means that the exchange has failed or is stopping, or that ctx ended
// before a command was taken in: some commands may have been done, others not,
// and nothing may be told.
func (e *Engine) Execute(ctx context.Context, commands []Request, results []exchange.Result) (Mark, error) {
	clock := e.begins()
	if err := e.pace(ctx); err != nil {
		return Mark{}, err
	}
	clear(results)
	t := e.tasks.Get().(*task)
	t.commands, t.results, t.next, t.err, t.clock, t.appended = commands, results, 0, nil, clock, false
	if hasRefs(commands) {
		t.refs = e.lookUp(ctx, commands)
	}
	if reusable, err := e.walk(ctx, t); err != nil {
		if reusable {
			e.recycle(t)
		}
		return Mark{}, err
	}
	e.ended(&t.clock)
	appended := t.appended
	e.recycle(t)
	if e.failed.Load() {
		// A book may hold what no record says, and the journal's last record be synced
		// all the same: nothing may be told any more.
		return Mark{}, fmt.Errorf("engine: %w", e.log.Err())
	}
	return e.mark(appended), nil
}

// walk has all commands of a task done, by their owners and those that have none by its caller.
// After an error reusable reports whether no owner can have the task any more.
func (e *Engine) walk(ctx context.Context, t *task) (reusable bool, err error) {
	for again := 0; ; {
		in := e.onward(t)
		if in == nil && t.next == len(t.commands) {
			return true, nil
		}
		at := t.next
		if in == nil {
			reusable, err = true, e.cancelAllOf(ctx, t)
		} else {
			reusable, err = e.hand(ctx, in, t)
		}
		if err == nil && t.again {
			if t.again = false; t.next > at {
				again = 0
			}
			err = e.pause(ctx, again)
			again++
		}
		if err != nil {
			return reusable, err
		}
	}
}

// owner returns the inbox where a command is done, nil where no owner is known. It
// enters the order that a ref names into r, or why there is none.
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
		if symbol != "" { // the order may be forgotten, and one that has replaced it not
			d, _ = e.shards.Load(symbol)
		}
	}
	if d == nil {
		return nil
	}
	return &d.(*shard).inbox
}

// route returns the inbox where a command is to be done. Where there is none, it
// answers the command itself and returns nil.
func (e *Engine) route(c *exchange.Command, r *exchange.Result, l *lookup) *inbox {
	inbox := e.owner(c, r, l)
	switch {
	case inbox != nil:
		return inbox
	case r.Reason != exchange.OK: // of a ref that names no order
	case c.Kind == exchange.MakeSymbol:
		return &e.registrar.inbox
	case c.Kind == exchange.ShowOrder:
		e.absent(c.Order, r)
	case c.Kind != exchange.DepositShares && e.account(c.Account) == nil:
		r.Reason = exchange.UnknownAccount
	case c.Kind == exchange.QueryOrder || c.Kind == exchange.CancelOrder || c.Kind == exchange.AmendOrder:
		e.absent(c.Names(r), r)
	case c.Kind.Views():
		e.inView(c, r)
	default:
		r.Reason = exchange.UnknownSymbol
	}
	return nil
}

// account returns an account, nil if there is none.
func (e *Engine) account(id exchange.AccountID) *exchange.Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.Account(id)
}

// append puts one record into the journal, with room for it that was claimed. An
// error is final: the exchange has failed, and what the record says must not
// become visible.
func (e *Engine) append(record []byte, claimed int) (uint64, error) {
	seq, err := e.log.AppendClaimed(record, claimed)
	if err != nil {
		return 0, fmt.Errorf("engine: %w", err)
	}
	return seq, nil
}

// Close ends all goroutines and waits for them. Calls of Execute and Durable
// that are under way return ErrStopped or what they came to. The journal stays
// open: it is the caller's.
func (e *Engine) Close() {
	e.Interrupt()
	close(e.stop)
	e.endOwners()
	e.refs.end()
	e.running.Wait()
}

// lastOrderID returns the highest id that an order has.
func (e *Engine) lastOrderID() exchange.OrderID {
	if last := e.lastOrder.Load(); last > e.counters.lastAtStart {
		return exchange.OrderID(last)
	}
	return e.lastKnown
}

// State returns the exchange as it stands, for callers who read it once
// Close has returned; it must not be called before. Where the journal has failed,
// it may hold what no record says. Its Time is not set.
func (e *Engine) State() *exchange.State {
	s := &exchange.State{Ledger: e.ledger, Books: make(map[exchange.Symbol]*exchange.Book), Index: e.index,
		Refs: e.refs.table, OrderID: e.lastOrderID()}
	e.shards.Range(func(sym, d any) bool {
		s.Books[sym.(exchange.Symbol)] = d.(*shard).book
		return true
	})
	return s
}
