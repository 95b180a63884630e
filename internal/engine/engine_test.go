package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

var background = context.Background()

// database is a Projection and History whose contents a test sets.
type database struct {
	applied atomic.Uint64
	orders  sync.Map // exchange.OrderID → exchange.ClosedOrder
	atFirst sync.Map // exchange.OrderID → the result of OrderAtFirst, if it differs from that in orders
	newest  sync.Map // exchange.OrderID → exchange.OrderID: first and newest order of chains of several orders
	away    atomic.Bool
	refs    sync.Map     // exchange.RefKey → exchange.RefUse
	asked   atomic.Int64 // number of refs that were looked up
	tries   atomic.Int64 // calls of Refs
}

func (d *database) Applied() uint64 { return d.applied.Load() }

func (d *database) WaitApplied(ctx context.Context, seq uint64) error {
	for d.applied.Load() < seq {
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (d *database) Order(_ context.Context, id exchange.OrderID, after, most int) (o exchange.ClosedOrder, found bool,
	err error) {
	if d.away.Load() {
		return o, false, errors.New("away")
	}
	v, ok := d.orders.Load(id)
	if !ok {
		return o, false, nil
	}
	o = v.(exchange.ClosedOrder)
	o.Status.Executions = o.Status.Executions[min(after, len(o.Status.Executions)):]
	o.Status.Executions = o.Status.Executions[:min(most, len(o.Status.Executions))]
	return o, true, nil
}

func (d *database) OrderAtFirst(ctx context.Context, id exchange.OrderID, most int) (o exchange.ClosedOrder, found bool,
	err error) {
	if v, ok := d.atFirst.Load(id); ok && !d.away.Load() {
		o = v.(exchange.ClosedOrder)
		o.Status.Executions = o.Status.Executions[:min(most, len(o.Status.Executions))]
		return o, true, nil
	}
	return d.Order(ctx, id, 0, most)
}

func (d *database) Newest(_ context.Context, first exchange.OrderID) (exchange.OrderID, error) {
	if d.away.Load() {
		return 0, errors.New("away")
	}
	if newest, ok := d.newest.Load(first); ok {
		return newest.(exchange.OrderID), nil
	}
	return first, nil
}

func (d *database) Refs(_ context.Context, keys []exchange.RefKey) (map[exchange.RefKey]exchange.RefUse, error) {
	d.tries.Add(1)
	if d.away.Load() {
		return nil, errors.New("away")
	}
	found := map[exchange.RefKey]exchange.RefUse{}
	for _, key := range keys {
		d.asked.Add(1)
		if use, ok := d.refs.Load(key); ok {
			found[key] = use.(exchange.RefUse)
		}
	}
	return found, nil
}

func (d *database) EachRef(_ context.Context, f func(exchange.RefKey) bool) error {
	if d.away.Load() {
		return errors.New("away")
	}
	d.refs.Range(func(key, _ any) bool { return f(key.(exchange.RefKey)) })
	return nil
}

// market is an engine on a journal in a temporary directory. Account 1 has cash, and
// account 2 has shares of A and B.
type market struct {
	*Engine
	t       testing.TB
	journal *journal.Journal
	dir     string
}

func open(t testing.TB, o Options) *market {
	t.Helper()
	return openWith(t, o, journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 20})
}

func openWith(t testing.TB, o Options, journaling journal.Options) *market {
	t.Helper()
	dir := t.TempDir()
	j, err := journal.Open(dir, journaling)
	require.NoError(t, err)
	o.Journal, o.State = j, exchange.NewState()
	if o.Now == nil {
		o.Now = func() int64 { return 77 }
	}
	m := &market{New(o), t, j, dir}
	t.Cleanup(func() {
		m.Close()
		j.Close()
	})
	for _, c := range []exchange.Command{
		{Kind: exchange.OpenAccount, Account: "1", Balance: exchange.Notional(1000, 1000)},
		{Kind: exchange.OpenAccount, Account: "2"},
		{Kind: exchange.MakeSymbol, Symbol: "A"},
		{Kind: exchange.DepositShares, Symbol: "A", Account: "2", Deposited: exchange.Shares(1_000_000_000).Position()},
		{Kind: exchange.MakeSymbol, Symbol: "B"},
		{Kind: exchange.DepositShares, Symbol: "B", Account: "2", Deposited: exchange.Shares(1_000_000_000).Position()},
	} {
		require.Equal(t, exchange.OK, m.do(c).Reason)
	}
	return m
}

// do executes one command.
func (m *market) do(c exchange.Command) exchange.Result {
	return m.all(c)[0]
}

// all executes commands together, and completes results from the history.
func (m *market) all(commands ...exchange.Command) []exchange.Result {
	results := make([]exchange.Result, len(commands))
	_, err := m.Execute(background, commands, results)
	require.NoError(m.t, err)
	for i := range commands {
		m.Recall(background, &commands[i], &results[i], 1000)
	}
	return results
}

func buy(sym exchange.Symbol, shares exchange.Shares, limit exchange.Price) exchange.Command {
	return exchange.Command{Kind: exchange.PlaceOrder, Account: "1", Symbol: sym,
		Terms: exchange.Terms{Side: exchange.Buy, Limit: limit}, Shares: shares}
}

func sell(sym exchange.Symbol, shares exchange.Shares, limit exchange.Price) exchange.Command {
	return exchange.Command{Kind: exchange.PlaceOrder, Account: "2", Symbol: sym,
		Terms: exchange.Terms{Side: exchange.Sell, Limit: limit}, Shares: shares}
}

func queryOf(id exchange.OrderID) exchange.Command {
	return exchange.Command{Kind: exchange.QueryOrder, Account: "1", Order: id}
}

func cancelOf(id exchange.OrderID, account exchange.AccountID) exchange.Command {
	return exchange.Command{Kind: exchange.CancelOrder, Account: account, Order: id}
}

func TestCommandsOfOneCallSeeEachOther(t *testing.T) {
	m := open(t, Options{})
	got := m.all(sell("A", 10, 5), buy("B", 3, 5), queryOf(1), queryOf(2), buy("A", 4, 6), queryOf(1), cancelOf(1, "2"),
		queryOf(1), queryOf(4))
	e := exchange.Execution{Shares: 4, Price: 5, Time: 77}
	require.Equal(t, []exchange.Result{
		{Order: 1}, {Order: 2},
		{Status: exchange.Status{Open: 10}},
		{Status: exchange.Status{Open: 3}},
		{Order: 3},
		{Status: exchange.Status{Open: 6, Executions: []exchange.Execution{e}}},
		{Status: exchange.Status{Canceled: 6, CanceledAt: 77, Executions: []exchange.Execution{e}}},
		{Status: exchange.Status{Canceled: 6, CanceledAt: 77, Executions: []exchange.Execution{e}}},
		{Reason: exchange.UnknownOrder},
	}, got)
	require.NoError(t, m.CheckLedger())
}

func TestRefusalsUseNoOrderID(t *testing.T) {
	m := open(t, Options{})
	got := m.all(buy("A", 1000, 1001), sell("C", 1, 1), exchange.Command{Kind: exchange.PlaceOrder, Account: "9",
		Symbol: "A", Terms: exchange.Terms{Side: exchange.Buy, Limit: 1}, Shares: 1},
		sell("A", 1_000_000_001, 1), queryOf(1), exchange.Command{Kind: exchange.QueryOrder, Account: "9", Order: 1},
		cancelOf(1, "1"),
		exchange.Command{Kind: exchange.OpenAccount, Account: "1"}, exchange.Command{Kind: exchange.DepositShares,
			Account: "9", Symbol: "A", Deposited: exchange.Position{Lo: 1}}, buy("A", 1, 1))
	var reasons []exchange.RejectReason
	for _, r := range got {
		reasons = append(reasons, r.Reason)
	}
	require.Equal(t, []exchange.RejectReason{exchange.InsufficientFunds, exchange.UnknownSymbol, exchange.UnknownAccount,
		exchange.InsufficientShares,
		exchange.UnknownOrder, exchange.UnknownAccount, exchange.UnknownOrder, exchange.AccountExists,
		exchange.UnknownAccount, exchange.OK}, reasons)
	require.Equal(t, exchange.Notional(1000, 1000), got[0].CashHave)
	require.Equal(t, exchange.OrderID(1), got[9].Order)
}

func TestTheJournalHasEverythingThatWasDone(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 10, 5), buy("A", 4, 6), cancelOf(1, "2"), buy("A", 1, 1))
	require.NoError(t, m.Durable(background, Mark{Seq: m.journal.Appended()}))
	state := exchange.NewState()
	var last exchange.Event
	require.NoError(t, journal.Scan(m.dir, exchange.EventVersion, func(_ uint64, record []byte) error {
		require.NoError(t, exchange.DecodeEvent(record, &last))
		return state.Apply(&last)
	}))
	require.NoError(t, state.Audit())
	require.Equal(t, exchange.OrderID(3), state.OrderID)
	o, _ := state.Books["A"].Find(3)
	require.Equal(t, exchange.Shares(1), o.Open)
	free, held := state.Ledger.Account("1").Balance()
	free2, held2 := m.ledger.Account("1").Balance()
	require.Equal(t, [2]exchange.Cash{free2, held2}, [2]exchange.Cash{free, held})
}

