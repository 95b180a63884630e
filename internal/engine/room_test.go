package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// cramped returns a market whose journal has segments of segmentBytes, with the next one
// ready.
func cramped(t *testing.T, segmentBytes int64) *market {
	t.Helper()
	m := openWith(t, Options{}, journal.Options{Version: exchange.EventVersion, SegmentBytes: segmentBytes})
	require.Eventually(t, func() bool { return m.journal.RoomBytes() > segmentBytes }, time.Minute, time.Millisecond)
	return m
}

// fillDisk prevents further segments, as a full disk does, by creating files with
// their names. A segment that is ready stays usable.
func (m *market) fillDisk() {
	for n := range 200 {
		err := os.Symlink("nowhere", filepath.Join(m.dir, "next-"+strconv.Itoa(n)+".tmp"))
		if err != nil {
			require.ErrorIs(m.t, err, os.ErrExist)
		}
	}
}

// freeDisk undoes fillDisk and waits until the journal has noticed.
func (m *market) freeDisk() {
	all, err := filepath.Glob(filepath.Join(m.dir, "next-*.tmp"))
	require.NoError(m.t, err)
	for _, name := range all {
		if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
			require.NoError(m.t, os.Remove(name))
		}
	}
	require.Eventually(m.t, func() bool { return m.journal.Room() == nil }, time.Minute, 5*time.Millisecond)
}

// untilRefused sends c repeatedly until it is rejected. It returns how often
// it was executed, and the reason of the rejection.
func (m *market) untilRefused(c exchange.Command) (done int, why exchange.RejectReason) {
	for ; done < 10_000; done++ {
		if why = m.do(c).Reason; why != exchange.OK {
			break
		}
	}
	return done, why
}

// agrees requires that a replay of the journal leads to the engine's state.
func (m *market) agrees() {
	m.t.Helper()
	require.NoError(m.t, m.CheckLedger())
	require.NoError(m.t, m.Durable(background, Mark{Seq: m.journal.Appended()}))
	state := exchange.NewState()
	state.Index.FillsMax = m.index.FillsMax
	var e exchange.Event
	require.NoError(m.t, journal.Scan(m.dir, exchange.EventVersion, func(_ uint64, record []byte) error {
		require.NoError(m.t, exchange.DecodeEvent(record, &e))
		return state.Apply(&e)
	}))
	require.NoError(m.t, state.Audit())
	for _, id := range []exchange.AccountID{"1", "2"} {
		if state.Ledger.Account(id) == nil { // the prefix ends before the account was opened
			require.Nil(m.t, m.ledger.Account(id))
			continue
		}
		free, held := state.Ledger.Account(id).Balance()
		freeNow, heldNow := m.ledger.Account(id).Balance()
		require.Equal(m.t, [2]exchange.Cash{free, held}, [2]exchange.Cash{freeNow, heldNow}, "account %s", id)
	}
	require.Equal(m.t, exchange.OrderID(m.lastOrder.Load()), state.OrderID)
}

