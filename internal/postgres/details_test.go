package postgres

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
)

// entry is an order with the values that the twin expects.
type entry struct {
	exchange.OrderDetail
	shares  exchange.Shares
	account exchange.AccountID
	fills   []exchange.AccountFill
}

// now returns a copy of the order in the form that History returns.
func (o *entry) now() entry {
	c := *o
	c.fills = slices.Clone(o.fills)
	if c.Open = c.shares - c.Executed - c.Reduced - c.Canceled; c.By == 0 {
		c.Settle(c.Why)
	}
	return c
}

// detailTwin is a simple reference implementation of the queries of History.
type detailTwin struct {
	orders map[exchange.OrderID]*entry
	first  map[exchange.OrderID]entry            // orders as of their own records
	after  map[exchange.OrderID]map[uint64]entry // orders as of each later record that changed them
	refs   map[exchange.RefKey][2]uint64         // record and order of each ref

	fills   map[exchange.AccountID][]exchange.AccountFill
	events  map[exchange.AccountID]uint64
	trades  map[exchange.Symbol]uint64
	candles map[exchange.Symbol]*[exchange.Intervals][]exchange.Candle
}

func newDetailTwin() *detailTwin {
	return &detailTwin{orders: map[exchange.OrderID]*entry{}, first: map[exchange.OrderID]entry{},
		after: map[exchange.OrderID]map[uint64]entry{}, refs: map[exchange.RefKey][2]uint64{},
		fills: map[exchange.AccountID][]exchange.AccountFill{}, events: map[exchange.AccountID]uint64{},
		trades:  map[exchange.Symbol]uint64{},
		candles: map[exchange.Symbol]*[exchange.Intervals][]exchange.Candle{}}
}

// apply applies the next record.
func (w *detailTwin) apply(seq uint64, e *exchange.Event) {
	touched := map[exchange.AccountID]bool{}
	if e.Ref != "" {
		w.refs[exchange.RefKey{Account: e.Account, Ref: e.Ref}] = [2]uint64{seq, uint64(e.Order)}
	}
	switch e.Kind {
	case exchange.AccountOpened, exchange.SharesDeposited:
		touched[e.Account] = true
	case exchange.OrderAccepted, exchange.OrderReplaced:
		o := &entry{account: e.Account, shares: e.Shares, OrderDetail: exchange.OrderDetail{ID: e.Order, Symbol: e.Symbol,
			Ref: e.Ref, Terms: e.Terms, Unsent: e.Unsent, OnDisconnect: e.OnDisconnect, Time: e.Time, Changed: e.Time}}
		if e.Kind == exchange.OrderReplaced {
			o.Ref, o.NewRef, o.Before, o.Replaces = "", e.Ref, e.Amend.Executed, e.Amend.Old.Order
			old := w.orders[o.Replaces]
			old.By, old.State = e.Order, exchange.StatusReplaced
			w.cancel(seq, e.Time, &e.Amend.Old, exchange.NotCanceled)
		}
		w.orders[e.Order] = o
		w.execute(seq, e, touched)
	case exchange.OrderContinued:
		w.execute(seq, e, touched)
	case exchange.OrderReduced:
		o := w.orders[e.Order]
		o.NewRef = e.Ref
		if e.Shares > 0 {
			o.Reduced, o.Changed, touched[e.Account] = o.Reduced+e.Shares, e.Time, true
		}
		w.note(seq, e.Order)
	case exchange.OrderCanceled:
		touched[e.Account] = true
		w.cancel(seq, e.Time, &exchange.Cancel{Order: e.Order, Shares: e.Shares}, exchange.CanceledByOwner)
	case exchange.OrdersCanceled:
		why := map[exchange.CancelCause]exchange.WhyCanceled{exchange.ByOperator: exchange.CanceledByOperator,
			exchange.ByBlock: exchange.CanceledByOperator, exchange.ByClient: exchange.CanceledByOwner,
			exchange.ByDisconnect: exchange.CanceledDisconnect, exchange.BySwitch: exchange.CanceledTimer}
		for i := range e.Cancels {
			touched[e.Account] = true
			w.cancel(seq, e.Time, &e.Cancels[i], why[e.Cause])
		}
	case exchange.SymbolMade, exchange.SymbolHalted, exchange.SymbolResumed, exchange.AccountRuled, exchange.SymbolRuled,
		exchange.SwitchSet:
	}
	for id := range touched {
		w.events[id]++
	}
}

