package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// clock is a clock that a test sets. It starts at 77, like the clock of most tests.
type clock struct{ atomic.Int64 }

func (c *clock) options() Options {
	c.Store(77)
	return Options{Now: c.Load}
}

// pass sets the clock and makes the keeper check it.
func (m *market) pass(c *clock, now int64) {
	c.Store(now)
	m.keeper.nudge()
}

// settleSwitches waits until the orders of all switches that fired are canceled. No switch fires after that, as the
// clock stands still.
func (m *market) settleSwitches(c *clock) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		k := &m.keeper
		k.mu.Lock()
		due := slices.ContainsFunc(k.switches, func(s *armedSwitch) bool { return s.due <= c.Load() })
		k.mu.Unlock()
		if due {
			m.pass(c, c.Load()+int64(keepEvery)) // so that the keeper retries a switch that failed
		}
		return !due
	}, time.Minute, time.Millisecond)
}

func cancelAfter(account exchange.AccountID, seconds int) exchange.Command {
	return exchange.Command{Kind: exchange.SetSwitch, Account: account, More: &exchange.CommandMore{Seconds: seconds}}
}

func cancelAllOf(account exchange.AccountID, sym exchange.Symbol) exchange.Command {
	return exchange.Command{Kind: exchange.CancelAll, Account: account, Symbol: sym}
}

// TestASwitchPasses: the account's open orders are canceled in one record, which disarms the switch. Each command to
// set it arms it again. Orders of other accounts stay open.
func TestASwitchPasses(t *testing.T) {
	c := &clock{}
	m := open(t, c.options())
	m.all(buy("A", 1, 1), sell("A", 5, 5))
	require.Equal(t, exchange.UnknownAccount, m.do(cancelAfter("9", 1)).Reason)
	appended := m.journal.Appended()
	require.Equal(t, exchange.Result{}, m.do(cancelAfter("1", 0)))
	require.Equal(t, appended, m.journal.Appended(), "it was not armed")
	require.Equal(t, exchange.Result{}, m.do(cancelAfter("1", 60)))
	m.all(buy("B", 1, 1), cancelAfter("1", 90))
	require.EqualValues(t, 1, m.Stats().Switches)
	first := m.journal.Appended() + 1

	m.pass(c, 77+60*exchange.Second)
	m.all(cancelAfter("2", 5), cancelAfter("2", 0)) // makes the keeper look again
	require.Equal(t, int64(3), m.Stats().OpenOrders)
	m.pass(c, 77+90*exchange.Second)
	m.untilOpen(1)
	require.Eventually(t, func() bool { return m.Stats().Switches == 0 }, time.Minute, time.Millisecond)
	canceled, records := m.canceledBy(exchange.BySwitch, first)
	require.Equal(t, []exchange.OrderID{1, 3}, canceled)
	require.Equal(t, 1, records)

	require.Equal(t, exchange.Result{}, m.do(cancelAfter("1", 1)))
	m.pass(c, 77+100*exchange.Second)
	require.Eventually(t, func() bool { return m.Stats().Switches == 0 }, time.Minute, time.Millisecond)
	_, records = m.canceledBy(exchange.BySwitch, first)
	require.Equal(t, 2, records, "nothing was open, but the switch is disarmed")
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	m.agrees()
	require.Zero(t, m.dueOf(m.ledger.Account("1")))
}

// TestASwitchThatIsArmedAgainDoesNotPass: a cancel that was started for the old time cancels nothing.
func TestASwitchThatIsArmedAgainDoesNotPass(t *testing.T) {
	c := &clock{}
	m := open(t, c.options())
	m.all(buy("A", 1, 1), cancelAfter("1", 60))
	due := m.dueOf(m.ledger.Account("1"))
	m.do(cancelAfter("1", 90))
	done, err := m.Engine.cancelAll(background, canceling{account: "1", cause: exchange.BySwitch, due: due})
	require.NoError(t, err)
	require.Zero(t, done.seq)
	require.Equal(t, int64(1), m.Stats().OpenOrders)
	m.do(cancelAfter("1", 0))
	done, err = m.Engine.cancelAll(background, canceling{account: "1", cause: exchange.BySwitch, due: due})
	require.NoError(t, err)
	require.Zero(t, done.seq)
	require.Equal(t, int64(1), m.Stats().OpenOrders)
	m.agrees()
}

