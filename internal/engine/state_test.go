package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// TestReconcileRunsBesideTrading calls Reconcile repeatedly while
// five sessions trade, deposit shares and open accounts.
func TestReconcileRunsBesideTrading(t *testing.T) {
	m := open(t, Options{})
	var sessions sync.WaitGroup
	counted := make(chan struct{}) // closed after the first Reconcile; the sessions trade at least until then
	for s := range 5 {
		sessions.Go(func() {
			for i := range 200 {
				if i == 199 {
					<-counted
				}
				id := exchange.AccountID(fmt.Sprint(1000*(s+1) + i))
				results := make([]exchange.Result, 5)
				_, err := m.Execute(background, []exchange.Command{
					{Kind: exchange.OpenAccount, Account: id, Balance: exchange.Notional(7, 9)},
					{Kind: exchange.DepositShares, Account: id, Symbol: "A", Deposited: exchange.Shares(3).Position()},
					sell("A", 2, exchange.Price(1+i%3)), buy("A", 2, 3), sell("B", 1, 1)}, results)
				if err != nil || results[1].Reason != exchange.OK {
					t.Errorf("%v %v", results, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { sessions.Wait(); close(done) }()
	for first := sync.OnceFunc(func() { close(counted) }); ; first() {
		require.Zero(t, m.Reconcile())
		select {
		case <-done:
			require.NoError(t, m.CheckLedger())
			return
		default:
		}
	}
}

// TestAStoppedEngineHandsBackItsState compares State with a replay of the journal.
func TestAStoppedEngineHandsBackItsState(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 10, 5), buy("A", 4, 6), buy("B", 3, 5), cancelOf(3, "1"), buy("B", 2, 5))
	m.Close()
	stopped := m.State()
	m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // the market's cleanup closes it
	require.NoError(t, m.journal.Wait(background, m.journal.Appended()))
	replayed := exchange.NewState()
	require.NoError(t, journal.Scan(m.dir, exchange.EventVersion, func(_ uint64, record []byte) error {
		var e exchange.Event
		if err := exchange.DecodeEvent(record, &e); err != nil {
			return err
		}
		return replayed.Apply(&e)
	}))
	require.NoError(t, stopped.Audit())
	require.Equal(t, replayed.Digest(), stopped.Digest())
	require.Equal(t, exchange.OrderID(4), stopped.OrderID)
}

func TestCloseEndsCallsOfManySessions(t *testing.T) {
	for range 20 {
		m := open(t, Options{InboxLen: 1}) // so that sessions also wait for room in inboxes
		var running sync.WaitGroup
		var done atomic.Int64
		for n := range 16 {
			running.Go(func() {
				commands := []exchange.Command{buy("A", 1, 1), buy("B", 1, 1),
					{Kind: exchange.MakeSymbol, Symbol: exchange.Symbol(fmt.Sprint("NEW", n))}}
				results := make([]exchange.Result, len(commands))
				for err := error(nil); err == nil; done.Add(1) {
					if _, err = m.Execute(background, commands, results); err != nil {
						assert.ErrorIs(t, err, ErrStopped)
					}
					results = make([]exchange.Result, len(commands)) // a shard may still use the old ones
				}
			})
		}
		require.Eventually(t, func() bool { return done.Load() > 100 }, time.Minute, time.Millisecond)
		m.Close()
		running.Wait()                                                          // hangs if a call never returns
		m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // the market's cleanup closes it
	}
}

// TestAnEngineFindsTheOrdersOfItsFirstState stops an engine, starts another one with its state, and creates one more
// symbol in that one.
func TestAnEngineFindsTheOrdersOfItsFirstState(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 10, 5), buy("B", 3, 5), buy("A", 4, 5))
	m.Close()
	m.Engine = New(Options{Journal: m.journal, State: m.State()})
	got := m.all(exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C"}, buy("C", 1, 7), cancelOf(1, "2"),
		cancelOf(2, "1"), cancelOf(4, "1"), queryOf(5))
	require.Equal(t, []exchange.Shares{6, 3, 1}, []exchange.Shares{got[2].Status.Canceled, got[3].Status.Canceled,
		got[4].Status.Canceled})
	require.Equal(t, exchange.UnknownOrder, got[5].Reason)
}

// TestOrdersAreFoundWhileSymbolsAreMade lets sessions make symbols, and query and cancel orders in them. It is also
// meant for the race detector.
func TestOrdersAreFoundWhileSymbolsAreMade(t *testing.T) {
	m := open(t, Options{})
	var sessions sync.WaitGroup
	for s := range 4 {
		sessions.Go(func() {
			for i := range 50 {
				sym := exchange.Symbol(fmt.Sprint("S", s, "N", i))
				placed := m.all(exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym}, buy(sym, 2, 3))[1].Order
				found := m.all(queryOf(placed), cancelOf(placed, "1"), queryOf(placed+1000))
				assert.Equal(t, exchange.Shares(2), found[0].Status.Open, "order %d", placed)
				assert.Equal(t, exchange.Shares(2), found[1].Status.Canceled, "order %d", placed)
				assert.Equal(t, exchange.UnknownOrder, found[2].Reason)
			}
		})
	}
	sessions.Wait()
	m.Close()
	require.NoError(t, m.State().Audit())
	m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // the market's cleanup closes it
}

// TestOrderIDsContinueAboveThoseOfALostPast sets OrdersAfter, as after a loss of records with higher order ids.
func TestOrderIDsContinueAboveThoseOfALostPast(t *testing.T) {
	m := open(t, Options{OrdersAfter: 1_000_000_000})
	m.Close()
	require.Zero(t, m.State().OrderID, "the ids that are skipped have no orders")
	m.Engine = New(Options{Journal: m.journal, State: m.State(), OrdersAfter: 1_000_000_000})
	results := make([]exchange.Result, 1)
	_, err := m.Execute(background, []exchange.Command{sell("A", 10, 5)}, results)
	require.NoError(t, err)
	require.Equal(t, exchange.OrderID(1_000_000_001), results[0].Order)
	m.Close()
	require.Equal(t, exchange.OrderID(1_000_000_001), m.State().OrderID)
	m.Engine = New(Options{Journal: m.journal, State: m.State(), OrdersAfter: 7})
	_, err = m.Execute(background, []exchange.Command{sell("A", 10, 5)}, results)
	require.NoError(t, err)
	require.Equal(t, exchange.OrderID(1_000_000_002), results[0].Order)
}

// TestTimesNeverGoBackOverARestart: after a clean stop everything is in the database, and no record is replayed. Then
// only the snapshot has the time of the newest record, even if no order is open.
func TestTimesNeverGoBackOverARestart(t *testing.T) {
	snap := &exchange.Snapshot{OrderID: 2, Time: 1000,
		Accounts: []exchange.AccountState{{ID: "2"},
			{ID: "1", Opened: exchange.Notional(1000, 10), Balance: exchange.Notional(1000, 10)}},
		Symbols:   []exchange.SymbolState{{Symbol: "A", Deposited: exchange.Shares(1000).Position(), Last: 10}},
		Positions: []exchange.PositionState{{Symbol: "A", Account: "2", Shares: exchange.Shares(1000).Position()}}}
	state, err := snap.Restore()
	require.NoError(t, err)
	m := open(t, Options{})
	m.Close()
	clock := int64(500)
	m.Engine = New(Options{Journal: m.journal, State: state, Now: func() int64 { return clock }})
	trade := func() int64 {
		m.do(sell("A", 5, 10))
		executions := m.do(queryOf(m.do(buy("A", 5, 10)).Order)).Status.Executions
		require.Len(t, executions, 1)
		return executions[0].Time
	}
	require.EqualValues(t, 1000, trade())
	clock = 1500
	require.EqualValues(t, 1500, trade())
}

// TestAccountsAreNotConfused: a shard caches the accounts of its last commands by the last digit of their ids.
func TestAccountsAreNotConfused(t *testing.T) {
	m := open(t, Options{})
	m.do(exchange.Command{Kind: exchange.OpenAccount, Account: "21", Balance: exchange.Notional(10, 10)})
	for _, of21 := range []exchange.RejectReason{exchange.OK, exchange.InsufficientFunds} {
		for account, want := range map[exchange.AccountID]exchange.RejectReason{"1": exchange.OK, "21": of21,
			"31": exchange.UnknownAccount, "": exchange.UnknownAccount} {
			c := buy("A", 10, 10)
			c.Account = account
			require.Equal(t, want, m.do(c).Reason, account)
		}
	}
}
