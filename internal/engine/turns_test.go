package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// shard returns a symbol's shard.
func (m *market) shard(sym exchange.Symbol) *shard {
	d, ok := m.shards.Load(sym)
	require.True(m.t, ok)
	return d.(*shard)
}

// inParts makes the shard of a symbol call serveReads repeatedly, as if it were between two parts of an order,
// until the returned function is called. That function returns the error of the last serveReads.
func (m *market) inParts(sym exchange.Symbol) (end func() error) {
	d := m.shard(sym)
	var over atomic.Bool
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var last error
		err := m.call(background, &d.inbox, func() error {
			close(begun)
			for last = d.serveReads(); last == nil && !over.Load(); last = d.serveReads() {
				time.Sleep(10 * time.Microsecond)
			}
			return nil
		})
		if last == nil {
			last = err
		}
		ended <- last
	}()
	<-begun
	return func() error {
		over.Store(true)
		return <-ended
	}
}

// held blocks the shard of a symbol until the returned function is called.
func (m *market) held(sym exchange.Symbol) (end func()) {
	begun, over, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- m.call(background, &m.shard(sym).inbox, func() error {
			close(begun)
			<-over
			return nil
		})
	}()
	<-begun
	return func() {
		close(over)
		require.NoError(m.t, <-ended)
	}
}

// later executes commands in a new goroutine and sends their results to the returned channel.
func (m *market) later(commands ...exchange.Command) <-chan []exchange.Result {
	done := make(chan []exchange.Result, 1)
	go func() {
		results := make([]exchange.Result, len(commands))
		if _, err := m.Execute(background, commands, results); err != nil {
			m.t.Error(err)
		}
		done <- results
	}()
	return done
}

// isAlive calls Alive with a timeout that is reached only if a shard hangs.
func (m *market) isAlive() error {
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	return m.Alive(ctx)
}