// TestASwitchIsThereAfterARestart checks that a switch that was due while the exchange was down fires at the start.
func TestASwitchIsThereAfterARestart(t *testing.T) {
	c := &clock{}
	m := inParts(t, c.options())
	m.all(buy("A", 1, 1), cancelAfter("1", 60))
	seq := m.journal.Appended()
	again := m.after(seq, false)
	require.EqualValues(t, 1, again.Stats().Switches)
	require.NoError(t, again.Catchup(background))
	require.Equal(t, int64(1), again.Stats().OpenOrders)
	again.pass(c, 77+60*exchange.Second)
	again.untilOpen(0)

	late := m.after(seq, false)
	require.NoError(t, late.Catchup(background))
	require.Zero(t, late.Stats().OpenOrders)
	require.Zero(t, late.Stats().Switches)
	late.agrees()
}

// TestASwitchWithMoreThanARecordHolds: the cancels need several records, the last of which disarms the switch.
func TestASwitchWithMoreThanARecordHolds(t *testing.T) {
	c := &clock{}
	m := openSmall(t, c.options())
	orders := 0
	for ; orders < 12_000; orders++ {
		require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	}
	require.Equal(t, exchange.TooManyCancels, m.do(cancelAllOf("1", "")).Reason)
	m.do(cancelAfter("1", 1))
	first := m.journal.Appended() + 1
	m.pass(c, 77+exchange.Second)
	m.untilOpen(0)
	require.Eventually(t, func() bool { return m.Stats().Switches == 0 }, time.Minute, time.Millisecond)
	canceled := 0
	for _, e := range m.events(first) {
		canceled += len(e.Cancels)
		require.Equal(t, canceled == orders, e.Cause == exchange.BySwitch)
	}
	require.Equal(t, orders, canceled)
	m.agrees()
}

// TestClientsCancelAll sends cancel-alls between other commands of a frame, up to the limit and above it.
func TestClientsCancelAll(t *testing.T) {
	m := open(t, Options{})
	first := m.journal.Appended() + 1
	got := m.all(buy("A", 1, 1), buy("B", 1, 1), sell("A", 1, 9), cancelAllOf("1", "B"), queryOf(2), buy("B", 2, 2),
		cancelAllOf("1", ""), queryOf(4), cancelAllOf("1", ""), cancelAllOf("1", "C"), cancelAllOf("9", ""), buy("B", 2, 2))
	count := func(n int) exchange.Result { return exchange.Result{Answer: &exchange.Answer{Canceled: n}} }
	require.Equal(t, []exchange.Result{count(1), {Status: exchange.Status{Canceled: 1, CanceledAt: 77}}, {Order: 4},
		count(2), {Status: exchange.Status{Canceled: 2, CanceledAt: 77}}, count(0), {Reason: exchange.UnknownSymbol},
		{Reason: exchange.UnknownAccount}, {Order: 5}}, got[3:])
	canceled, records := m.canceledBy(exchange.ByClient, first)
	require.Equal(t, []exchange.OrderID{2, 1, 4}, canceled)
	require.Equal(t, 2, records)
	m.agrees()
}

// TestCancelAllsAreBounded: an account may cancel all ten times a second.
func TestCancelAllsAreBounded(t *testing.T) {
	var rates cancelAllRates
	one, two := &exchange.Account{ID: "1"}, &exchange.Account{ID: "2"}
	now := int64(5 * exchange.Second)
	for n := range cancelAllsMax {
		require.True(t, rates.allow(one, now+int64(n)))
	}
	require.False(t, rates.allow(one, now+exchange.Second-1), "the eleventh within a second of the first")
	require.True(t, rates.allow(one, now+exchange.Second), "rejected ones do not count")
	require.False(t, rates.allow(one, now+exchange.Second))
	require.True(t, rates.allow(one, now+exchange.Second+1), "the second one is now more than a second old")
	require.False(t, rates.allow(one, now+exchange.Second+1))
	require.True(t, rates.allow(two, now+2*exchange.Second-1))
	require.Len(t, rates.newer, 2)
	require.True(t, rates.allow(two, now+2*exchange.Second))
	require.True(t, rates.allow(two, now+3*exchange.Second))
	require.Equal(t, [2]int{1, 1}, [2]int{len(rates.newer), len(rates.older)}, "old ones are forgotten")

	m := open(t, Options{})
	for range cancelAllsMax {
		require.Equal(t, exchange.OK, m.do(cancelAllOf("1", "")).Reason)
	}
	require.Equal(t, exchange.TooManyCancelAlls, m.do(cancelAllOf("1", "")).Reason)
	require.Equal(t, exchange.OK, m.do(cancelAllOf("2", "")).Reason)
}

