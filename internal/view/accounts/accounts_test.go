package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/trailtest"
)

var background = context.Background()

// memory is a journal of the records that a test adds.
type memory struct {
	after   uint64 // seq before the first record
	records [][]byte
	next    int
	err     error // returned by TryNext once all records are read
}

func (m *memory) TryNext() (uint64, []byte, bool, error) {
	if m.next == len(m.records) {
		return 0, nil, false, m.err
	}
	m.next++
	return m.after + uint64(m.next), m.records[m.next-1], true, nil
}

func (m *memory) Close() {}

// add appends records.
func (m *memory) add(events ...exchange.Event) {
	for i := range events {
		m.records = append(m.records, exchange.AppendEvent(nil, &events[i]))
	}
}

// newView returns a view of the records in m, which follow a snapshot. A nil snapshot is an empty one.
func newView(m *memory, snap *exchange.Snapshot) *View {
	if snap == nil {
		snap = &exchange.Snapshot{}
	}
	m.after = snap.Seq
	return NewView(Options{Records: trailtest.Follow(m, snap.Seq, nil), Log: slog.New(slog.DiscardHandler)}, snap)
}

// step applies all records that may be shown now.
func (v *View) step(ctx context.Context) error { return v.records.Step(ctx, v.loop()) }

// take makes the view apply all records.
func take(t testing.TB, v *View) {
	t.Helper()
	require.NoError(t, v.step(background))
}

// inView returns a pending result that the view must complete as of a record.
func inView(seq uint64) exchange.Result {
	return exchange.Result{Reason: exchange.ViewUnavailable, Pending: exchange.InView, AsOf: seq}
}

// show returns the view's current answer to a command.
func show(t testing.TB, v *View, c exchange.Command) *exchange.Answer {
	t.Helper()
	r := inView(v.Seq())
	v.Show(background, &c, &r, true)
	require.Equal(t, exchange.OK, r.Reason, "%+v", c)
	require.Equal(t, exchange.Nowhere, r.Pending)
	return r.Answer
}

func account1(t testing.TB, v *View, id exchange.AccountID) *exchange.AccountView {
	t.Helper()
	return show(t, v, exchange.Command{Kind: exchange.ShowAccount, Account: id}).Account
}

func ordersOf(t testing.TB, v *View, id exchange.AccountID, sym exchange.Symbol, after uint64) *exchange.OrdersView {
	t.Helper()
	return show(t, v, exchange.Command{Kind: exchange.ListOrders, Account: id, Symbol: sym,
		More: &exchange.CommandMore{After: after}}).Orders
}

func newestFills(t testing.TB, v *View, id exchange.AccountID) *exchange.FillsView {
	t.Helper()
	return show(t, v, exchange.Command{Kind: exchange.ListFills, Account: id}).Fills
}

func fillsAfter(t testing.TB, v *View, id exchange.AccountID, after uint64) *exchange.FillsView {
	t.Helper()
	return show(t, v, exchange.Command{Kind: exchange.ListFills, Account: id,
		More: &exchange.CommandMore{After: after, HasAfter: true}}).Fills
}

// twin is the reference model: it derives the state of accounts from the records in the most obvious way. It takes its
// funds and books from a State that applies the same records.
type twin struct {
	state    *exchange.State
	ids      []exchange.AccountID
	symbols  []exchange.Symbol
	executed map[exchange.OrderID]exchange.Shares // shares executed by the order and those it replaced
	owners   map[exchange.OrderID]exchange.AccountID
	fills    map[exchange.AccountID][]exchange.AccountFill // all fills
	kinds    map[exchange.EventKind]int
	trades   map[exchange.Symbol]uint64
	details  map[exchange.OrderID]*exchange.OrderDetail // all orders, open or closed
	n        map[exchange.AccountID]uint64              // number of events
	named    bool                                       // compare only the orders that a record names
	own      int                                        // number of orders that self-trade prevention canceled
	rests    int                                        // number of orders whose rest was canceled at once
}

func newTwin() *twin {
	return &twin{state: exchange.NewState(), executed: make(map[exchange.OrderID]exchange.Shares),
		owners: make(map[exchange.OrderID]exchange.AccountID),
		fills:  make(map[exchange.AccountID][]exchange.AccountFill), kinds: make(map[exchange.EventKind]int),
		trades: make(map[exchange.Symbol]uint64), details: make(map[exchange.OrderID]*exchange.OrderDetail),
		n: make(map[exchange.AccountID]uint64)}
}