// TestBetweenTwoPartsOfAnOrderOthersRead reads a symbol while it executes a long order.
func TestBetweenTwoPartsOfAnOrderOthersRead(t *testing.T) {
	m := open(t, Options{InboxLen: 2})
	m.all(sell("A", 10, 5), sell("B", 10, 5), buy("B", 1, 1))
	first := m.journal.Appended() + 1
	end := m.inParts("A")
	require.Equal(t, exchange.Shares(10), m.do(queryOf(1)).Status.Open)
	o, found, err := m.Show(background, 1, 0, 1)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, exchange.Shares(10), o.Status.Open)
	require.NoError(t, m.isAlive())

	var orders []<-chan []exchange.Result
	for n := range 5 { // more tasks than fit into the inbox
		orders = append(orders, m.later(queryOf(1), queryOf(2), queryOf(1), sell("A", 1, exchange.Price(6+n)), queryOf(1)))
	}
	all := m.later(sell("A", 1, 20))
	require.Eventually(t, func() bool { return m.Stats().Inbox == 6 && len(m.shard("A").inbox.tasks) == 0 },
		time.Minute, time.Millisecond, "each has executed its reads")
	halted, cancel := context.WithCancel(background)
	refused := make(chan error, 1)
	go func() { _, err := m.Halt(halted, "A", ""); refused <- err }()
	canceled := make(chan exchange.CancelAllResult, 1)
	go func() { canceled <- m.cancelAll("2", "") }()

	// Other symbols continue, even if a cancel-all waits to cancel the account's open orders there.
	require.Equal(t, exchange.OK, m.all(exchange.Command{Kind: exchange.OpenAccount, Account: "3",
		Balance: exchange.Notional(10, 10)}, exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C"})[1].Reason)
	for range 100 {
		require.Equal(t, exchange.OK, m.do(buy("B", 1, 1)).Reason)
	}
	require.Equal(t, []exchange.CanceledIn{{Symbol: "B", Orders: 101, Shares: exchange.Shares(101).Position()}},
		m.cancelAll("1", "").Symbols)
	require.NoError(t, m.isAlive())
	cancel()
	require.ErrorIs(t, <-refused, context.Canceled)
	require.Equal(t, exchange.Shares(10), m.do(queryOf(1)).Status.Open)
	require.Empty(t, canceled)
	require.Empty(t, all)
	for _, e := range m.events(first) {
		require.NotEqual(t, exchange.Symbol("A"), e.Symbol)
	}

	require.NoError(t, end())
	for _, done := range orders {
		r := <-done
		require.Equal(t, exchange.Shares(10), r[0].Status.Open)
		require.Equal(t, exchange.OK, r[3].Reason)
	}
	<-all
	<-canceled
	for _, in := range m.cancelAll("2", "").Symbols {
		require.Equal(t, exchange.Symbol("A"), in.Symbol, "the order placed after the cancel of all")
	}
	require.Zero(t, m.Stats().OpenOrders)
	require.Empty(t, m.Halts(), "its caller gave up before")
	m.agrees()
}

// TestWhatWaitsForALongOrderIsBounded sets keptMax tasks aside at a shard: further tasks then stay in the inbox.
func TestWhatWaitsForALongOrderIsBounded(t *testing.T) {
	m := open(t, Options{})
	d := m.shard("A")
	require.NoError(t, m.call(background, &d.inbox, func() error {
		d.inbox.kept = make([]*task, keptMax)
		defer func() { d.inbox.kept = nil }()
		done := m.later(buy("A", 1, 1))
		for len(d.inbox.tasks) == 0 {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, d.serveReads())
		require.Len(t, d.inbox.tasks, 1)
		require.Empty(t, done)
		return nil
	}))
	require.Eventually(t, func() bool { return m.Stats().OpenOrders == 1 }, time.Minute, time.Millisecond)
}

// TestACancelAllVisitsOnlySymbolsInWhichItsAccountHasOrders counts the shards that are held.
func TestACancelAllVisitsOnlySymbolsInWhichItsAccountHasOrders(t *testing.T) {
	m := open(t, Options{})
	for n := range 500 {
		sym := exchange.Symbol(fmt.Sprint("S", n))
		m.all(exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym}, buy(sym, 1, 1))
	}
	m.all(sell("A", 1, 1), sell("B", 1, 1), buy("B", 1, 1))
	c, err := m.Engine.cancelAll(background, canceling{account: "2", symbol: ""})
	require.NoError(t, err)
	require.Len(t, c.held, 1)
	require.Equal(t, []exchange.CanceledIn{{Symbol: "A", Orders: 1, Shares: exchange.Shares(1).Position()}},
		c.result.Symbols)
	c, err = m.Engine.cancelAll(background, canceling{account: "2", symbol: ""})
	require.NoError(t, err)
	require.Empty(t, c.held)
	c, err = m.Engine.cancelAll(background, canceling{account: "1", symbol: ""})
	require.NoError(t, err)
	require.Len(t, c.held, 500)
	m.agrees()
}

// TestACancelAllHoldsNoShardWhileItSurveysALargeBook counts the orders that are visited
// while shards are held. In the large book, all orders of others come before the account's own.
func TestACancelAllHoldsNoShardWhileItSurveysALargeBook(t *testing.T) {
	m := open(t, Options{})
	const resting = 5 * surveyMax
	for range resting {
		m.do(sell("A", 1, 9))
	}
	visited := func() int {
		c, err := m.Engine.cancelAll(background, canceling{account: "1", symbol: ""})
		require.NoError(t, err)
		require.Len(t, c.event.Cancels, 3)
		require.Contains(t, c.surveys, m.shard("A"), "its book was surveyed before it was held")
		n := 0
		for _, h := range c.held {
			n += h.visited
		}
		return n
	}
	m.all(buy("A", 1, 1), buy("B", 1, 1), buy("A", 1, 2))
	require.LessOrEqual(t, visited(), surveyMax+4)
	m.agrees()
	require.EqualValues(t, resting, m.Stats().OpenOrders)
}