// TestNoAccountUsesUpTheCancelAllsOfOthers: each account has its own limit of ten per second, no matter how many
// accounts cancel all.
func TestNoAccountUsesUpTheCancelAllsOfOthers(t *testing.T) {
	m := open(t, Options{})
	const others = 5000
	for n := range others {
		id := exchange.AccountID(fmt.Sprint("o", n))
		require.Equal(t, exchange.OK, m.do(exchange.Command{Kind: exchange.OpenAccount, Account: id}).Reason)
		require.Equal(t, exchange.OK, m.do(cancelAllOf(id, "")).Reason, n)
	}
	require.Equal(t, exchange.OK, m.do(cancelAllOf("1", "")).Reason)
}

// TestSwitchesLeaveTheReserveToCancels: on a full disk switches still work, but an account that arms its switch
// again and again cannot use up the room that others need for cancels.
func TestSwitchesLeaveTheReserveToCancels(t *testing.T) {
	m := cramped(t, 64<<10)
	m.fillDisk()
	opened, why := m.untilRefused(buy("A", 1, 1))
	require.Equal(t, exchange.NoRoom, why)
	for n := range cancelAllsMax {
		require.Equal(t, exchange.OK, m.do(cancelAfter("1", 60+n)).Reason)
	}
	before := m.journal.Appended()
	for n := range 1000 {
		require.Equal(t, exchange.NoRoom, m.do(cancelAfter("1", 90+n%2*60)).Reason)
	}
	require.Equal(t, before, m.journal.Appended())
	require.Equal(t, exchange.OK, m.do(cancelAfter("2", 60)).Reason, "it is another account")
	require.Equal(t, exchange.OK, m.do(cancelOf(exchange.OrderID(opened), "1")).Reason)
	m.freeDisk()
	require.Equal(t, exchange.OK, m.do(cancelAfter("1", 90)).Reason)
	m.agrees()
}

// TestABlockedAccountPlacesNothing: its open orders are canceled, even an order placed at the same moment. Everything
// else works as before.
func TestABlockedAccountPlacesNothing(t *testing.T) {
	m := inParts(t, Options{})
	m.all(buy("A", 3, 5), sell("A", 1, 9))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m.do(buy("B", 1, 1)).Reason == exchange.OK {
		}
	}()
	first := m.journal.Appended() + 1
	r, err := m.Block(background, "1", "lost")
	require.NoError(t, err)
	<-done
	require.True(t, r.Changed)
	require.Equal(t, exchange.Halt{Since: 77, Reason: "lost"}, r.Block)
	require.Equal(t, exchange.OK, r.Canceled.Reason)
	require.Zero(t, m.ledger.Account("1").OpenOrders())
	canceled, _ := m.canceledBy(exchange.ByBlock, first)
	require.Contains(t, canceled, exchange.OrderID(1))
	require.Equal(t, exchange.Result{Reason: exchange.Blocked, Details: &exchange.RejectDetails{Reason: "lost"}},
		m.do(buy("A", 1, 1)))
	require.Equal(t, exchange.OK, m.do(queryOf(1)).Reason)
	require.Equal(t, exchange.OK, m.do(sell("A", 1, 9)).Reason, "it is another account")
	again, err := m.Block(background, "1", "other")
	require.NoError(t, err)
	require.False(t, again.Changed)
	require.Equal(t, "lost", again.Block.Reason)
	_, err = m.Block(background, "9", "")
	require.NoError(t, err)

	restarted := m.after(m.journal.Appended(), false)
	require.Equal(t, exchange.Blocked, restarted.do(buy("A", 1, 1)).Reason)
	ended, err := m.Unblock(background, "1")
	require.NoError(t, err)
	require.Equal(t, exchange.BlockResult{Changed: true, Block: exchange.Halt{Since: 77, Reason: "lost"}}, ended)
	ended, err = m.Unblock(background, "1")
	require.NoError(t, err)
	require.Equal(t, exchange.BlockResult{}, ended)
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	m.agrees()
}

