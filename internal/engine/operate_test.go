package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// halt calls Halt; no error may occur. resume and cancelAll do the same for Resume and CancelAll.
func (m *market) halt(sym exchange.Symbol, reason string) exchange.HaltResult {
	r, err := m.Halt(background, sym, reason)
	require.NoError(m.t, err)
	return r
}

func (m *market) resume(sym exchange.Symbol) exchange.HaltResult {
	r, err := m.Resume(background, sym)
	require.NoError(m.t, err)
	return r
}

func (m *market) cancelAll(account exchange.AccountID, sym exchange.Symbol) exchange.CancelAllResult {
	r, err := m.CancelAll(background, account, sym)
	require.NoError(m.t, err)
	return r
}

// events returns the events of the journal, beginning with record first.
func (m *market) events(first uint64) (all []exchange.Event) {
	require.NoError(m.t, m.journal.Wait(background, m.journal.Appended()))
	require.NoError(m.t, journal.Scan(m.dir, exchange.EventVersion, func(seq uint64, record []byte) error {
		var e exchange.Event
		require.NoError(m.t, exchange.DecodeEvent(record, &e))
		if seq >= first {
			all = append(all, e)
		}
		return nil
	}))
	return all
}

func TestAHaltedSymbolRejectsOrdersAndDoesAllElse(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 10, 5), sell("A", 10, 5), buy("B", 1, 5))
	first := m.journal.Appended() + 1
	halt := exchange.Halt{Since: 77, Reason: "news"}
	require.Equal(t, exchange.HaltResult{Changed: true, Halt: halt}, m.halt("A", "news"))
	require.Equal(t, exchange.HaltResult{Halt: halt}, m.halt("A", "other news"), "it stays halted since the first time")
	require.Equal(t, exchange.HaltResult{Reason: exchange.UnknownSymbol}, m.halt("C", ""))
	require.Equal(t, []HaltedSymbol{{"A", halt}}, m.Halts())
	require.EqualValues(t, 1, m.Stats().Halted)

	got := m.all(buy("A", 1, 5), exchange.Command{Kind: exchange.PlaceOrder, Account: "9", Symbol: "A",
		Terms: exchange.Terms{Side: exchange.Buy, Limit: 1}, Shares: 1},
		buy("A", 1000, 1000), queryOf(1), cancelOf(1, "2"), exchange.Command{Kind: exchange.DepositShares, Symbol: "A",
			Account: "1", Deposited: exchange.Position{Lo: 1}}, buy("B", 1, 5))
	halted := exchange.Result{Reason: exchange.Halted, Details: &exchange.RejectDetails{Halt: &halt}}
	require.Equal(t, []exchange.Result{halted, {Reason: exchange.UnknownAccount}, halted,
		{Status: exchange.Status{Open: 10}}, {Status: exchange.Status{Canceled: 10, CanceledAt: 77}}, {}, {Order: 4}}, got)

	require.Equal(t, exchange.HaltResult{Changed: true, Halt: halt}, m.resume("A"))
	require.Equal(t, exchange.HaltResult{}, m.resume("A"))
	require.Equal(t, exchange.HaltResult{Reason: exchange.UnknownSymbol}, m.resume("C"))
	require.Empty(t, m.Halts())
	require.Equal(t, exchange.OrderID(5), m.do(buy("A", 1, 5)).Order)
	require.Equal(t, exchange.Shares(9), m.do(queryOf(2)).Status.Open, "it kept its place")
	var kinds []exchange.EventKind
	for _, e := range m.events(first) {
		kinds = append(kinds, e.Kind)
	}
	require.Equal(t, []exchange.EventKind{exchange.SymbolHalted, exchange.OrderCanceled, exchange.SharesDeposited,
		exchange.OrderAccepted,
		exchange.SymbolResumed, exchange.OrderAccepted}, kinds)
	m.agrees()
}