func TestARestoredEngineContinues(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 10, 5), buy("A", 4, 6), buy("B", 1, 1))
	m.Close()
	state := exchange.NewState()
	var e exchange.Event
	require.NoError(t, m.journal.Wait(background, m.journal.Appended()))
	require.NoError(t, journal.Scan(m.dir, exchange.EventVersion, func(_ uint64, record []byte) error {
		require.NoError(t, exchange.DecodeEvent(record, &e))
		return state.Apply(&e)
	}))
	again := &market{New(Options{Journal: m.journal, State: state, Now: func() int64 { return 78 }}), t, m.journal, m.dir}
	defer again.Close()
	require.Equal(t, Stats{Accounts: 2, Symbols: 2, OpenOrders: 2, ClosedOrders: 1, LastOrder: 3,
		Appended: m.journal.Appended()}, again.Stats())
	require.Equal(t, exchange.OrderID(4), again.do(buy("A", 7, 5)).Order)
	require.Equal(t, exchange.Shares(1), again.do(queryOf(4)).Status.Open)
	require.Equal(t, exchange.AlreadyExecuted, again.do(cancelOf(2, "1")).Reason, "closed before the restart")
	m.Engine = again.Engine // so that the deferred call closes it, once
	m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()})
}

func TestClosedOrdersLeaveMemoryOnceTheyAreProjected(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db, ClosedOrdersMax: 10})
	trade := func(n int) {
		for range n {
			m.all(sell("A", 1, 5), buy("A", 1, 5))
		}
	}
	trade(100)
	require.Equal(t, int64(200), m.Stats().ClosedOrders, "nothing is projected yet")
	db.applied.Store(m.journal.Appended())
	trade(10)
	require.Eventually(t, func() bool { return m.Stats().ClosedOrders <= 40 }, time.Minute, time.Millisecond)
	closed := exchange.ClosedOrder{Account: "2", PublicOrder: exchange.PublicOrder{
		Status: exchange.Status{Executions: []exchange.Execution{{Shares: 1, Price: 5, Time: 77}}}}}
	db.orders.Store(exchange.OrderID(1), closed)
	require.Equal(t, exchange.Result{Status: closed.Status}, m.do(queryOf(1)))
	require.Equal(t, exchange.AlreadyExecuted, m.do(cancelOf(1, "2")).Reason)
	require.Equal(t, exchange.ForeignOrder, m.do(cancelOf(1, "1")).Reason)
	require.Equal(t, exchange.UnknownAccount, m.do(cancelOf(1, "9")).Reason)
	require.Equal(t, exchange.UnknownOrder, m.do(queryOf(2)).Reason)
	closed.Status.Canceled = 1
	db.orders.Store(exchange.OrderID(3), closed)
	require.Equal(t, exchange.AlreadyCanceled, m.do(cancelOf(3, "2")).Reason)
	db.away.Store(true)
	require.Equal(t, exchange.HistoryUnavailable, m.do(queryOf(1)).Reason)
	require.Equal(t, exchange.UnknownOrder, m.do(queryOf(999)).Reason, "the id was never given out")
}

