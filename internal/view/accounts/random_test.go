package accounts

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/budget"
)

// trader draws random commands, executes them with an engine, and passes on the records.
type trader struct {
	t       testing.TB
	r       *rand.Rand
	engine  *engine.Engine
	records *journal.Reader
	now     atomic.Int64
	newest  exchange.OrderID
	refs    int
	owners  map[exchange.OrderID]exchange.Command // the command that placed an order, or the order that it replaced
}

func newTrader(t testing.TB, seed uint64) *trader {
	w := &trader{t: t, r: rand.New(rand.NewPCG(seed, 18)), owners: make(map[exchange.OrderID]exchange.Command)}
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion, SegmentBytes: 64 << 20})
	require.NoError(t, err)
	w.engine = engine.New(engine.Options{Journal: j, State: exchange.NewState(),
		Now: func() int64 { return 1e18 + w.now.Load() }})
	w.records, err = j.NewReader(1)
	require.NoError(t, err)
	t.Cleanup(func() {
		w.records.Close()
		w.engine.Close()
		j.Close()
	})
	return w
}

// do executes commands, and returns their records.
func (w *trader) do(commands ...exchange.Command) (records [][]byte) {
	requests := make([]engine.Request, len(commands))
	for i := range commands {
		requests[i].Command = commands[i]
	}
	results := make([]exchange.Result, len(commands))
	w.now.Add(int64(w.r.IntN(int(time.Second))))
	mark, err := w.engine.Execute(background, requests, results)
	require.NoError(w.t, err)
	require.NoError(w.t, w.engine.Durable(background, mark))
	for i := range results {
		if commands[i].Kind == exchange.PlaceOrder && results[i].Reason == exchange.OK {
			w.newest = max(w.newest, results[i].Order)
			w.owners[results[i].Order] = commands[i]
		}
		if amended := results[i].Amended; amended != nil && amended.By != 0 {
			w.newest = max(w.newest, amended.By)
			w.owners[amended.By] = w.owners[commands[i].Order]
		}
	}
	for {
		_, record, ok, err := w.records.TryNext()
		require.NoError(w.t, err)
		if !ok {
			return records
		}
		records = append(records, append([]byte(nil), record...))
	}
}

var (
	tradedSymbols = []exchange.Symbol{"B", "A", "C"}
	traders       = []exchange.AccountID{"1", "2", "3", "4"}
)

// open makes accounts and symbols.
func (w *trader) open() (commands []exchange.Command) {
	for _, id := range traders {
		commands = append(commands, exchange.Command{Kind: exchange.OpenAccount, Account: id,
			Balance: exchange.Notional(1e8, 100_000e8)})
	}
	for _, sym := range tradedSymbols {
		commands = append(commands, exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym})
		for _, id := range traders[1:] {
			commands = append(commands, exchange.Command{Kind: exchange.DepositShares, Symbol: sym, Account: id,
				Deposited: exchange.Shares(1000e8).Position()})
		}
	}
	return commands
}

// draw returns a random command.
func (w *trader) draw() exchange.Command {
	c := exchange.Command{Account: traders[w.r.IntN(len(traders))]}
	if w.r.IntN(3) == 0 {
		c.Kind, c.Order = exchange.CancelOrder, 1+exchange.OrderID(w.r.Uint64N(uint64(w.newest)+1))
		if w.r.IntN(2) == 0 && w.newest > 20 { // an order that is probably open
			c.Order = w.newest - exchange.OrderID(w.r.IntN(20))
		}
		return c
	}
	c.Kind, c.Symbol = exchange.PlaceOrder, tradedSymbols[w.r.IntN(len(tradedSymbols))]
	c.Side, c.Shares = exchange.Side(1+w.r.IntN(2)), exchange.Shares(1+w.r.IntN(10))*1e7
	c.Limit = exchange.Price(95+w.r.IntN(11)) * 1e8
	if w.r.IntN(3) == 0 {
		w.refs++
		c.Ref = exchange.Ref(fmt.Sprint("r", w.refs))
	}
	if w.r.IntN(2) == 0 {
		w.instruct(&c)
	}
	return c
}