// TestACancelAllHoldsNoShardForTheIdsOfOtherSymbols makes other symbols use up ids during a survey, and counts the ids
// that are checked while shards are held.
func TestACancelAllHoldsNoShardForTheIdsOfOtherSymbols(t *testing.T) {
	m := open(t, Options{})
	for range 2 * surveyMax {
		m.do(sell("A", 1, 9))
	}
	m.do(buy("A", 1, 1))
	d, end := m.shard("A"), m.held("A")
	c := &cancelAll{canceling: canceling{surveys: map[*shard]*survey{}}, engine: m.Engine, owner: m.ledger.Account("1")}
	surveyed, grown := make(chan error), make(chan error)
	go func() { surveyed <- c.survey(background, d) }()
	require.Eventually(t, func() bool { return d.inbox.hasRequests.Load() }, time.Minute, time.Millisecond)
	waits := func(n int) func() bool {
		return func() bool {
			d.inbox.mu.Lock()
			defer d.inbox.mu.Unlock()
			return len(d.inbox.requests) == n
		}
	}
	go func() { // runs after the first piece of the survey and before the second
		grown <- m.call(background, &d.inbox, func() error { m.lastOrder.Add(10 * surveyMax); return nil })
	}()
	require.Eventually(t, waits(2), time.Minute, time.Millisecond)
	end()
	require.NoError(t, <-grown)
	require.NoError(t, <-surveyed)
	m.do(buy("A", 1, 2))
	first, err := c.run(background, false)
	require.NoError(t, err)
	require.Nil(t, first)
	require.Len(t, c.event.Cancels, 2)
	require.LessOrEqual(t, c.held[0].visited, surveyMax+2)
}

// TestACancelAllFindsWhatChangesDuringASurvey adds, closes and fills orders of the account
// between the survey and the record, and lets other orders take the places of forgotten ones in the book.
func TestACancelAllFindsWhatChangesDuringASurvey(t *testing.T) {
	var db database
	m := open(t, Options{Projection: &db, ClosedOrdersMax: 1})
	db.applied.Store(1 << 62) // so that closed orders leave memory at once
	const others = 4 * surveyMax
	for n := range others {
		if m.do(sell("A", 1, 9)); n%100 == 0 {
			m.do(buy("A", 1, 1))
		}
	}
	c := &cancelAll{canceling: canceling{surveys: map[*shard]*survey{}}, engine: m.Engine, owner: m.ledger.Account("1")}
	first, err := c.run(background, false)
	require.NoError(t, err)
	require.True(t, first.large)
	require.NoError(t, c.survey(background, first.shard))
	m.all(cancelOf(2, "1"), sell("A", 2, 1), buy("A", 1, 2), sell("A", 1, 9), buy("A", 1, 3), buy("B", 1, 1))
	for id := exchange.OrderID(3); id < 200; id++ {
		m.do(cancelOf(id, "2"))
	}
	m.all(buy("A", 1, 4), buy("A", 1, 5))
	open := m.Stats().OpenOrders
	first, err = c.run(background, false)
	require.NoError(t, err)
	require.Nil(t, first)
	require.Len(t, c.event.Cancels, (others+99)/100-3+5, "one was canceled, two were filled, and five were added")
	require.EqualValues(t, len(c.event.Cancels), open-m.Stats().OpenOrders)
	m.mu.Lock()
	require.Zero(t, c.owner.OpenOrders())
	m.mu.Unlock()
	m.agrees()
}

// TestWhatWaitsForItsNextTurnIsCounted: Stats.Inbox counts tasks that are set aside, too.
func TestWhatWaitsForItsNextTurnIsCounted(t *testing.T) {
	m := open(t, Options{})
	m.do(sell("A", 1, 9))
	end := m.inParts("A")
	for n := range 3 {
		m.later(sell("A", 1, 9))
		require.Eventually(t, func() bool { return m.Stats().Inbox == int64(n+1) && len(m.shard("A").inbox.tasks) == 0 },
			time.Minute, time.Millisecond)
	}
	require.NoError(t, end())
	require.Eventually(t, func() bool { return m.Stats().Inbox == 0 }, time.Minute, time.Millisecond)
}

// TestACancelAllIncludesSymbolsAddedDuringIt places an order of the account in a symbol that is not held yet, while
// the cancel waits for another symbol.
func TestACancelAllIncludesSymbolsAddedDuringIt(t *testing.T) {
	m := open(t, Options{})
	m.do(sell("A", 1, 5))
	release := m.held("A")
	done := make(chan *cancelAll, 1)
	go func() {
		c, err := m.Engine.cancelAll(background, canceling{account: "2", symbol: ""})
		require.NoError(t, err)
		done <- c
	}()
	require.Eventually(t, func() bool { return m.shard("A").inbox.hasRequests.Load() }, time.Minute, time.Millisecond)
	require.Equal(t, exchange.OK, m.do(sell("B", 1, 5)).Reason, "placed before all shards are held")
	release()
	c := <-done
	require.Len(t, c.held, 2)
	require.Len(t, c.event.Cancels, 2)
	require.Zero(t, m.Stats().OpenOrders)
	m.agrees()
}

