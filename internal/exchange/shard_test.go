package exchange

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shard executes commands on a State as the engine does, one at a time, and keeps
// the events. A rejected command has no event.
type shard struct {
	*State
	now        int64
	events     []Event
	afterEvent func() // if not nil, called after each event
}

// fewFills is the FillsMax of tests, so that many orders execute in parts.
const fewFills = 3

func newShard() *shard {
	d := &shard{State: NewState(), now: 1519348326 * Second}
	d.Index.FillsMax = fewFills
	return d
}

func (d *shard) record(e Event) {
	e.Time = d.now
	d.events = append(d.events, e)
	if d.afterEvent != nil {
		d.afterEvent()
	}
}

func (d *shard) open(id AccountID, balance Cash) RejectReason {
	r := d.Ledger.MayOpen(id, balance)
	if r == OK {
		d.Ledger.Open(id, balance)
		d.record(Event{Kind: AccountOpened, Account: id, Balance: balance})
	}
	return r
}

func (d *shard) list(s Symbol) {
	if d.Books[s] == nil {
		d.List(s)
		d.record(Event{Kind: SymbolMade, Symbol: s})
	}
}

func (d *shard) place(s Symbol, id AccountID, p Position) RejectReason {
	in := d.Ledger.Instrument(s)
	if in == nil {
		return UnknownSymbol
	}
	r := d.Ledger.MayDeposit(in, id, p)
	if r == OK {
		d.Ledger.Deposit(in, id, p)
		d.record(Event{Kind: SharesDeposited, Symbol: s, Account: id, Deposited: p})
	}
	return r
}

// order places an order. It returns the order and its fills, or the reason why it was rejected.
func (d *shard) order(id AccountID, s Symbol, side Side, shares Shares, limit Price) (*Order, []Fill, RejectReason) {
	in, account := d.Ledger.Instrument(s), d.Ledger.Account(id)
	switch {
	case account == nil:
		return nil, nil, UnknownAccount
	case in == nil:
		return nil, nil, UnknownSymbol
	}
	if d.Books[s].Halted() != nil {
		return nil, nil, Halted
	}
	o := NewOrder(d.OrderID+1, account, side, shares, limit)
	if r := d.Ledger.Reserve(in, o); r != OK {
		return nil, nil, r
	}
	d.OrderID++
	fills := d.Books[s].Submit(o, d.now, nil)
	d.Ledger.Settle(in, o, fills)
	recorded := asDecoded(fills)
	d.record(Event{Kind: OrderAccepted, Account: id, Symbol: s, Terms: Terms{Side: side, Limit: limit}, Shares: shares,
		Order: o.ID,
		Fills: recorded})
	return o, append(recorded, d.finish(s, o)...), OK
}

// finish executes the further parts of the symbol's unfinished order, if there is one.
func (d *shard) finish(s Symbol, o *Order) (fills []Fill) {
	in, book := d.Ledger.Instrument(s), d.Books[s]
	for book.Unfinished() != 0 {
		before, _ := book.Find(book.Unfinished())
		more := book.Continue(o, d.now, nil)
		d.Ledger.SettleMore(in, o, more)
		d.record(Event{Kind: OrderContinued, Account: o.Account.ID, Symbol: s, Terms: Terms{Side: o.Side, Limit: o.Limit},
			Shares: before.Open, Order: o.ID,
			Before: len(before.Executions), Fills: asDecoded(more)})
		fills = append(fills, asDecoded(more)...)
	}
	return fills
}

// asDecoded returns fills as a decoded event has them.
func asDecoded(fills []Fill) []Fill {
	recorded := slices.Clone(fills)
	for i := range recorded {
		recorded[i].owner, recorded[i].Closed = nil, false
	}
	return recorded
}

func (d *shard) cancel(id AccountID, s Symbol, order OrderID) (Order, RejectReason) {
	o, r := d.Books[s].Cancel(order, id, d.now)
	if r != OK {
		return Order{}, r
	}
	d.Ledger.Release(d.Ledger.Instrument(s), &o)
	d.record(Event{Kind: OrderCanceled, Account: id, Symbol: s, Terms: Terms{Side: o.Side, Limit: o.Limit},
		Shares: o.Canceled,
		Order:  order})
	return o, OK
}

// find returns an order and its symbol, from the book that has it.
func (d *shard) find(id OrderID) (Order, Symbol) {
	for s, b := range d.Books {
		if o, found := b.Find(id); found {
			return o, s
		}
	}
	return Order{}, ""
}