// execute applies the executions of an order in a record.
func (w *detailTwin) execute(seq uint64, e *exchange.Event, touched map[exchange.AccountID]bool) {
	touched[e.Account] = true
	for i, f := range e.Fills {
		touched[f.Account] = true
		w.trades[e.Symbol]++
		w.fill(e, f, f.Account, f.Resting, exchange.Buy+exchange.Sell-e.Side)
		w.fill(e, f, e.Account, e.Order, e.Side)
		w.candle(e.Symbol, e.Trade(i))
	}
	for i := range e.Own {
		w.cancel(seq, e.Time, &e.Own[i], exchange.CanceledSTP)
	}
	if e.Rest > 0 {
		why := exchange.CanceledRest
		if e.TIF == exchange.GTC || e.STP == exchange.CancelBoth && len(e.Own) > 0 {
			why = exchange.CanceledSTP
		}
		w.cancel(seq, e.Time, &exchange.Cancel{Order: e.Order, Shares: e.Rest}, why)
	}
	w.first[e.Order] = w.orders[e.Order].now()
}

// fill applies one side of an execution.
func (w *detailTwin) fill(e *exchange.Event, f exchange.Fill, id exchange.AccountID, order exchange.OrderID,
	side exchange.Side) {
	one := exchange.AccountFill{N: uint64(len(w.fills[id]) + 1), Order: order, Symbol: e.Symbol, Side: side,
		Shares: f.Shares, Price: f.Price, Time: e.Time, Trade: w.trades[e.Symbol], Maker: order != e.Order}
	w.fills[id] = append(w.fills[id], one)
	o := w.orders[order]
	o.fills = append(o.fills, one)
	o.Executed, o.Changed = o.Executed+f.Shares, e.Time
	o.Notional = o.Notional.Add(exchange.Notional(f.Shares, f.Price))
}

// cancel applies a cancel of an order's open shares.
func (w *detailTwin) cancel(seq uint64, at int64, c *exchange.Cancel, why exchange.WhyCanceled) {
	o := w.orders[c.Order]
	o.Canceled, o.Why, o.Changed = c.Shares, why, at
	w.note(seq, c.Order)
}

// note records the order as of record seq.
func (w *detailTwin) note(seq uint64, id exchange.OrderID) {
	if w.after[id] == nil {
		w.after[id] = map[uint64]entry{}
	}
	w.after[id][seq] = w.orders[id].now()
}

// candle adds a trade to the candles.
func (w *detailTwin) candle(sym exchange.Symbol, t exchange.Trade) {
	if w.candles[sym] == nil {
		w.candles[sym] = new([exchange.Intervals][]exchange.Candle)
	}
	for i := range exchange.Intervals {
		all := &w.candles[sym][i]
		start := i.StartOf(t.Time)
		if n := len(*all); n > 0 {
			start = i.StartAfter((*all)[n-1].Start, t.Time)
		}
		if n := len(*all); n == 0 || (*all)[n-1].Start != start {
			*all = append(*all, exchange.Candle{Start: start})
		}
		(*all)[len(*all)-1].Add(&t, w.trades[sym])
	}
}

// detailed writes a random history, and returns it with its twin and a History. At the end, at least one open
// order has a ref, and others got one from an amend.
func detailed(t *testing.T, records int) (h *history, s *Store, events []exchange.Event, w *detailTwin, past *History) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := newTables(t)
	s, h, w = mustOpen(t, url), newHistory(seed), newDetailTwin()
	for there := false; !there; records = 20 {
		called, renamed := false, false
		states, whys := map[exchange.OrderStatus]bool{}, map[exchange.WhyCanceled]bool{}
		require.Less(t, len(events), 20_000)
		for _, e := range written(t, s, h, records) {
			events = append(events, e)
			w.apply(uint64(len(events)), &e)
		}
		for _, o := range w.orders {
			o := o.now()
			called = called || o.Open > 0 && o.Ref != ""
			renamed = renamed || o.Open > 0 && o.NewRef != "" && o.Replaces == 0 && o.Reduced == 0
			states[o.State], whys[o.Why] = true, true
		}
		there = called && renamed && len(states) == 4 && len(whys) == 7
	}
	past, err := OpenHistory(background, url, "")
	require.NoError(t, err)
	t.Cleanup(past.Close)
	return h, s, events, w, past
}