func TestAHaltIsThereAfterARestart(t *testing.T) {
	m := open(t, Options{})
	m.halt("A", "news")
	m.halt("B", "")
	m.resume("B")
	m.Close()
	state := exchange.NewState()
	for _, e := range m.events(1) {
		require.NoError(t, state.Apply(&e))
	}
	again := &market{New(Options{Journal: m.journal, State: state}), t, m.journal, m.dir}
	defer again.Close()
	require.Equal(t, []HaltedSymbol{{"A", exchange.Halt{Since: 77, Reason: "news"}}}, again.Halts())
	require.Equal(t, exchange.Halted, again.do(buy("A", 1, 5)).Reason)
	require.Equal(t, exchange.OK, again.do(buy("B", 1, 5)).Reason)
	m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // the market's cleanup closes it
}

func TestACancelAllCancelsEverythingInOneRecord(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("B", 10, 5), sell("A", 10, 5), buy("A", 4, 5), buy("B", 1, 3), sell("A", 7, 9), buy("A", 2, 1),
		sell("B", 1, 8), cancelOf(7, "2"))
	first := m.journal.Appended() + 1
	require.Equal(t, exchange.CancelAllResult{Time: 77, Symbols: []exchange.CanceledIn{
		{Symbol: "A", Orders: 2, Shares: exchange.Shares(13).Position()}, {Symbol: "B", Orders: 1,
			Shares: exchange.Shares(10).Position()}}}, m.cancelAll("2", ""))
	require.Equal(t, []exchange.Event{{Kind: exchange.OrdersCanceled, Time: 77, Account: "2", Cancels: []exchange.Cancel{
		{Order: 2, Symbol: "A", Terms: exchange.Terms{Side: exchange.Sell, Limit: 5}, Shares: 6}, {Order: 5, Symbol: "A",
			Terms:  exchange.Terms{Side: exchange.Sell, Limit: 9},
			Shares: 7},
		{Order: 1, Symbol: "B", Terms: exchange.Terms{Side: exchange.Sell, Limit: 5}, Shares: 10}}}}, m.events(first))
	require.Equal(t, exchange.CancelAllResult{Time: 77}, m.cancelAll("2", ""), "nothing is open any more")
	require.Equal(t, first, m.journal.Appended(), "no record was appended")
	require.Equal(t, exchange.CancelAllResult{Reason: exchange.UnknownAccount}, m.cancelAll("9", ""))
	require.Equal(t, exchange.CancelAllResult{Reason: exchange.UnknownSymbol}, m.cancelAll("1", "C"))
	require.Equal(t, exchange.CancelAllResult{Time: 77, Symbols: []exchange.CanceledIn{{Symbol: "B", Orders: 1,
		Shares: exchange.Shares(1).Position()}}}, m.cancelAll("1", "B"))

	got := m.all(queryOf(2), queryOf(4), queryOf(6), cancelOf(2, "2"), queryOf(7))
	require.Equal(t, []exchange.Result{
		{Status: exchange.Status{Canceled: 6, CanceledAt: 77, Executions: []exchange.Execution{{Shares: 4, Price: 5,
			Time: 77}}}},
		{Status: exchange.Status{Canceled: 1, CanceledAt: 77}}, {Status: exchange.Status{Open: 2}},
		{Reason: exchange.AlreadyCanceled}, {Status: exchange.Status{Canceled: 1, CanceledAt: 77}}}, got)
	s := m.Stats()
	require.Equal(t, [3]int64{1, 6, 5}, [3]int64{s.OpenOrders, s.ClosedOrders, s.Cancels})
	m.agrees()
	require.Equal(t, exchange.OK, m.do(sell("B", 1_000_000_000, 9)).Reason, "all shares are free again")
}

