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
)

// Options are what a View needs.
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
	mu          sync.RWMutex
	scratch     exchange.Event  // memory for event
	event       *exchange.Event // record that is being applied
	at          uint64          // seq of that record
	incoming    orderMore       // rarely used fields of the order that the record accepts
	touched     []*watch        // watched accounts that the record has changed so far
	resting     []*resting      // books with listeners that the record has changed so far
	accounts    map[exchange.AccountID]*account
	list        []*account // by account.number
	symbols     map[exchange.Symbol]symbolNumber
	markets     []symbol // by symbolNumber
	fills       fills
	spareOrders spareOrders
	watches     map[exchange.AccountID]*watch
	unopened    int // watches of accounts that are not open yet
	kept        kept
	swept       time.Time // time of the last sweep; used only by Run
}

// Seq returns the seq of the last applied record.
func (v *View) Seq() uint64 { return v.seq.Load() }

// Err returns why the view has failed, nil while it works.
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
	a := v.accounts[id]
	if a == nil {
		return nil, 0, fmt.Errorf("account %s was never opened", id)
	}
	sym, made := v.symbols[s]
	if !made {
		return nil, 0, fmt.Errorf("symbol %s was never made", s)
	}
	return a, sym, nil
}

// add makes an account. The id must be new.
func (v *View) add(id exchange.AccountID) *account {
	a := &account{id: exchange.AccountID(strings.Clone(string(id))), number: uint32(len(v.list)),
		orders: orders{spare: &v.spareOrders}}
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

// insert adds an open order of an account. It returns false if the account already has one with that id.
func (v *View) insert(a *account, o order) bool {
	open := &v.markets[o.symbol].open
	o.place = uint32(open.len())
	if !a.orders.insert(o) {
		return false
	}
	open.add(openOrder{o.id, a.number})
	return true
}

// remove removes an order that is no longer open. Pointers to orders of its account are invalid afterwards.
func (v *View) remove(a *account, o *order) {
	if moved := v.markets[o.symbol].open.remove(o.place); moved != nil {
		v.list[moved.account].orders.find(moved.id).place = o.place
	}
	a.orders.remove(o.id)
}

// openOf returns the open orders of a symbol. The pointers are valid until an order is added or removed.
func (v *View) openOf(n symbolNumber) []*order {
	open := &v.markets[n].open
	all := make([]*order, 0, open.len())
	for _, chunk := range open.chunks {
		for _, o := range chunk {
			all = append(all, v.list[o.account].orders.find(o.id))
		}
	}
	return all
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
		p := &a.positions[i]
		all[i] = exchange.PositionView{Symbol: v.markets[p.symbol].name, Shares: p.shares, Held: p.held}
	}
	return all
}

// sortPositions sorts positions by symbol, as replies show them.
func sortPositions(all []exchange.PositionView) {
	slices.SortFunc(all, func(p, q exchange.PositionView) int { return cmp.Compare(p.Symbol, q.Symbol) })
}