// TestDetailsAreThoseOfTheRecords compares each order, or a third of them, as it is now, as of its own records, and
// as of each record that changed it.
func TestDetailsAreThoseOfTheRecords(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	t.Parallel()
	h, s, _, w, past := detailed(t, budget.Of(3000))
	require.Len(t, w.orders, int(h.state.OrderID))
	states, whys := map[exchange.OrderStatus]int{}, map[exchange.WhyCanceled]int{}
	for _, o := range w.orders {
		states[o.now().State]++
		whys[o.now().Why]++
	}
	require.Len(t, states, 4)
	require.Len(t, whys, 7)
	for _, id := range budget.Sample(h.r.Uint64(), slices.Sorted(maps.Keys(w.orders))) {
		o := w.orders[id]
		if o.fills == nil {
			o.fills = []exchange.AccountFill{}
		}
		requireDetail(t, o.now())(past.OrderAt(background, id, exchange.Moment{}))
		requireDetail(t, w.first[id])(past.OrderAt(background, id, exchange.Moment{Own: true}))
		for seq, want := range w.after[id] {
			requireDetail(t, want)(past.OrderAt(background, id, exchange.Moment{Seq: seq}))
		}
	}
	_, found, err := past.OrderAt(background, h.state.OrderID+1, exchange.Moment{})
	require.NoError(t, err)
	require.False(t, found)
	for key, want := range w.refs {
		seq, order, found, err := past.RefRecord(background, key.Account, key.Ref)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, [2]uint64{seq, uint64(order)})
	}
	_, _, found, err = past.RefRecord(background, "1", "never")
	require.NoError(t, err)
	require.False(t, found)
	requireLoaded(t, s, w)
}

// requireDetail returns a function that compares results of History with want.
func requireDetail(t *testing.T, want entry) func(exchange.OrderWithFills, bool, error) {
	return func(d exchange.OrderWithFills, found bool, err error) {
		t.Helper()
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want.account, d.Account)
		require.Equal(t, want.OrderDetail, d.OrderDetail)
		require.Equal(t, append([]exchange.AccountFill{}, want.fills...), append([]exchange.AccountFill{}, d.Fills...))
	}
}

// requireLoaded compares the state from which an account's view starts.
func requireLoaded(t *testing.T, s *Store, w *detailTwin) {
	t.Helper()
	snap, err := s.Load(background)
	require.NoError(t, err)
	for _, a := range snap.Accounts {
		require.Equal(t, w.events[a.ID], a.Events, "account %s", a.ID)
		require.Equal(t, uint64(len(w.fills[a.ID])), a.Fills)
	}
	for _, sym := range snap.Symbols {
		require.Equal(t, w.trades[sym.Symbol], sym.Trades)
	}
	called, amended := 0, 0
	for _, o := range snap.Orders {
		want := w.orders[o.ID].now()
		require.Equal(t, want.Ref, o.Ref, "order %d", o.ID)
		require.Equal(t, want.NewRef, o.NewRef, "order %d", o.ID)
		require.Equal(t, want.Unsent, o.Unsent)
		require.Equal(t, want.Open, o.Open)
		if o.Ref != "" {
			called++
		}
		if o.NewRef != "" && o.Lineage == nil {
			amended++
		}
	}
	require.Positive(t, called)
	require.Positive(t, amended, "some amends only give a ref")
}

// TestAccountsFindTheirOrders queries pages of each account's orders.
func TestAccountsFindTheirOrders(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	t.Parallel()
	h, _, _, w, past := detailed(t, budget.Of(3000))
	requireOrders(t, h, w, past)
}