// TestOnAFullDiskOrdersEndFirstCancelsLastAndQueriesNever fills the disk
// and frees it again.
func TestOnAFullDiskOrdersEndFirstCancelsLastAndQueriesNever(t *testing.T) {
	m := cramped(t, 16<<10)
	m.fillDisk()
	orders, why := m.untilRefused(buy("A", 1, 1))
	require.Equal(t, exchange.NoRoom, why)
	require.ErrorIs(t, m.Refusing(), journal.ErrNoRoom)
	require.Greater(t, orders, 200)
	for _, c := range []exchange.Command{sell("B", 1, 1), {Kind: exchange.OpenAccount, Account: "3"},
		{Kind: exchange.MakeSymbol, Symbol: "C"},
		{Kind: exchange.DepositShares, Symbol: "A", Account: "2", Deposited: exchange.Position{Lo: 1}}} {
		require.Equal(t, exchange.NoRoom, m.do(c).Reason, c.Kind)
	}
	require.NoError(t, m.CheckLedger())

	canceled := exchange.OrderID(0)
	for reason := exchange.OK; reason == exchange.OK; canceled++ {
		if reason = m.do(cancelOf(canceled+1, "1")).Reason; reason != exchange.OK {
			require.Equal(t, exchange.NoRoomToCancel, reason)
			break
		}
	}
	require.Greater(t, canceled, exchange.OrderID(30), "the reserve is used")
	require.Less(t, canceled, exchange.OrderID(orders), "the reserve is bounded")
	require.NoError(t, m.journal.Err())
	next := canceled + 1
	require.Equal(t, exchange.AlreadyCanceled, m.do(cancelOf(1, "1")).Reason,
		"rejections that do not depend on room stay the same")
	require.Equal(t, exchange.ForeignOrder, m.do(cancelOf(next, "2")).Reason)
	require.Equal(t, exchange.Status{Open: 1}, m.do(queryOf(next)).Status, "the rejected cancel has changed nothing")
	require.Equal(t, exchange.Shares(1), m.do(queryOf(1)).Status.Canceled)
	m.agrees()

	m.freeDisk()
	require.NoError(t, m.Refusing())
	require.Equal(t, exchange.OK, m.do(cancelOf(next, "1")).Reason)
	require.Equal(t, exchange.Result{Order: exchange.OrderID(orders + 1)}, m.do(buy("A", 1, 1)),
		"rejected orders have used no id")
	for range 3 * orders {
		require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	}
	m.agrees()
}

// TestAnOrderThatSweepsMoreThanARecordHoldsIsRefusedWhole: one record must have room for everything that a part of an
// order does.
func TestAnOrderThatSweepsMoreThanARecordHoldsIsRefusedWhole(t *testing.T) {
	m := cramped(t, 16<<10)
	m.index.FillsMax = exchange.FillsMax // larger parts than fit into such segments
	const resting = 400
	for n := range resting {
		require.Equal(t, exchange.OK, m.do(sell("A", 2, exchange.Price(5+n%7))).Reason)
	}
	before := m.Stats()
	require.Equal(t, exchange.Result{Reason: exchange.TooManyFills}, m.do(buy("A", 2*resting, 20)))
	require.Equal(t, before, m.Stats(), "nothing has changed")
	m.agrees()
	got := m.all(buy("A", 300, 20), buy("A", 299, 20), queryOf(resting+1))
	require.Equal(t, []exchange.Result{{Order: resting + 1}, {Order: resting + 2}}, got[:2], "smaller parts are accepted")
	require.Len(t, got[2].Status.Executions, 150)
	m.agrees()
}

// TestAHoldThatFindsNoRoomIsNotSeen: an account can afford only one of two
// orders. If the journal has no room for the first, the second must not be rejected because of its hold.
func TestAHoldThatFindsNoRoomIsNotSeen(t *testing.T) {
	m := cramped(t, 16<<10)
	m.index.FillsMax = exchange.FillsMax // larger parts than fit into such segments
	for range 300 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 1)).Reason)
	}
	const all = 1000 * 1000
	var refused sync.WaitGroup
	refused.Go(func() {
		results := make([]exchange.Result, 1)
		for range 200 {
			if _, err := m.Execute(background, []exchange.Command{buy("A", all, 1)}, results); err != nil ||
				results[0].Reason != exchange.TooManyFills && results[0].Reason != exchange.InsufficientFunds {
				t.Error(results[0].Reason, err)
			}
		}
	})
	for range 200 {
		r := m.do(buy("B", all, 1))
		require.Equal(t, exchange.OK, r.Reason, "it was rejected because of the hold of an order that is never accepted")
		require.Equal(t, exchange.OK, m.do(cancelOf(r.Order, "1")).Reason)
	}
	refused.Wait()
	m.agrees()
}

// TestAHoldThatIsWithdrawnLetsOthersContinue: a rejection that depends on an unsettled hold
// waits until that is settled or withdrawn.
func TestAHoldThatIsWithdrawnLetsOthersContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cramped(t, 1<<16)
		const all = 1000 * 1000
		d, _ := m.shards.Load(exchange.Symbol("A"))
		m.mu.Lock()
		o := exchange.NewOrder(0, m.ledger.Account("1"), exchange.Buy, all, 1)
		require.Equal(t, exchange.OK, m.ledger.Reserve(d.(*shard).instrument, o))
		m.mu.Unlock()
		other := make(chan exchange.Result, 1)
		go func() { other <- m.do(buy("B", all, 1)) }()
		synctest.Wait()
		require.Empty(t, other)
		d.(*shard).withdraw(o)
		require.Equal(t, exchange.Result{Order: 1}, <-other)
	})
}