// dump prints everything that must be equal in two equal states, sorted.
func dump(s *State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "orders up to %d, opened with %s\n", s.OrderID, s.Ledger.opened)
	for _, a := range slices.SortedFunc(s.Ledger.accounts.all(),
		func(a, b *Account) int { return cmp.Compare(a.ID, b.ID) }) {
		fmt.Fprintf(&b, "account %s: %s free, %s held, %d unsettled\n", a.ID, a.balance, a.held, a.unsettled)
	}
	for _, sym := range slices.Sorted(maps.Keys(s.Books)) {
		in := s.Ledger.Instrument(sym)
		fmt.Fprintf(&b, "symbol %s: %s placed\n", sym, in.deposited)
		if h := s.Books[sym].Halted(); h != nil {
			fmt.Fprintf(&b, "  halted since %d: %s\n", h.Since, h.Reason)
		}
		holders := slices.SortedFunc(maps.Keys(in.positions), func(a, b *Account) int { return cmp.Compare(a.ID, b.ID) })
		for _, a := range holders {
			if h := in.positions[a]; *h != (position{}) { // an empty position is like no position
				fmt.Fprintf(&b, "  account %s: %s free, %s held\n", a.ID, h.shares, h.held)
			}
		}
		b.WriteString(dumpBook(s.Books[sym]))
	}
	return b.String()
}

func dumpBook(book *Book) string {
	var b strings.Builder
	for _, side := range []Side{Buy, Sell} {
		for price, at := range book.side(side).all() {
			fmt.Fprintf(&b, "  %s level %s:", side, price)
			for n := range book.at(book.side(side).level(at)) {
				fmt.Fprintf(&b, " #%d", n.id)
			}
			b.WriteByte('\n')
		}
	}
	for _, o := range slices.SortedFunc(book.Orders(), func(a, b Order) int { return cmp.Compare(a.ID, b.ID) }) {
		fmt.Fprintf(&b, "  order %d of %s: %s %s at %s, %+v\n", o.ID, o.Account.ID, o.Side, o.Shares, o.Limit, o.Status())
	}
	return b.String()
}

// testRand returns a random generator and logs its seed.
func testRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// randomSession is a market of a few accounts and symbols that executes random commands,
// including commands that are rejected.
type randomSession struct {
	*shard
	r        *rand.Rand
	accounts []AccountID
	symbols  []Symbol
}

func newRandomSession(r *rand.Rand) *randomSession {
	s := &randomSession{shard: newShard(), r: r}
	for i := range 6 {
		s.accounts = append(s.accounts, AccountID(fmt.Sprint(i)))
	}
	s.symbols = []Symbol{"SPY", "QQQ", "x9"}
	return s
}

// step executes one random command.
func (s *randomSession) step() {
	s.now += s.r.Int64N(2 * Second)
	account, symbol := s.accounts[s.r.IntN(len(s.accounts))], s.symbols[s.r.IntN(len(s.symbols))]
	switch n := s.r.IntN(100); {
	case n < 5:
		s.open(account, Cash(mul64(s.r.Uint64N(1e13), 1e8)))
	case n < 9:
		s.list(symbol)
	case n < 15:
		s.place(symbol, account, Position{Lo: 1 + s.r.Uint64N(1e10)})
	case n < 16:
		s.halt(symbol, fmt.Sprint("reason ", s.now))
	case n < 18:
		s.resume(symbol)
	case n < 19:
		s.cancelAll(account, s.symbols[:1+s.r.IntN(len(s.symbols))]...)
	case n < 35:
		if s.OrderID == 0 {
			return
		}
		id := 1 + OrderID(s.r.Uint64N(uint64(s.OrderID)))
		o, in := s.find(id)
		if in == "" {
			return
		}
		if s.r.IntN(10) > 0 {
			account = o.Account.ID
		}
		s.cancel(account, in, id)
	default:
		side := Buy
		if s.r.IntN(2) == 0 {
			side = Sell
		}
		limit := Price(95e6 + s.r.Int64N(10)*1e6 + s.r.Int64N(2))
		n := 1 + s.r.Int64N(3e9)>>s.r.IntN(6) // a large order executes in several parts
		s.order(account, symbol, side, Shares(n), limit)
	}
}

// run executes n random commands.
func (s *randomSession) run(n int) {
	for range n {
		s.step()
	}
}

// dollars parses a balance that must be valid.
func dollars(t testing.TB, s string) Cash {
	c, err := ParseBalance(s)
	require.NoError(t, err)
	return c
}

func shares(t testing.TB, s string) Shares {
	_, n, err := ParseAmount(s)
	require.NoError(t, err)
	return n
}

func price(t testing.TB, s string) Price {
	p, err := ParseLimit(s)
	require.NoError(t, err)
	return p
}

func placed(t testing.TB, s string) Position {
	p, err := ParseDeposit(s)
	require.NoError(t, err)
	return p
}