// TestTheLastTryOfACancelAllWaitsForALongOrder runs a cancel that is patient from its first try.
func TestTheLastTryOfACancelAllWaitsForALongOrder(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 1, 5), sell("B", 1, 5))
	end := m.inParts("A")
	done := make(chan int, 1)
	c := &cancelAll{engine: m.Engine, owner: m.ledger.Account("2")}
	busy, err := c.run(background, false)
	require.NoError(t, err)
	require.Same(t, m.shard("A"), busy.shard)
	require.EqualValues(t, 2, m.Stats().OpenOrders)
	go func() {
		c := &cancelAll{engine: m.Engine, owner: m.ledger.Account("2")}
		_, _ = c.run(background, true)
		done <- len(c.event.Cancels)
	}()
	require.Equal(t, exchange.Shares(1), m.do(queryOf(1)).Status.Open)
	require.Empty(t, done)
	require.NoError(t, end())
	require.Equal(t, 2, <-done)
	m.agrees()
}

// TestALongFrameIsDoneInTurnsWithOthers makes a frame of 3,000 orders and a single order wait for the same symbol, and
// counts the orders of the frame that are executed before the single one.
func TestALongFrameIsDoneInTurnsWithOthers(t *testing.T) {
	m := open(t, Options{})
	release := m.held("A")
	frame := make([]exchange.Command, 3000)
	for n := range frame {
		frame[n] = sell("A", 1, 9)
	}
	inbox := func(n int) func() bool { return func() bool { return m.Stats().Inbox == int64(n) } }
	long := m.later(frame...)
	require.Eventually(t, inbox(1), time.Minute, time.Millisecond)
	single := m.later(buy("A", 1, 1))
	require.Eventually(t, inbox(2), time.Minute, time.Millisecond)
	release()
	require.EqualValues(t, turnWork+1, (<-single)[0].Order)
	last := exchange.OrderID(0)
	for _, r := range <-long {
		require.Equal(t, exchange.OK, r.Reason)
		require.Greater(t, r.Order, last, "executed in order")
		last = r.Order
	}
	m.agrees()
}

// TestAnInterruptEndsLongFramesAndOrders interrupts the engine while a long frame waits and an order is set aside.
func TestAnInterruptEndsLongFramesAndOrders(t *testing.T) {
	m := open(t, Options{})
	m.do(sell("A", 1, 9))
	end := m.inParts("A")
	frame := make([]exchange.Command, 3000)
	for n := range frame {
		frame[n] = buy("B", 1, 1)
	}
	release, ended := m.held("B"), make(chan error, 2)
	for _, commands := range [][]exchange.Command{frame, {sell("A", 1, 9)}} {
		go func() {
			_, err := m.Execute(background, commands, make([]exchange.Result, len(commands)))
			ended <- err
		}()
	}
	// One of the two tasks waits in the inbox of B. Shard A has set the other aside until the end of its order.
	require.Eventually(t, func() bool { return m.Stats().Inbox == 2 }, time.Minute, time.Millisecond)
	m.Interrupt()
	release()
	require.ErrorIs(t, end(), ErrStopped)
	require.ErrorIs(t, <-ended, ErrStopped)
	require.ErrorIs(t, <-ended, ErrStopped)
	require.EqualValues(t, 1, m.Stats().OpenOrders, "no command began")
	require.NoError(t, m.journal.Err())
	require.False(t, m.failed.Load(), "it has not failed")
}

// TestNoShardWaitsForAnother makes one order of account 1 wait for the settlement of another order, and one wait for a
// ref that another command has claimed. Other orders in the same symbol must be executed in that time.
func TestNoShardWaitsForAnother(t *testing.T) {
	m := open(t, Options{})
	const all = 1000 * 1000
	account := m.ledger.Account("1")
	held := exchange.NewOrder(0, account, exchange.Buy, all, 1)
	m.mu.Lock()
	require.Equal(t, exchange.OK, m.ledger.Reserve(m.shard("A").instrument, held))
	require.True(t, m.refs.table.Claim(account, "r"))
	m.mu.Unlock()
	poor := m.later(buy("B", all, 1))
	named := buy("B", 1, 1)
	named.Ref = "r"
	claimed := m.later(named)
	for range 100 {
		require.Equal(t, exchange.OK, m.do(sell("B", 1, 9)).Reason)
	}
	require.Empty(t, poor)
	require.Empty(t, claimed)
	m.shard("A").withdraw(held)
	require.Equal(t, exchange.OK, (<-poor)[0].Reason)
	m.mu.Lock()
	m.refs.table.Withdraw(account, "r")
	m.mu.Unlock()
	require.Equal(t, exchange.InsufficientFunds, (<-claimed)[0].Reason)
}

