package engine

import (
	"errors"
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
	canceling *exchange.Account // account whose orders a cancelAll records and releases; mostly nil
	withdrawn uint64            // number of holds released because the journal had no room for their orders
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

// shard owns one symbol: its book, and the queue of its closed orders that are still in
// memory. Only the inbox's goroutine, which exists while the symbol has work, uses the
// fields, except inbox, endedMu with ended, and the atomic fields.
type shard struct {
	engine     *Engine
	inbox      inbox
	symbol     exchange.Symbol
	instrument *exchange.Instrument // its contents are guarded by Engine.mu
	book       *exchange.Book
	closed     closedQueue
	connected  connected

	endedMu sync.Mutex
	ended   []*Origin // ended connections with orders at this shard, until its next chore; guarded by endedMu

	closedCount atomic.Int64 // closed orders of the book in memory; the sweeper reads it
	activity    activity
	halts       atomic.Pointer[[]haltChange] // recent halts and resumes, for any goroutine; nil before the first

	*scratch // nil while the shard has no goroutine
}

// scratch is memory that every command reuses.
type scratch struct {
	// Every order uses these fields. They are adjacent to share cache lines, which move between processors.
	order     exchange.Order
	fills     []exchange.Fill
	event     exchange.Event
	record    []byte
	unsettled bool // the command depends on an order that is not settled or on a cancelAll in progress: retry it

	accounts [8]*exchange.Account // accounts of the last commands, by the last digit of the id; see find

	cancels []exchange.Cancel
	judged  judged
	old     exchange.Order // the order that an amend changes
}

// judged has the results of judging d.order.
type judged struct {
	unsent exchange.Unsent // terms that the command did not send and that were filled in
	quote  exchange.Quote  // what the order would execute now; set only for FOK and market orders
}

// Request is a command from a client together with options that only the engine evaluates.
type Request struct {
	exchange.Command

	OwnOnly bool // rejects a QueryOrder as ForeignOrder if the order belongs to another account
	Repeat  bool // rejects a command with a ref as RateExceeded unless the ref was used by the same command before
	// Lags means that followers of the journal have too much work of the client. An AmendOrder that would replace its
	// order is then rejected as RateExceeded, and the text of RateExceeded says why.
	Lags bool
	// Origin is the connection of a PlaceOrder with OnDisconnect. nil means a connection that has ended.
	Origin *Origin
}

// openShard makes the shard that owns a symbol's book from now on. li is the symbol's
// instrument in the ledger.
func (e *Engine) openShard(li *exchange.Instrument, book *exchange.Book) *shard {
	d := &shard{engine: e, symbol: li.Symbol, book: book, instrument: li}
	d.inbox.engine, d.inbox.owner = e, d
	d.countRestored()
	e.number(d)
	e.counters.symbols.Add(1)
	e.shards.Store(li.Symbol, d)
	return d
}

// countRestored counts the open orders of a restored book and publishes its halt.
func (d *shard) countRestored() {
	d.engine.counters.openOrders.Add(int64(d.book.Resting()))
	if h := d.book.Halted(); h != nil {
		d.halts.Store(&[]haltChange{{halt: h}})
	}
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

// account returns an account, or nil if it does not exist.
func (e *Engine) account(id exchange.AccountID) *exchange.Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ledger.Account(id)
}

// find returns an account, or nil if it does not exist. Most commands are for an account of the last ones, and
// accounts are never removed, so a few are kept, which needs no lock.
func (d *shard) find(id exchange.AccountID) *exchange.Account {
	if id == "" {
		return nil
	}
	kept := &d.accounts[id[len(id)-1]%byte(len(d.accounts))]
	if *kept == nil || (*kept).ID != id {
		*kept = d.engine.account(id)
	}
	return *kept
}

// dueOf returns when the switch of an account fires, 0 if it is not armed.
func (e *Engine) dueOf(a *exchange.Account) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return a.Due()
}

// lastOrderID returns the highest id given to an order, in this run or before it.
func (e *Engine) lastOrderID() exchange.OrderID {
	if last := e.lastOrder.Load(); last > e.counters.lastAtStart {
		return exchange.OrderID(last)
	}
	return e.lastKnown
}

// closing reports whether Close has begun.
func (e *Engine) closing() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}

// setFailed records that the journal has failed and accepts no more records.
func (e *Engine) setFailed() { e.failed.Store(true) }
