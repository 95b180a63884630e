package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
	"outcry/internal/process/recent"
)

// Options configure a View.
type Options struct {
	// Records are those after the snapshot that may be shown.
	Records *trail.Follower[exchange.KeptEvent]
	// Fills reads the fills that the view no longer keeps, from the database; nil without one. It returns up to most
	// fills of an account with numbers above after, without a gap, as far as the database has them. first is the number
	// of the oldest stored fill above after, which is the first one returned. The error says why they could not be read.
	// Fills is called by many goroutines.
	Fills func(ctx context.Context, id exchange.AccountID, after uint64, most int) (
		fills []exchange.AccountFill, first uint64, err error)
	Log *slog.Logger
}

// View is the state of all accounts after the last applied record. Run is its goroutine; its other methods may be
// called from any goroutine.
type View struct {
	options Options
	seq     atomic.Uint64         // seq of the last applied record
	broken  atomic.Pointer[error] // why the view has failed; nil while it works
	records *trail.Follower[exchange.KeptEvent]

	listening atomic.Int64 // number of listeners

	// feeding is held while records are applied and delivered to listeners, and while a listener is added or
	// removed. It is locked before mu.
	feeding sync.Mutex
	due     []interface{ deliver() } // audiences with news from the records just applied
	ended   error                    // the error that listeners got when the view ended

	// mu guards the fields below. Only Run writes to them, except for watches and listeners, so Run may read the
	// others without it.
	mu             sync.RWMutex
	scratch        exchange.Event   // memory for event
	event          *exchange.Event  // record that is being applied
	at             uint64           // seq of that record
	incoming       orderMore        // rarely used fields of the order that the record accepts
	posting        exchange.Posting // memory for the record's postings
	makers         []*account       // owners of the resting orders in the record's fills
	recentAccounts recent.Values[exchange.AccountID, *account]
	recentSymbols  recent.Values[exchange.Symbol, symbolNumber]
	touched        []*watch   // watched accounts that the record has changed so far
	resting        []*resting // books with listeners that the record has changed so far
	accounts       map[exchange.AccountID]*account
	list           []*account // by account.number
	symbols        map[exchange.Symbol]symbolNumber
	markets        []symbol // by symbolNumber
	fills          fills
	open           openOrders
	watches        map[exchange.AccountID]*watch
	unopened       int // watches of accounts that are not open yet
	kept           kept
	swept          time.Time // time of the last sweep; used only by Run
}

// Seq returns the seq of the last applied record.
func (v *View) Seq() uint64 { return v.seq.Load() }