// apply applies the next record, and returns what it did to each account, without the numbers of the record and of the
// event.
func (w *twin) apply(t testing.TB, e *exchange.Event) map[exchange.AccountID]*exchange.AccountEvent {
	t.Helper()
	before := w.now(e)
	w.kinds[e.Kind]++
	if w.own += len(e.Own); e.Rest > 0 {
		w.rests++
	}
	switch e.Kind {
	case exchange.AccountOpened:
		w.ids = append(w.ids, e.Account)
	case exchange.SymbolMade:
		w.symbols = append(w.symbols, e.Symbol)
	case exchange.OrderReplaced:
		w.executed[e.Order] = w.executed[e.Amend.Old.Order]
		fallthrough
	case exchange.OrderAccepted:
		w.owners[e.Order] = e.Account
	}
	for i := range e.Fills {
		f := &e.Fills[i]
		other := exchange.Buy + exchange.Sell - e.Side
		w.trades[e.Symbol]++
		w.fill(e, f.Account, f.Resting, other, f)
		w.fill(e, e.Account, e.Order, e.Side, f)
	}
	require.NoError(t, w.state.Apply(e), "%+v", e)
	w.follow(e)
	return w.differs(e, before)
}

func (w *twin) fill(e *exchange.Event, id exchange.AccountID, order exchange.OrderID, side exchange.Side,
	f *exchange.Fill) {
	w.executed[order] += f.Shares
	w.fills[id] = append(w.fills[id], exchange.AccountFill{N: uint64(len(w.fills[id]) + 1), Order: order, Symbol: e.Symbol,
		Side: side, Shares: f.Shares, Price: f.Price, Time: e.Time, Trade: w.trades[e.Symbol], Maker: order == f.Resting})
}

// account returns the expected view of an account.
func (w *twin) account(id exchange.AccountID) *exchange.AccountView {
	a := w.state.Ledger.Account(id)
	view := &exchange.AccountView{ID: id, Positions: []exchange.PositionView{}, N: w.n[id],
		LastFill: uint64(len(w.fills[id]))}
	view.Balance, view.Held = a.Balance()
	slices.Sort(w.symbols)
	for _, sym := range w.symbols {
		p := exchange.PositionView{Symbol: sym}
		p.Shares, p.Held = w.state.Ledger.Instrument(sym).Position(a)
		if p.Shares.Sign() != 0 || p.Held.Sign() != 0 {
			view.Positions = append(view.Positions, p)
		}
	}
	return view
}

// open returns the open orders of an account.
func (w *twin) open(id exchange.AccountID, only exchange.Symbol) (all []exchange.OrderDetail) {
	for sym, book := range w.state.Books {
		for o := range book.Orders() {
			if o.Open > 0 && o.Account.ID == id && (only == "" || only == sym) {
				one := *w.details[o.ID]
				if one.Open != o.Open || one.Total() != o.Open+w.executed[o.ID] {
					panic(fmt.Sprintf("the twin has %s of %s of order %d open, the book %s of %s", one.Open, one.Total(), o.ID,
						o.Open, o.Open+w.executed[o.ID]))
				}
				all = append(all, one)
			}
		}
	}
	slices.SortFunc(all, func(a, b exchange.OrderDetail) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// same compares a view with everything that the twin knows.
func (w *twin) same(t testing.TB, v *View) {
	t.Helper()
	for _, id := range w.ids {
		require.Equal(t, w.account(id), account1(t, v, id))
		require.Equal(t, w.open(id, ""), ordersOf(t, v, id, "", 0).Orders)
		all := w.fills[id]
		newest := newestFills(t, v, id).Fills
		require.Len(t, newest, min(len(all), exchange.ViewPageMax))
		require.Empty(t, cmpFills(all[len(all)-len(newest):], newest))
	}
}

// sameFirst is like same, but compares only the first page of open orders, for accounts with more than one page.
func (w *twin) sameFirst(t testing.TB, v *View) {
	t.Helper()
	for _, id := range w.ids {
		require.Equal(t, w.account(id), account1(t, v, id))
		open := w.open(id, "")
		require.Equal(t, open[:min(len(open), exchange.ViewPageMax)], ordersOf(t, v, id, "", 0).Orders)
		require.Equal(t, uint64(len(w.fills[id])), v.accounts[id].fills.count)
	}
}

// cmpFills returns the first difference of two lists, nil if they are equal.
func cmpFills(want, got []exchange.AccountFill) []exchange.AccountFill {
	for i := range want {
		if want[i] != got[i] {
			return []exchange.AccountFill{want[i], got[i]}
		}
	}
	return nil
}

// TestAnAccountIsReadAsFarAsThereIsAView: Account fails for an unknown account and once the view has failed.
func TestAnAccountIsReadAsFarAsThereIsAView(t *testing.T) {
	v, m := newWatched(t)
	a, seq, err := v.Account("2")
	require.NoError(t, err)
	require.Equal(t, v.Seq(), seq)
	require.Equal(t, account1(t, v, "2"), a, "as XML shows it")
	_, _, err = v.Account("9")
	require.ErrorIs(t, err, ErrUnknownAccount)
	m.err = errors.New("the disk is gone")
	err = v.step(background)
	v.broken.Store(&err)
	_, _, err = v.Account("2")
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "the disk is gone")
}
