package accounts

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// trader draws commands, has an engine execute them, and passes on the records.
type trader struct {
	t       testing.TB
	r       *rand.Rand
	engine  *engine.Engine
	records *journal.Reader
	now     int64
	newest  exchange.OrderID
}

func newTrader(t testing.TB, seed uint64) *trader {
	w := &trader{t: t, r: rand.New(rand.NewPCG(seed, 18))}
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion, SegmentBytes: 64 << 20})
	require.NoError(t, err)
	w.engine = engine.New(engine.Options{Journal: j, State: exchange.NewState(),
		Now: func() int64 { return 1e18 + w.now }})
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
	w.now += int64(w.r.IntN(int(time.Second)))
	mark, err := w.engine.Execute(background, requests, results)
	require.NoError(w.t, err)
	require.NoError(w.t, w.engine.Durable(background, mark))
	for i := range results {
		w.newest = max(w.newest, results[i].Order)
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

// draw returns a command.
func (w *trader) draw() exchange.Command {
	c := exchange.Command{Account: traders[w.r.IntN(len(traders))]}
	if w.r.IntN(3) == 0 {
		c.Kind, c.Order = exchange.CancelOrder, 1+exchange.OrderID(w.r.Uint64N(uint64(w.newest)+1))
		if w.r.IntN(2) == 0 && w.newest > 20 { // one that is rather likely to be open
			c.Order = w.newest - exchange.OrderID(w.r.IntN(20))
		}
		return c
	}
	c.Kind, c.Symbol = exchange.PlaceOrder, tradedSymbols[w.r.IntN(len(tradedSymbols))]
	c.Side, c.Shares = exchange.Side(1+w.r.IntN(2)), exchange.Shares(1+w.r.IntN(10))*1e7
	c.Limit = exchange.Price(95+w.r.IntN(11)) * 1e8
	return c
}

// TestTheViewIsWhatTheExchangeHasAfterEveryRecord compares it with a State that does everything again:
// free and held, open orders, and fills with their numbers.
func TestTheViewIsWhatTheExchangeHasAfterEveryRecord(t *testing.T) {
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
	requireFits(t, v)
}

// TestAViewGoesOnAfterASnapshot: it has the counts and no older fills, and otherwise the same.
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
			r := exchange.Result{Reason: exchange.InView, More: &exchange.ResultMore{}}
			v.Show(background, &exchange.Command{Kind: exchange.ListFills, Account: id}, &r)
			require.Equal(t, exchange.FillsForgotten, r.Reason, "there is no database")
		}
	}
	require.NotZero(t, known)
	requireFits(t, v)
}

// snapshot completes a snapshot of what the twin knows.
func (w *twin) snapshot(snap *exchange.Snapshot) {
	for _, sym := range w.symbols {
		snap.Symbols = append(snap.Symbols, exchange.SymbolState{Symbol: sym})
	}
	for _, id := range w.ids {
		a := w.account(id)
		snap.Accounts = append(snap.Accounts, exchange.AccountState{ID: id, Balance: a.Balance, Held: a.Held,
			Fills: uint64(len(w.fills[id]))})
		for _, p := range a.Positions {
			snap.Positions = append(snap.Positions, exchange.PositionState{Symbol: p.Symbol, Account: id, Shares: p.Shares,
				Held: p.Held})
		}
		for _, o := range w.open(id, "") {
			snap.Orders = append(snap.Orders, exchange.OrderState{ID: o.ID, Account: id, Symbol: o.Symbol, Terms: o.Terms,
				Shares: o.Total, Open: o.Open, Time: o.Time})
		}
	}
}