// instruct adds instructions to an order, or replaces the order by a command that is used less often.
func (w *trader) instruct(c *exchange.Command) {
	c.STP = exchange.SelfTrade(w.r.IntN(4))
	switch w.r.IntN(12) {
	case 0, 1:
		c.TIF = exchange.TimeInForce(w.r.IntN(3))
	case 2:
		c.Post = true
	case 3, 4:
		c.Type, c.TIF = exchange.Market, exchange.IOC+exchange.TimeInForce(w.r.IntN(2))
		if w.r.IntN(2) == 0 {
			c.Limit = 0
		}
	case 5:
		c.OnDisconnect = true
	case 6:
		*c = exchange.Command{Kind: exchange.CancelAll, Account: c.Account}
		if w.r.IntN(2) == 0 {
			c.Symbol = tradedSymbols[w.r.IntN(len(tradedSymbols))]
		}
	case 7:
		*c = exchange.Command{Kind: exchange.SetSwitch, Account: c.Account,
			More: &exchange.CommandMore{Seconds: w.r.IntN(86_400)}}
	default:
		*c = w.amend(c)
	}
}

// amend returns an amend of an order that is probably open.
func (w *trader) amend(c *exchange.Command) exchange.Command {
	amend := exchange.Command{Kind: exchange.AmendOrder, Account: c.Account,
		Order: w.newest - min(w.newest-1, exchange.OrderID(w.r.IntN(30)))}
	if w.newest == 0 {
		amend.Order = 1
	}
	if placed, ok := w.owners[amend.Order]; ok {
		amend.Account, c.Side = placed.Account, placed.Side
	}
	if w.r.IntN(3) > 0 {
		amend.Shares, amend.Side = exchange.Shares(1+w.r.IntN(15))*1e7, c.Side
	}
	if amend.Shares == 0 || w.r.IntN(2) == 0 {
		amend.Limit = c.Limit
	}
	if w.r.IntN(2) == 0 {
		w.refs++
		amend.More = &exchange.CommandMore{NewRef: exchange.Ref(fmt.Sprint("r", w.refs))}
	}
	return amend
}

// TestTheViewIsWhatTheExchangeHasAfterEveryRecord compares the view with a State that applies the same records:
// free and held amounts, open orders, and fills with their numbers.
func TestTheViewIsWhatTheExchangeHasAfterEveryRecord(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const commands = 3000
	w, m, tw := newTrader(t, seed), new(memory), newTwin()
	v := newView(m, nil)
	next := func(records [][]byte) {
		for _, record := range records {
			m.records = append(m.records, record)
			take(t, v)
			var e exchange.Event
			require.NoError(t, exchange.DecodeEvent(record, &e))
			tw.apply(t, &e)
			tw.same(t, v)
		}
	}
	next(w.do(w.open()...))
	for range commands {
		next(w.do(w.draw()))
	}
	require.NotEmpty(t, tw.fills)
	for kind, least := range map[exchange.EventKind]int{exchange.OrderReduced: 1, exchange.OrderReplaced: 1,
		exchange.OrdersCanceled: 1, exchange.SwitchSet: 1} {
		require.GreaterOrEqual(t, tw.kinds[kind], least, kind)
	}
	require.NotZero(t, tw.own)
	require.NotZero(t, tw.rests)
	requireFits(t, v)
}

// TestAViewGoesOnAfterASnapshot: a view from a snapshot lacks only the fills before it, and counts them.
func TestAViewGoesOnAfterASnapshot(t *testing.T) {
	w, m, tw := newTrader(t, 1), new(memory), newTwin()
	records := w.do(w.open()...)
	for range 1000 {
		records = append(records, w.do(w.draw())...)
	}
	const before = 200
	snap := &exchange.Snapshot{Seq: before}
	for i, record := range records {
		var e exchange.Event
		require.NoError(t, exchange.DecodeEvent(record, &e))
		tw.apply(t, &e)
		if i+1 == before {
			tw.snapshot(snap)
		}
	}
	m.records = records[before:]
	v := newView(m, snap)
	require.NoError(t, v.Err())
	take(t, v)
	known := 0
	for i := range snap.Accounts {
		id := snap.Accounts[i].ID
		require.Equal(t, tw.account(id), account1(t, v, id))
		require.Equal(t, tw.open(id, ""), ordersOf(t, v, id, "", 0).Orders)
		all, older := tw.fills[id], snap.Accounts[i].Fills
		got := fillsAfter(t, v, id, older)
		require.Empty(t, cmpFills(all[older:], got.Fills))
		known += len(got.Fills)
		if older > 0 {
			r := inView(0)
			v.Show(background, &exchange.Command{Kind: exchange.ListFills, Account: id}, &r, true)
			require.Equal(t, exchange.FillsForgotten, r.Reason, "there is no database")
		}
	}
	require.NotZero(t, known)
	requireFits(t, v)
}