// TestIdleDesksForgetClosedOrdersToo: if Postgres recovers after trading has ended, memory still shrinks.
func TestIdleDesksForgetClosedOrdersToo(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db, ClosedOrdersMax: 10})
	for range 600 {
		m.do(sell("A", 1, 1))
		m.do(buy("A", 1, 1))
	}
	require.EqualValues(t, 1200, m.Stats().ClosedOrders)
	db.applied.Store(m.journal.Appended())
	require.Eventually(t, func() bool { return m.Stats().ClosedOrders <= 10 }, time.Minute, 10*time.Millisecond)
}

func TestAnIdleSymbolDoesNotKeepTheNewestOutOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{}
		m := open(t, Options{Projection: db, History: db, ClosedOrdersMax: 100})
		for range 50 {
			m.all(sell("A", 1, 1), buy("A", 1, 1))
		}
		last := exchange.OrderID(0)
		for range 80 {
			db.applied.Store(m.journal.Appended())
			m.all(sell("B", 1, 1))
			last = m.all(buy("B", 1, 1))[0].Order
		}
		require.Equal(t, exchange.OK, m.do(queryOf(last-60)).Reason, "30 trades ago")
		require.Greater(t, m.Stats().ClosedOrders, int64(100))
		db.applied.Store(m.journal.Appended())
		time.Sleep(2 * sweepEvery)
		synctest.Wait()
		require.Equal(t, int64(100), m.Stats().ClosedOrders, "the older orders, of A, were forgotten first")
		require.Equal(t, exchange.UnknownOrder, m.do(queryOf(1)).Reason, "the history is asked, and has no such order")
		require.Equal(t, exchange.OK, m.do(queryOf(last-60)).Reason)
	})
}