// TestABlockIsCompletedWithoutItsCaller: once the block's record is appended, the open orders are canceled even if the
// caller gives up.
func TestABlockIsCompletedWithoutItsCaller(t *testing.T) {
	for name, block := range map[string]func(m *market, recording *func()) error{
		"the caller leaves while a symbol is busy": func(m *market, _ *func()) error {
			defer m.held("A")()
			ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
			defer cancel()
			_, err := m.Block(ctx, "1", "lost")
			return err
		},
		"the caller leaves while the record is made": func(m *market, recording *func()) error {
			defer m.held("A")()
			ctx, cancel := context.WithCancel(background)
			*recording = cancel
			_, err := m.Block(ctx, "1", "lost")
			return err
		},
		"too many operators wait for a symbol": func(m *market, _ *func()) error {
			defer m.held("A")()
			for range requestsMax {
				require.NoError(m.t, m.shard("A").inbox.offer(&task{request: ping{}, done: make(chan struct{}, 1)}))
			}
			_, err := m.Block(background, "1", "lost")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			recording := func() {}
			m := open(t, Options{Readers: func() error { recording(); return nil }})
			require.Equal(t, exchange.OK, m.do(buy("A", 3, 5)).Reason)
			require.Error(t, block(m, &recording))
			require.Equal(t, exchange.Blocked, m.do(buy("A", 1, 1)).Reason)
			require.Eventually(t, func() bool { return m.Stats().OpenOrders == 0 }, 10*time.Second, time.Millisecond)
			m.agrees()
		})
	}
}

// TestAStartCancelsWhatABlockHasLeft: the process ended between the record of the block and that of the cancel.
func TestAStartCancelsWhatABlockHasLeft(t *testing.T) {
	m := inParts(t, Options{})
	m.all(buy("A", 3, 5))
	_, err := m.Block(background, "1", "")
	require.NoError(t, err)
	again := m.after(m.journal.Appended()-1, false)
	require.Equal(t, int64(1), again.Stats().OpenOrders)
	first := again.journal.Appended() + 1
	require.NoError(t, again.Catchup(background))
	require.Zero(t, again.Stats().OpenOrders)
	_, records := again.canceledBy(exchange.ByBlock, first)
	require.Equal(t, 1, records)
	again.agrees()
}

// TestWhatNotEveryNodeReadsIsRefused also checks that Readers is not called for records that every node can read.
func TestWhatNotEveryNodeReadsIsRefused(t *testing.T) {
	old, asked := errors.New("node 3"), 0
	m := open(t, Options{Readers: func() error { asked++; return old }})
	m.all(buy("A", 1, 1), sell("A", 1, 9), cancelOf(1, "1"), queryOf(1))
	_, err := m.CancelAll(background, "2", "")
	require.NoError(t, err)
	require.Zero(t, asked)
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	appended := m.journal.Appended()
	ioc, onEnd, amend := buy("A", 1, 1), buy("A", 1, 1), amend(3, "1", exchange.Buy, 0, 2)
	ioc.TIF, onEnd.OnDisconnect = exchange.IOC, true
	made := exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C",
		More: &exchange.CommandMore{Rules: exchange.SymbolRules{Tick: 2}}}
	for _, c := range []exchange.Command{ioc, onEnd, amend, made, cancelAllOf("1", ""), cancelAfter("1", 1)} {
		require.Equal(t, exchange.Result{Reason: exchange.NotReadYet, Details: &exchange.RejectDetails{Reason: "node 3"}},
			m.do(c), c.Kind)
	}
	block, err := m.Block(background, "1", "")
	require.NoError(t, err)
	require.Equal(t, exchange.BlockResult{Reason: exchange.NotReadYet, Text: "node 3"}, block)
	rules, err := m.SetSymbolRules(background, "A", func(r *exchange.SymbolRules) { r.Lot = 5 })
	require.NoError(t, err)
	require.Equal(t, exchange.SymbolRulesResult{Reason: exchange.NotReadYet, Text: "node 3"}, rules)
	require.Equal(t, appended, m.journal.Appended())
	old = nil
	require.Equal(t, exchange.OK, m.do(ioc).Reason)
	require.Equal(t, exchange.OK, m.do(made).Reason)
}

// TestWhatTheViewAnswersWaitsForWhatIsAppended: Result.AsOf is the seq of the last record appended.
func TestWhatTheViewAnswersWaitsForWhatIsAppended(t *testing.T) {
	m := open(t, Options{})
	got := m.all(buy("A", 1, 1), exchange.Command{Kind: exchange.ShowAccount, Account: "1"}, buy("A", 1, 1),
		exchange.Command{Kind: exchange.ListOrders, Account: "1", Symbol: "A"},
		exchange.Command{Kind: exchange.ListFills, Account: "9"},
		exchange.Command{Kind: exchange.ListOrders, Account: "1", Symbol: "C"})
	appended := m.journal.Appended()
	inView := func(asOf uint64) exchange.Result {
		return exchange.Result{Reason: exchange.ViewUnavailable, Pending: exchange.InView, AsOf: asOf}
	}
	require.Equal(t, []exchange.Result{{Order: 1}, inView(appended - 1), {Order: 2}, inView(appended),
		{Reason: exchange.UnknownAccount}, {Reason: exchange.UnknownSymbol}}, got)
}