// midway returns a snapshot after a record.
func (w *twin) midway(seq uint64) *exchange.Snapshot {
	snap := &exchange.Snapshot{Seq: seq}
	w.snapshot(snap)
	return snap
}

// snapshot fills in a snapshot from the twin's state.
func (w *twin) snapshot(snap *exchange.Snapshot) {
	for _, sym := range w.symbols {
		snap.Symbols = append(snap.Symbols, exchange.SymbolState{Symbol: sym, Trades: w.trades[sym]})
	}
	for _, id := range w.ids {
		a := w.account(id)
		snap.Accounts = append(snap.Accounts, exchange.AccountState{ID: id, Balance: a.Balance, Held: a.Held,
			Fills: uint64(len(w.fills[id])), Events: w.n[id]})
		for _, p := range a.Positions {
			snap.Positions = append(snap.Positions, exchange.PositionState{Symbol: p.Symbol, Account: id, Shares: p.Shares,
				Held: p.Held})
		}
		for _, open := range w.open(id, "") {
			o, _ := w.state.Books[open.Symbol].Find(open.ID)
			d := w.details[open.ID]
			snap.Orders = append(snap.Orders, exchange.OrderState{ID: o.ID, Account: id, Symbol: open.Symbol, Terms: o.Terms,
				Shares: o.Shares, Open: o.Open, Time: open.Time, Executions: o.Executions, OnDisconnect: o.OnDisconnect,
				Lineage: o.Lineage, Unsent: d.Unsent, Ref: d.Ref, NewRef: d.NewRef})
		}
	}
}

// TestTheViewFollowsOrdersInParts places a market buy, buys that cancel orders of their own account while matching,
// and one whose last part cancels its remainder. Between two parts an order is open, and holds what its further parts
// will cost.
func TestTheViewFollowsOrdersInParts(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, order := range budget.Sample(seed, []exchange.Command{
		{Terms: exchange.Terms{Side: exchange.Buy, Type: exchange.Market, TIF: exchange.IOC}},
		{Terms: exchange.Terms{Side: exchange.Buy, STP: exchange.CancelOldest, Limit: 200e8}},
		{Terms: exchange.Terms{Side: exchange.Buy, Type: exchange.Market, TIF: exchange.FOK, STP: exchange.CancelOldest,
			Limit: 200e8}},
		{Terms: exchange.Terms{Side: exchange.Buy, TIF: exchange.IOC, Limit: 100e8 + 1}, Shares: 7000e4},
	}) {
		w, m, tw := newTrader(t, 1), new(memory), newTwin()
		tw.named = true
		v := newView(m, nil)
		for _, id := range traders {
			defer v.Watch(id)()
		}
		var mirror *mirror
		setup := w.do(w.open()...)
		const resting = 2*exchange.FillsMax + exchange.FillsMax/2
		var sells []exchange.Command
		for n := range resting {
			sells = append(sells, exchange.Command{Kind: exchange.PlaceOrder, Account: traders[1+n%3], Symbol: "A",
				Terms: exchange.Terms{Side: exchange.Sell, Limit: exchange.Price(100e8 + n%3)}, Shares: 1e4})
		}
		setup = append(setup, w.do(sells...)...)
		order.Kind, order.Account, order.Symbol = exchange.PlaceOrder, traders[1], "A"
		order.Shares = cmp.Or(order.Shares, 6000e4)
		parts := w.do(order)
		require.Greater(t, len(parts), 1)
		for i, record := range append(setup, parts...) {
			if i == len(setup) {
				mirror = newMirror(t, v, "A")
			}
			var e exchange.Event
			require.NoError(t, exchange.DecodeEvent(record, &e))
			events := tw.apply(t, &e)
			m.records = append(m.records, record)
			take(t, v)
			for id, want := range events {
				want.Seq = v.Seq()
				got := v.accounts[id].watch.events
				require.Equal(t, want, got[len(got)-1].AccountEvent)
			}
			if len(e.Fills)+len(e.Own) > 0 {
				tw.sameFirst(t, v)
				requireOpen(t, v)
				mirror.same(tw, "A")
				midway := newMirror(t, newView(new(memory), tw.midway(v.Seq())), "A")
				midway.same(tw, "A")
			}
		}
		tw.sameFirst(t, v)
		requireFits(t, v)
	}
}