// Err returns the reason why the view has failed, or nil while it works.
func (v *View) Err() error {
	if broken := v.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// ErrUnknownAccount and ErrUnknownSymbol mean that the account or symbol is not in the view yet. ErrUnavailable is
// wrapped by errors that mean that the view has failed or did not have the record in time.
var (
	ErrUnknownAccount = errors.New("accounts: there is no such account")
	ErrUnknownSymbol  = errors.New("accounts: there is no such symbol")
	ErrUnavailable    = errors.New("accounts: the view of accounts is not available")
)

// errEnded means that the view applies no more records.
var errEnded = errors.New("accounts: the view has ended")

// find returns an account and a symbol. The error names the one that does not exist.
func (v *View) find(id exchange.AccountID, s exchange.Symbol) (*account, symbolNumber, error) {
	a := v.findAccount(id)
	if a == nil {
		return nil, 0, fmt.Errorf("account %s was never opened", id)
	}
	sym, made := v.findSymbol(s)
	if !made {
		return nil, 0, fmt.Errorf("symbol %s was never made", s)
	}
	return a, sym, nil
}

// findAccount returns an account, nil if it was never opened. Only Run may call it.
func (v *View) findAccount(id exchange.AccountID) *account {
	a, ok := v.recentAccounts.Find(id)
	if !ok {
		if a = v.accounts[id]; a != nil {
			v.recentAccounts.Keep(id, a)
		}
	}
	return a
}

// findSymbol returns a symbol. made is false if it was never made. Only Run may call it.
func (v *View) findSymbol(s exchange.Symbol) (n symbolNumber, made bool) {
	if n, made = v.recentSymbols.Find(s); made {
		return n, true
	}
	if n, made = v.symbols[s]; made {
		v.recentSymbols.Keep(s, n)
	}
	return n, made
}

// add makes an account. The id must be new.
func (v *View) add(id exchange.AccountID) *account {
	a := &account{id: exchange.AccountID(strings.Clone(string(id))), number: uint32(len(v.list)),
		orders: orders{all: &v.open}}
	if a.watch = v.watches[a.id]; a.watch != nil {
		v.unopened--
	}
	v.accounts[a.id] = a
	v.list = append(v.list, a)
	return a
}

// addSymbol adds a symbol made by record seq. The symbol must be new.
func (v *View) addSymbol(s exchange.Symbol, seq uint64) *symbol {
	s = exchange.Symbol(strings.Clone(string(s)))
	v.symbols[s] = symbolNumber(len(v.markets))
	v.markets = append(v.markets, symbol{name: s, changed: seq})
	return &v.markets[len(v.markets)-1]
}

// insert adds an open order of an account; m has its rarely used fields. It returns false if the account already has
// one with that id.
func (v *View) insert(a *account, o *order, m *orderMore) bool {
	p, at := v.open.add()
	*at = *o
	if !a.orders.insert(o.id, p) {
		v.open.remove(p)
		return false
	}
	v.markets[o.symbol].open.add(&v.open, p)
	if *m != (orderMore{}) {
		*v.open.with(at) = *m
	}
	return true
}

// remove removes an order that is no longer open.
func (v *View) remove(a *account, o *order) {
	market := &v.markets[o.symbol]
	if b := market.resting; b != nil && b.next != 0 && v.open.at(b.next) == o {
		b.next = o.newer
	}
	market.open.remove(&v.open, o)
	v.open.drop(a.orders.remove(o.id))
}

// detail returns the current state of an open order. Its caller holds mu or feeding.
func (v *View) detail(o *order) exchange.OrderDetail {
	return o.detail(v.markets[o.symbol].name, v.open.moreOf(o))
}

// pack moves some orders to other places if most places are free, so that memory for many orders is not kept for few.
// Pointers to orders are invalid afterwards.
func (v *View) pack() {
	for range packedAtOnce {
		from := v.open.sparse()
		if from == 0 {
			return
		}
		to, o := v.open.add()
		*o = *v.open.at(from)
		v.list[o.account].orders.moved(o.id, to)
		market := &v.markets[o.symbol]
		if market.open.moved(&v.open, o, to); market.resting != nil && market.resting.next == from {
			market.resting.next = to
		}
		v.open.slab.remove(from)
	}
}

// showFill returns the fill with number n as its account sees it. Its caller holds mu.
func (v *View) showFill(n uint64, f *fill) exchange.AccountFill {
	one := exchange.AccountFill{N: n, Order: f.order, Symbol: v.markets[f.symbol].name, Side: exchange.Buy,
		Shares: f.shares, Price: f.price, Time: f.time, Trade: f.trade &^ makerBit, Maker: f.trade&makerBit != 0}
	if f.shares < 0 {
		one.Side, one.Shares = exchange.Sell, -f.shares
	}
	return one
}

// showPositions returns an account's positions, unsorted. Its caller holds mu, and sorts them after releasing it, so
// that requests for an account with very many positions do not hold up the view.
func (v *View) showPositions(a *account) []exchange.PositionView {
	all := make([]exchange.PositionView, len(a.positions))
	for i := range a.positions {
		all[i] = v.showPosition(&a.positions[i])
	}
	return all
}

// showPosition returns a position as its account sees it. Its caller holds mu or feeding.
func (v *View) showPosition(p *position) exchange.PositionView {
	return exchange.PositionView{Symbol: v.markets[p.symbol].name, Shares: p.shares, Held: p.held}
}

// sortPositions sorts positions by symbol, as replies show them.
func sortPositions(all []exchange.PositionView) {
	slices.SortFunc(all, func(p, q exchange.PositionView) int { return cmp.Compare(p.Symbol, q.Symbol) })
}