// TestAHoldThatIsNeverSettledEndsWithTheJournal: if the record of an order cannot be
// appended, commands that wait for its hold end with an error.
func TestAHoldThatIsNeverSettledEndsWithTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cramped(t, 1<<16)
		const all = 1000 * 1000
		d, _ := m.shards.Load(exchange.Symbol("A"))
		m.mu.Lock()
		require.Equal(t, exchange.OK, m.ledger.Reserve(d.(*shard).instrument,
			exchange.NewOrder(0, m.ledger.Account("1"), exchange.Buy, all/2, 1)))
		m.mu.Unlock()
		other := make(chan error, 1)
		go func() {
			_, err := m.Execute(background, []exchange.Command{buy("B", all, 1)}, make([]exchange.Result, 1))
			other <- err
		}()
		synctest.Wait()
		require.Empty(t, other)
		require.NoError(t, m.journal.Close())
		_, err := m.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
		require.ErrorIs(t, err, journal.ErrClosed)
		require.ErrorIs(t, <-other, journal.ErrClosed)
	})
}

// TestManySymbolsMeetTheFullDiskAtOnce trades in many symbols while the disk repeatedly fills
// up, is full, and is freed. Every command must be executed or rejected, every
// executed command must be in the journal, and the engine must not fail.
func TestManySymbolsMeetTheFullDiskAtOnce(t *testing.T) {
	const seed, symbols, rounds = 3, 16, 3
	t.Logf("seed %d", seed)
	m := cramped(t, 16<<10)
	for n := range symbols {
		m.all(exchange.Command{Kind: exchange.MakeSymbol, Symbol: exchange.Symbol(fmt.Sprint("S", n))},
			exchange.Command{Kind: exchange.DepositShares, Symbol: exchange.Symbol(fmt.Sprint("S", n)), Account: "2",
				Deposited: exchange.Shares(1e9).Position()})
	}
	for round := range rounds {
		m.fillDisk()
		var clients sync.WaitGroup
		for n := range symbols {
			clients.Go(func() {
				sym := exchange.Symbol(fmt.Sprint("S", n))
				m.tradeUntilFull(sym, rand.New(rand.NewPCG(seed, uint64(round*symbols+n))))
			})
		}
		clients.Wait()
		require.NoError(t, m.journal.Err())
		m.agrees()
		m.freeDisk()
	}
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	m.agrees()
}

// tradeUntilFull places small sells and sweeping buys until orders are rejected, and then cancels the open orders, or
// as many of them as fit.
func (m *market) tradeUntilFull(sym exchange.Symbol, r *rand.Rand) {
	results := make([]exchange.Result, 1)
	send := func(c exchange.Command) exchange.Result {
		if _, err := m.Execute(background, []exchange.Command{c}, results); err != nil {
			m.t.Error(err)
		}
		return results[0]
	}
	var mine []exchange.OrderID
	for range 20_000 {
		c := sell(sym, exchange.Shares(1+r.IntN(3)), exchange.Price(1+r.IntN(5)))
		if r.IntN(20) == 0 {
			c = buy(sym, 50, 5)
		}
		got := send(c)
		switch got.Reason {
		case exchange.OK:
			mine = append(mine, got.Order)
			continue
		case exchange.NoRoom:
		default:
			m.t.Errorf("%s: %s", sym, got.Reason)
		}
		for _, id := range mine {
			switch reason := send(cancelOf(id, "2")).Reason; reason {
			case exchange.OK, exchange.AlreadyCanceled, exchange.AlreadyExecuted, exchange.ForeignOrder:
			case exchange.NoRoomToCancel:
				return
			default:
				m.t.Errorf("%s: cancel: %s", sym, reason)
			}
		}
		return
	}
	m.t.Error("the disk was never full")
}