// TestACancelAllThatIsTooLargeChangesNothing uses more open orders than fit into three eighths of a segment, but fewer
// in each symbol.
func TestACancelAllThatIsTooLargeChangesNothing(t *testing.T) {
	m := cramped(t, 16<<10)
	var commands []exchange.Command
	for range 600 {
		commands = append(commands, sell("A", 5, 9), sell("B", 5, 9))
	}
	for _, r := range m.all(commands...) {
		require.Equal(t, exchange.OK, r.Reason)
	}
	before := m.journal.Appended()
	require.Equal(t, exchange.CancelAllResult{Reason: exchange.TooManyCancels}, m.cancelAll("2", ""))
	require.Equal(t, before, m.journal.Appended())
	require.EqualValues(t, 1200, m.Stats().OpenOrders)
	m.agrees()
	for _, sym := range []exchange.Symbol{"A", "B"} {
		require.Equal(t, []exchange.CanceledIn{{Symbol: sym, Orders: 600, Shares: exchange.Shares(3000).Position()}},
			m.cancelAll("2", sym).Symbols)
	}
	require.Zero(t, m.Stats().OpenOrders)
	m.agrees()
}

// TestOnAFullDiskOperationsUseTheReserve halts and cancels while orders are rejected,
// until the reserve is used up.
func TestOnAFullDiskOperationsUseTheReserve(t *testing.T) {
	m := cramped(t, 16<<10)
	m.fillDisk()
	_, why := m.untilRefused(buy("A", 1, 1))
	require.Equal(t, exchange.NoRoom, why)
	require.True(t, m.halt("A", "the disk is full").Changed)
	require.NotEmpty(t, m.cancelAll("1", "B").Time)
	halts := 0
	for ; m.halt("B", "").Reason == exchange.OK; halts++ {
		if m.resume("B").Reason != exchange.OK {
			break
		}
	}
	require.Greater(t, halts, 10)
	before := m.Stats()
	require.Equal(t, exchange.CancelAllResult{Reason: exchange.NoRoomToCancel}, m.cancelAll("1", ""))
	require.Equal(t, exchange.NoRoomToCancel, m.resume("A").Reason)
	require.Equal(t, before, m.Stats())
	m.agrees()
	m.freeDisk()
	require.Equal(t, before.OpenOrders, int64(m.cancelAll("1", "").Symbols[0].Orders))
	require.True(t, m.resume("A").Changed)
	m.agrees()
}

// TestOperationsWhileEverythingTrades has inboxes for one task, so that they are full
// most of the time, and sessions whose frames move from symbol to symbol and spend cash that
// other symbols are about to release. It closes the engine at a random moment. All calls
// must end, and the journal must lead to the engine's state.
func TestOperationsWhileEverythingTrades(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range 8 {
		m := open(t, Options{InboxLen: 1})
		symbols := []exchange.Symbol{"A", "B"}
		for n := range 6 {
			sym := exchange.Symbol(fmt.Sprint("S", n))
			require.Equal(t, exchange.OK, m.all(exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym},
				exchange.Command{Kind: exchange.DepositShares, Symbol: sym, Account: "2",
					Deposited: exchange.Position{Lo: 1e9}})[1].Reason)
			symbols = append(symbols, sym)
		}
		var clients sync.WaitGroup
		var frames, operations atomic.Int64
		for n := range 6 {
			clients.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(100*round+n)))
				for trade(m, r, symbols) == nil {
					frames.Add(1)
				}
			})
		}
		for n := range 3 {
			clients.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(100*round+50+n)))
				for operate(m, r, symbols) == nil {
					operations.Add(1)
				}
			})
		}
		for frames.Load() < int64(25*round) || operations.Load() < int64(10*round) {
			time.Sleep(100 * time.Microsecond) // until enough commands are done
		}
		m.Close()
		clients.Wait()
		m.agrees()
		require.NoError(t, m.State().Audit(), "seed %d, round %d", seed, round)
		m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // the market's cleanup closes it
	}
}