func TestOrdersAreRefusedAtTheBacklogsBound(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, BacklogMax: 20})
	var reason exchange.RejectReason
	for range 30 {
		if reason = m.do(buy("A", 1, 1)).Reason; reason != exchange.OK {
			break
		}
	}
	require.Equal(t, exchange.DatabaseBehind, reason)
	require.ErrorContains(t, m.Refusing(), "Postgres is 20 records behind, the limit is 20")
	require.Equal(t, uint64(20), m.Stats().Lag)
	require.Equal(t, exchange.DatabaseBehind, m.do(exchange.Command{Kind: exchange.OpenAccount, Account: "3"}).Reason)
	require.Equal(t, exchange.DatabaseBehind, m.do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: "Z"}).Reason)
	require.Equal(t, exchange.OK, m.do(cancelOf(1, "1")).Reason)
	require.Equal(t, exchange.AlreadyCanceled, m.do(cancelOf(1, "1")).Reason)
	db.applied.Store(m.journal.Appended())
	require.NoError(t, m.Refusing())
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	ctx, cancel := context.WithCancel(background)
	cancel()
	db.applied.Store(0)
	_, err := m.Execute(ctx, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
	require.ErrorIs(t, err, context.Canceled, "a context ends a waiting session")
}

func TestLimitsChangeWhileOrdersArrive(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db, BacklogMax: 20})
	for range 5 {
		m.all(buy("A", 1, 1), sell("A", 1, 1))
		db.applied.Store(m.journal.Appended())
	}
	require.EqualValues(t, 10, m.Stats().ClosedOrders)
	m.SetLimits(Limits{ClosedOrdersMax: 1, BacklogMax: 2})
	require.Eventually(t, func() bool { return m.Stats().ClosedOrders <= 2 }, time.Minute, time.Millisecond)
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	require.Equal(t, exchange.DatabaseBehind, m.do(buy("A", 1, 1)).Reason)
	m.SetLimits(Limits{ClosedOrdersMax: 1, BacklogMax: 3})
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	require.ErrorContains(t, m.Refusing(), "the limit is 3")
}

func TestDurableWaitsForTheMark(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, AckPostgres: true})
	results := make([]exchange.Result, 1)
	mark, err := m.Execute(background, []exchange.Command{buy("A", 1, 1)}, results)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.Error(t, m.Durable(ctx, mark))
	db.applied.Store(mark.Seq)
	require.NoError(t, m.Durable(background, mark))
	rejected, err := m.Execute(background, []exchange.Command{buy("A", 1000, 1001)}, results)
	require.NoError(t, err)
	require.Equal(t, mark, rejected, "a rejection waits for the last record before it")
}

func TestSymbolsAreBounded(t *testing.T) {
	m := open(t, Options{SymbolsMax: 3})
	require.Equal(t, exchange.OK, m.do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C"}).Reason)
	require.Equal(t, exchange.SymbolLimitExceeded, m.do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: "D"}).Reason)
	require.Equal(t, exchange.OK, m.do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C"}).Reason, "it exists")
}