// TestAliveWakesNoOwner calls Alive while all owners are idle, and while some are not.
func TestAliveWakesNoOwner(t *testing.T) {
	m := open(t, Options{})
	require.Eventually(t, func() bool { return len(m.awakeNow()) == 0 }, time.Minute, time.Millisecond)
	require.NoError(t, m.isAlive())
	require.Empty(t, m.awakeNow())
	m.do(buy("A", 1, 1))
	require.NoError(t, m.isAlive())
	for _, in := range m.awakeNow() { // empty if the steps above took seconds
		require.Same(t, &m.shard("A").inbox, in)
	}
}

// TestTooManyOwnersRestAtOnce uses more idle owners than may keep their goroutines.
func TestTooManyOwnersRestAtOnce(t *testing.T) {
	m := open(t, Options{})
	allIdle := func() bool { return len(m.awakeNow()) == 0 }
	require.Eventually(t, allIdle, time.Minute, time.Millisecond)
	m.awakeCount.Add(awakeMax)
	for range 200 {
		require.Equal(t, exchange.OK, m.all(buy("A", 1, 1), buy("B", 1, 1))[1].Reason)
		require.Eventually(t, allIdle, time.Minute, 10*time.Microsecond) // endIdleOwners would need 200 seconds
	}
	require.Eventually(t, allIdle, time.Minute, time.Millisecond)
	m.awakeCount.Add(-awakeMax)
	m.agrees()
}

// TestASignIsGivenInTheMiddleOfUrgentWork calls Alive while a shard executes a long request.
func TestASignIsGivenInTheMiddleOfUrgentWork(t *testing.T) {
	m := open(t, Options{})
	release := m.held("A")
	in, over := &m.shard("A").inbox, make(chan struct{})
	work := &task{done: make(chan struct{}, 1), request: &call{work: func() error {
		for {
			select {
			case <-over:
				return nil
			default:
				if err := m.shard("A").serveReads(); err != nil {
					return err
				}
			}
		}
	}}}
	require.NoError(t, in.offer(work))
	alive := make(chan error, 1)
	go func() { alive <- m.isAlive() }()
	require.Eventually(t, func() bool {
		in.mu.Lock()
		defer in.mu.Unlock()
		return len(in.requests) == 2
	}, time.Minute, time.Millisecond)
	release()
	require.NoError(t, <-alive)
	close(over)
	<-work.done
}

// TestOperatorsThatWaitForOneShardAreBounded blocks a shard and sends it more than requestsMax requests.
func TestOperatorsThatWaitForOneShardAreBounded(t *testing.T) {
	m := open(t, Options{})
	release := m.held("A")
	in := &m.shard("A").inbox
	for range requestsMax {
		require.NoError(t, in.offer(&task{request: ping{}, done: make(chan struct{}, 1)}))
	}
	_, err := m.Halt(background, "A", "")
	require.ErrorIs(t, err, errBusy)
	release()
	require.True(t, m.halt("A", "").Changed)
}

// TestAnOrderWithARefWaitsForACancelOfAll sends an order while the record of the cancel-all is being made.
func TestAnOrderWithARefWaitsForACancelOfAll(t *testing.T) {
	var served atomic.Int64
	m := open(t, Options{Now: func() int64 { return served.Add(1) }})
	gate := func(a *exchange.Account) {
		m.mu.Lock()
		m.canceling = a
		m.mu.Unlock()
	}
	gate(m.ledger.Account("1"))
	before := served.Load()
	waits := m.later(named("r", buy("A", 1, 1)))
	require.Eventually(t, func() bool { return served.Load() > before+3 || len(waits) > 0 }, time.Minute, time.Microsecond)
	require.Empty(t, waits)
	gate(nil)
	require.Equal(t, []exchange.Result{{Order: 1}}, <-waits)
	require.Equal(t, exchange.Shares(1), m.do(queryRef("1", "r")).Status.Open)
	m.agrees()
}