// trade sends one frame of commands for several symbols. Account 1 has little cash,
// so that its buys wait for each other's settlement.
func trade(m *market, r *rand.Rand, symbols []exchange.Symbol) error {
	var commands []exchange.Command
	for range 1 + r.IntN(6) {
		sym := symbols[r.IntN(len(symbols))]
		switch n := r.IntN(10); {
		case n < 4:
			commands = append(commands, buy(sym, exchange.Shares(1+r.Int64N(300)), exchange.Price(900+r.Int64N(100))))
		case n < 8:
			commands = append(commands, sell(sym, exchange.Shares(1+r.Int64N(300)), exchange.Price(900+r.Int64N(100))))
		case n < 9:
			commands = append(commands, cancelOf(exchange.OrderID(1+r.Int64N(1000)),
				exchange.AccountID(fmt.Sprint(1+r.IntN(2)))))
		default:
			commands = append(commands, exchange.Command{Kind: exchange.MakeSymbol,
				Symbol: exchange.Symbol(fmt.Sprint("N", r.IntN(100)))})
		}
	}
	_, err := m.Execute(background, commands, make([]exchange.Result, len(commands)))
	return err
}

// operate executes one operation: a halt, a resume or a cancel-all.
func operate(m *market, r *rand.Rand, symbols []exchange.Symbol) (err error) {
	sym, account := symbols[r.IntN(len(symbols))], exchange.AccountID(fmt.Sprint(1+r.IntN(2)))
	switch r.IntN(6) {
	case 0:
		_, err = m.Halt(background, sym, "news")
	case 1, 2:
		_, err = m.Resume(background, sym)
	case 3:
		_, err = m.CancelAll(background, account, sym)
	default:
		_, err = m.CancelAll(background, account, "")
	}
	return err
}

// TestACancelAllIsOneMoment has one session place an order for B and, once that is
// accepted, one for A, while another session cancels all. Any order that stays open must have been accepted
// after the record of the cancel.
func TestACancelAllIsOneMoment(t *testing.T) {
	m := open(t, Options{InboxLen: 2})
	for range 10_000 {
		m.do(buy("B", 1, 1)) // so that finding the open orders in it takes a while
	}
	canceled := 0
	count := func() {
		for _, in := range m.cancelAll("2", "").Symbols {
			canceled += in.Orders
		}
	}
	for n := range 600 {
		var client sync.WaitGroup
		client.Go(func() {
			for _, c := range []exchange.Command{sell("B", 1, 9), sell("A", 1, 9)} {
				if _, err := m.Execute(background, []exchange.Command{c}, make([]exchange.Result, 1)); err != nil {
					t.Error(err)
				}
			}
		})
		for begun := time.Now(); time.Since(begun) < time.Duration(n%60)*time.Microsecond; {
			runtime.Gosched()
		}
		count()
		client.Wait()
		count()
	}
	require.Equal(t, 1200, canceled)
	open := map[exchange.OrderID]bool{}
	for seq, e := range m.events(1) {
		switch e.Kind {
		case exchange.OrderAccepted:
			if e.Account == "2" {
				open[e.Order] = true
			}
		case exchange.OrdersCanceled:
			for _, c := range e.Cancels {
				require.True(t, open[c.Order])
				delete(open, c.Order)
			}
			require.Empty(t, open, "after record %d: accepted before the cancel, but still open", seq+1)
		}
	}
	m.agrees()
}

// TestOperationsEndWithTheirContextAndTheEngine calls operations for a shard that hangs in the middle of a command.
// Once a call has ended, its operation is not executed later.
func TestOperationsEndWithTheirContextAndTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		release := make(chan struct{})
		m := open(t, Options{InboxLen: 1, Now: func() int64 {
			if hang.CompareAndSwap(true, false) {
				<-release
			}
			return 77
		}})
		m.do(buy("A", 1, 1))
		hang.Store(true)
		for range 3 {
			go m.Execute(background, []exchange.Command{queryOf(1)}, make([]exchange.Result, 1))
			synctest.Wait()
		}
		last := m.journal.Appended()
		ctx, cancel := context.WithCancel(background)
		ended := make(chan error, 3)
		go func() { _, err := m.Halt(ctx, "A", ""); ended <- err }()
		go func() { _, err := m.CancelAll(ctx, "1", ""); ended <- err }()
		synctest.Wait()
		require.Empty(t, ended)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.ErrorIs(t, <-ended, context.Canceled)
		close(release)
		synctest.Wait()
		require.Equal(t, last, m.journal.Appended(), "its caller has left, so it was not executed")
		require.EqualValues(t, 1, m.Stats().OpenOrders)
		m.Close()
		_, err := m.Halt(background, "A", "")
		require.ErrorIs(t, err, ErrStopped)
		_, err = m.CancelAll(background, "1", "")
		require.ErrorIs(t, err, ErrStopped)
		m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()})
	})
}