// requireOrders queries pages of accounts' orders and compares them with the records.
func requireOrders(t *testing.T, h *history, w *detailTwin, past *History) {
	t.Helper()
	of := map[exchange.AccountID]map[exchange.Symbol][]exchange.OrderDetail{}
	for _, id := range slices.Sorted(maps.Keys(w.orders)) {
		o := w.orders[id].now()
		if of[o.account] == nil {
			of[o.account] = map[exchange.Symbol][]exchange.OrderDetail{}
		}
		of[o.account][o.Symbol] = append(of[o.account][o.Symbol], o.OrderDetail)
	}
	least, found := budget.Of(600), 0
	for asked := 0; asked < least || found <= least; asked++ { // there is little trading with some seeds
		require.Less(t, asked, 10*least)
		id, sym := exchange.AccountID('0'+rune(h.r.IntN(10))), exchange.Symbol('A'+rune(h.r.IntN(3)))
		from, start, end, limit := exchange.OrderID(0), int64(0), int64(0), 1+h.r.IntN(20)
		if h.r.IntN(2) == 0 {
			from = exchange.OrderID(h.r.Uint64N(uint64(h.state.OrderID) + 2))
		}
		if h.r.IntN(2) == 0 {
			start = h.momentOf(of[id][sym])
		}
		if h.r.IntN(2) == 0 {
			end = h.momentOf(of[id][sym])
		}
		want := slices.DeleteFunc(slices.Clone(of[id][sym]), func(d exchange.OrderDetail) bool {
			return d.ID < from || d.Time < start || end != 0 && d.Time > end
		})
		if from != 0 || start != 0 {
			want = want[:min(len(want), limit)]
		} else {
			want = want[max(0, len(want)-limit):]
		}
		got, err := past.AccountOrders(background, id, sym, from, start, end, limit)
		require.NoError(t, err)
		require.Equal(t, append([]exchange.OrderDetail{}, want...), append([]exchange.OrderDetail{}, got...),
			"account %s, %s, from %d, %d to %d, %d", id, sym, from, start, end, limit)
		found += len(got)
	}
	none, err := past.AccountOrders(background, "77", "A", 0, 0, 0, 10)
	require.NoError(t, err)
	require.Empty(t, none)
}

// momentOf returns the time of a random one of the orders, or a time near it.
func (h *history) momentOf(orders []exchange.OrderDetail) int64 {
	if len(orders) == 0 {
		return 5
	}
	return orders[h.r.IntN(len(orders))].Time + h.r.Int64N(3) - 1
}

// TestAccountsFindTheirTrades queries pages of each account's executions, including those of single orders.
func TestAccountsFindTheirTrades(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	t.Parallel()
	h, _, _, w, past := detailed(t, budget.Of(3000))
	requireTrades(t, h, w, past)
}

// requireTrades queries accounts' executions and compares them with the records.
func requireTrades(t *testing.T, h *history, w *detailTwin, past *History) {
	t.Helper()
	least, found := budget.Of(600), 0
	for asked := 0; asked < least || found <= least; asked++ { // there is little trading with some seeds
		require.Less(t, asked, 10*least)
		id, sym := exchange.AccountID('0'+rune(h.r.IntN(10))), exchange.Symbol('A'+rune(h.r.IntN(3)))
		trade, order, start, end, limit := uint64(0), exchange.OrderID(0), int64(0), int64(math.MaxInt64), 1+h.r.IntN(30)
		all := w.fills[id]
		if h.r.IntN(2) == 0 {
			trade = h.r.Uint64N(w.trades[sym] + 2)
		}
		if h.r.IntN(3) == 0 {
			order = exchange.OrderID(1 + h.r.Uint64N(uint64(h.state.OrderID)))
			if len(all) > 0 && h.r.IntN(2) == 0 {
				order = all[h.r.IntN(len(all))].Order
			}
		}
		if h.r.IntN(3) == 0 {
			start = int64(1+h.r.Uint64N(h.seq)) * exchange.Second
		}
		if h.r.IntN(3) == 0 {
			end = int64(1+h.r.Uint64N(h.seq)) * exchange.Second
		}
		want := slices.DeleteFunc(slices.Clone(all), func(f exchange.AccountFill) bool {
			return f.Symbol != sym || f.Trade < trade || f.Time < start || f.Time > end || order != 0 && f.Order != order
		})
		if trade != 0 || start != 0 {
			want = want[:min(len(want), limit)]
		} else {
			want = want[max(0, len(want)-limit):]
		}
		if end == math.MaxInt64 && h.r.IntN(2) == 0 {
			end = 0
		}
		got, err := past.Trades(background, id, sym, trade, order, start, end, limit)
		require.NoError(t, err)
		require.Equal(t, append([]exchange.AccountFill{}, want...), append([]exchange.AccountFill{}, got...),
			"account %s, %s, trade %d, order %d, %d to %d, %d", id, sym, trade, order, start, end, limit)
		found += len(got)
	}
}