func TestTheSameNameAtOnceHasOneCreator(t *testing.T) {
	m := open(t, Options{})
	var opened, made atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for i := range 50 {
				results := make([]exchange.Result, 3)
				sym := exchange.Symbol(fmt.Sprintf("S%d", i))
				account := exchange.AccountID(fmt.Sprint(1000 + i))
				_, err := m.Execute(background, []exchange.Command{{Kind: exchange.OpenAccount, Account: account},
					{Kind: exchange.MakeSymbol, Symbol: sym},
					{Kind: exchange.DepositShares, Symbol: sym, Account: account, Deposited: exchange.Position{Lo: 1}}}, results)
				if err != nil || results[1].Reason != exchange.OK || results[2].Reason != exchange.OK {
					t.Error(err, results)
				}
				if results[0].Reason == exchange.OK {
					opened.Add(1)
				}
				made.Add(1)
			}
		})
	}
	clients.Wait()
	require.Equal(t, int64(50), opened.Load())
	require.Equal(t, int64(52), m.Stats().Symbols)
	require.NoError(t, m.CheckLedger())
	require.NoError(t, m.Durable(background, Mark{Seq: m.journal.Appended()}))
	state := exchange.NewState()
	var e exchange.Event
	require.NoError(t, journal.Scan(m.dir, exchange.EventVersion, func(_ uint64, record []byte) error {
		require.NoError(t, exchange.DecodeEvent(record, &e))
		return state.Apply(&e)
	}), "the record that makes a symbol comes before all others of the symbol")
}

// TestSymbolsShareAccountsExactly spends one account's cash in many symbols at once: the account must never spend
// more than it has, neither in the engine nor in a replay of any prefix of the journal.
func TestSymbolsShareAccountsExactly(t *testing.T) {
	m := open(t, Options{})
	var clients sync.WaitGroup
	for n := range 8 {
		clients.Go(func() {
			sym := exchange.Symbol(fmt.Sprintf("S%d", n))
			results := make([]exchange.Result, 2)
			commands := []exchange.Command{{Kind: exchange.MakeSymbol, Symbol: sym},
				{Kind: exchange.DepositShares, Symbol: sym, Account: "2", Deposited: exchange.Shares(1e9).Position()}}
			if _, err := m.Execute(background, commands, results); err != nil {
				t.Error(err)
			}
			for range 200 {
				// All cash is held by a bid and released again, or spent and then earned back.
				commands = []exchange.Command{buy(sym, 1000, 1000), sell(sym, 1, 900)}
				if _, err := m.Execute(background, commands, results); err != nil {
					t.Error(err)
				}
				if results[0].Reason == exchange.OK {
					_, err := m.Execute(background, []exchange.Command{cancelOf(results[0].Order, "1")}, results[:1])
					if err != nil || results[0].Reason != exchange.OK {
						t.Error(err, results[0])
					}
				}
			}
		})
	}
	clients.Wait()
	require.NoError(t, m.CheckLedger())
	require.NoError(t, m.Durable(background, Mark{Seq: m.journal.Appended()}))
	state := exchange.NewState()
	var e exchange.Event
	require.NoError(t, journal.Scan(m.dir, exchange.EventVersion, func(_ uint64, record []byte) error {
		require.NoError(t, exchange.DecodeEvent(record, &e))
		return state.Apply(&e)
	}))
	require.NoError(t, state.Audit())
}

// TestAFailedJournalStopsTheExchange closes the journal under the engine: after that
// every call fails.
func TestAFailedJournalStopsTheExchange(t *testing.T) {
	m := open(t, Options{})
	mark, err := m.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
	require.NoError(t, err)
	require.NoError(t, m.Durable(background, mark))
	require.NoError(t, m.journal.Close())
	_, err = m.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
	require.ErrorIs(t, err, journal.ErrClosed)
	require.Error(t, m.Durable(background, Mark{Seq: mark.Seq + 1}))
	_, err = m.Execute(background, []exchange.Command{queryOf(1)}, make([]exchange.Result, 1))
	require.ErrorIs(t, err, journal.ErrClosed, "even though all appended records are durable")
}

func TestCloseEndsCallsThatWait(t *testing.T) {
	m := open(t, Options{})
	m.Close()
	_, err := m.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
	require.ErrorIs(t, err, ErrStopped)
	m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // the market's cleanup closes it
}