// TestNoTaskIsLostWhenItsOwnerIsToRest nudges an owner as endIdleOwners does while a long frame waits for its
// next turn.
func TestNoTaskIsLostWhenItsOwnerIsToRest(t *testing.T) {
	m := open(t, Options{})
	release := m.held("A")
	in := &m.shard("A").inbox
	frame := make([]exchange.Command, 3*turnWork)
	for n := range frame {
		frame[n] = buy("A", 1, 1)
	}
	done := m.later(frame...)
	require.Eventually(t, func() bool { return len(in.tasks) == 2 }, time.Minute, time.Millisecond) // one is a nudge
	m.awakeCount.Add(awakeMax)
	defer m.awakeCount.Add(-awakeMax)
	in.mu.Lock()
	in.nudge()
	in.mu.Unlock()
	release()
	for _, r := range <-done {
		require.Equal(t, exchange.OK, r.Reason)
	}
}

// TestPausesAreOfACommandAndNotOfItsFrame: each command of a frame briefly depends on another command, and the pauses
// start from the shortest again for each command.
func TestPausesAreOfACommandAndNotOfItsFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Options{})
		account := m.ledger.Account("1")
		frame := make([]exchange.Command, 200)
		m.mu.Lock()
		for n := range frame {
			frame[n] = named(exchange.Ref(fmt.Sprint(n)), buy("A", 1, 1))
			require.True(t, m.refs.table.Claim(account, frame[n].Ref))
		}
		m.mu.Unlock()
		done := m.later(frame...)
		for n := range frame {
			time.Sleep(2 * againMin)
			m.mu.Lock()
			m.refs.table.Withdraw(account, frame[n].Ref)
			m.mu.Unlock()
		}
		time.Sleep(8 * againMin)
		synctest.Wait()
		require.Len(t, done, 1)
	})
}

// TestATaskThatReadsBetweenPartsContinues: the task is passed on to the shard of its next command.
func TestATaskThatReadsBetweenPartsContinues(t *testing.T) {
	m := open(t, Options{})
	order := m.all(buy("A", 1, 1))[0].Order
	end := m.inParts("A")
	results := m.all(queryOf(order), buy("B", 1, 1))
	require.NoError(t, end())
	require.Equal(t, exchange.Shares(1), results[0].Status.Open)
	require.NotZero(t, results[1].Order)
	m.agrees()
}

// TestAfterAnInterruptOperatorsChangeNothing: requests of operators fail, as a book may have an unfinished order.
func TestAfterAnInterruptOperatorsChangeNothing(t *testing.T) {
	m := open(t, Options{})
	before := m.journal.Appended()
	m.Interrupt()
	_, err := m.Halt(background, "A", "")
	require.ErrorIs(t, err, ErrStopped)
	_, err = m.Resume(background, "A")
	require.ErrorIs(t, err, ErrStopped)
	require.Equal(t, before, m.journal.Appended())
	require.Nil(t, m.shard("A").book.Halted())
}

// TestAnAccountGetsNoOrderUntilTheRecordOfItsCancelAll tries an order in a symbol whose shard is not held: with
// that order the cancel-all would not happen at one moment.
func TestAnAccountGetsNoOrderUntilTheRecordOfItsCancelAll(t *testing.T) {
	var m *market
	var armed, unsettled, reserved atomic.Bool
	m = open(t, Options{Now: func() int64 {
		if armed.CompareAndSwap(true, false) { // all shards are held, and the record is not appended yet
			d, c := m.shard("B"), buy("B", 1, 1)
			_ = m.call(background, &d.inbox, func() error {
				reserved.Store(d.reserve(&c, new(exchange.Result)))
				unsettled.Store(d.unsettled)
				return nil
			})
		}
		return 77
	}})
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	armed.Store(true)
	result, err := m.CancelAll(background, "1", "")
	require.NoError(t, err)
	require.Len(t, result.Symbols, 1)
	require.False(t, reserved.Load())
	require.True(t, unsettled.Load(), "it is retried")
	require.NotZero(t, m.do(buy("B", 1, 1)).Order)
	m.agrees()
}