// TestAHaltAndItsEndAreVisibleOnceTheyAreDurable: with AckPostgres, Halts must not show changes that only the journal
// has, because a crash may undo them.
func TestAHaltAndItsEndAreVisibleOnceTheyAreDurable(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, AckPostgres: true})
	apply := func() { db.applied.Store(m.journal.Appended()) }
	apply()
	halt := exchange.Halt{Since: 77, Reason: "news"}
	requireHalts := func(want ...HaltedSymbol) {
		t.Helper()
		require.NoError(t, m.journal.Wait(background, m.journal.Appended()))
		require.Equal(t, want, m.Halts())
		require.EqualValues(t, len(want), m.Stats().Halted)
	}
	change := func(sym exchange.Symbol, reason string) {
		t.Helper()
		before := m.journal.Appended()
		ctx, cancel := context.WithCancel(background)
		ended := make(chan error)
		go func() {
			var err error
			if reason == "" {
				_, err = m.Resume(ctx, sym)
			} else {
				_, err = m.Halt(ctx, sym, reason)
			}
			ended <- err
		}()
		require.Eventually(t, func() bool { return m.journal.Appended() == before+1 }, time.Minute, time.Microsecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled, "it is not durable")
	}
	change("A", "news")
	requireHalts()
	apply()
	requireHalts(HaltedSymbol{"A", halt})
	change("A", "")
	requireHalts(HaltedSymbol{"A", halt})
	between := m.journal.Appended()
	change("A", "again")
	requireHalts(HaltedSymbol{"A", halt})
	db.applied.Store(between)
	requireHalts()
	apply()
	requireHalts(HaltedSymbol{"A", exchange.Halt{Since: 77, Reason: "again"}})
	for range 100 { // changes that are durable and not the newest are dropped
		change("A", "")
		change("A", "again")
		apply()
		requireHalts(HaltedSymbol{"A", exchange.Halt{Since: 77, Reason: "again"}})
	}
	found, _ := m.shards.Load(exchange.Symbol("A"))
	require.LessOrEqual(t, len(found.(*shard).haltChanges()), 3)
}

// TestOrdersWaitForTheReleaseOfACancelAll: between the record of a cancel-all and the release of the holds, an
// order of the account is not rejected for lack of cash or shares that are about to be released.
func TestOrdersWaitForTheReleaseOfACancelAll(t *testing.T) {
	for _, sym := range []exchange.Symbol{"A", ""} {
		synctest.Test(t, func(t *testing.T) {
			m := open(t, Options{})
			const all = 1000 * 1000
			require.Equal(t, exchange.Result{Order: 1}, m.do(buy("A", all, 1)))
			m.Close()
			log := &hookedLog{Journal: m.journal}
			m.Engine = New(Options{Journal: log, State: m.State(), Now: m.options.Now})
			appended, release := make(chan struct{}), make(chan struct{})
			log.appended = func() { close(appended); <-release }
			canceled := make(chan exchange.CancelAllResult, 1)
			go func() { canceled <- m.cancelAll("1", sym) }()
			<-appended
			log.appended = nil
			placed := make(chan exchange.Result, 1)
			go func() { placed <- m.do(buy("B", all, 1)) }()
			time.Sleep(time.Second) // in synctest's time
			require.Empty(t, placed)
			close(release)
			require.Equal(t, exchange.Result{Order: 2}, <-placed)
			require.Equal(t, []exchange.CanceledIn{{Symbol: "A", Orders: 1, Shares: exchange.Shares(all).Position()}},
				(<-canceled).Symbols)
		})
	}
}
