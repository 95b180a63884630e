package engine

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// cod returns a request for an order that is canceled when its connection ends.
func cod(c exchange.Command, origin *Origin) Request {
	c.OnDisconnect = true
	return Request{Command: c, Origin: origin}
}

// canceledBy returns the orders that records from seq from on have canceled for a cause, and the number of these
// records.
func (m *market) canceledBy(cause exchange.CancelCause, from uint64) (orders []exchange.OrderID, records int) {
	m.t.Helper()
	for _, e := range m.events(from) {
		if e.Kind == exchange.OrdersCanceled && e.Cause == cause {
			records++
			for i := range e.Cancels {
				orders = append(orders, e.Cancels[i].Order)
			}
		}
	}
	return orders, records
}

// untilOpen waits until the number of open orders is as given.
func (m *market) untilOpen(orders int64) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return m.Stats().OpenOrders == orders }, time.Minute, time.Millisecond)
}

// TestOrdersEndWithTheirConnection: open orders with OnDisconnect are canceled, and no others. Orders that closed
// earlier do not change.
func TestOrdersEndWithTheirConnection(t *testing.T) {
	m := open(t, Options{})
	one, two := m.NewOrigin(), m.NewOrigin()
	first := m.journal.Appended() + 1
	for _, r := range []Request{
		cod(buy("A", 10, 5), one),               // order 1
		cod(buy("A", 10, 4), two),               // order 2
		{Command: buy("A", 10, 3), Origin: one}, // order 3, without OnDisconnect, stays open
		cod(buy("B", 10, 5), one),               // order 4
		cod(sell("A", 4, 5), one),               // order 5 executes whole, against order 1
		cod(sell("A", 5, 9), one),               // order 6, of another account
		cod(buy("A", 1, 2), one),                // order 7
		{Command: cancelOf(7, "1")},             // order 7 is canceled before the connection ends
		{Command: sell("B", 10, 5)},             // order 8 executes order 4 whole
		cod(buy("B", 10, 1), one),               // order 9
		{Command: exchange.Command{Kind: exchange.QueryOrder, Account: "1", Order: 1}},
	} {
		require.Equal(t, exchange.OK, m.ask(r).Reason)
	}
	b := (*m.numbered.Load())[1]
	require.NoError(t, m.call(background, &b.inbox, func() error {
		require.NotContains(t, b.connected.origins, exchange.OrderID(4), "it is executed")
		return nil
	}))
	m.EndOrigin(one)
	m.EndOrigin(one)
	m.EndOrigin(nil)
	m.untilOpen(2)
	got, records := m.canceledBy(exchange.ByDisconnect, first)
	require.ElementsMatch(t, []exchange.OrderID{1, 6, 9}, got)
	require.Equal(t, 3, records, "one for each symbol and account")
	require.Equal(t, exchange.Status{Canceled: 6, CanceledAt: 77,
		Executions: []exchange.Execution{{Shares: 4, Price: 5, Time: 77}}}, m.do(queryOf(1)).Status)
	require.Equal(t, exchange.Shares(10), m.do(queryOf(2)).Status.Open)
	require.Equal(t, exchange.Shares(10), m.do(queryOf(3)).Status.Open)
	require.Equal(t, int64(4), m.Stats().Cancels)
	for _, d := range *m.numbered.Load() {
		require.NoError(t, m.call(background, &d.inbox, func() error {
			require.Len(t, d.connected.origins, len(d.connected.orders), "it knows of no closed order")
			return nil
		}))
	}
	require.Empty(t, one.shards)
	require.Len(t, two.shards, 1)
	m.agrees()

	late := m.ask(cod(buy("A", 10, 5), one))
	require.Equal(t, exchange.OK, late.Reason)
	withoutOrigin := m.ask(cod(buy("A", 10, 5), nil))
	m.untilOpen(2)
	got, _ = m.canceledBy(exchange.ByDisconnect, first)
	require.Subset(t, got, []exchange.OrderID{late.Order, withoutOrigin.Order}, "the connection has ended already")
	m.EndOrigin(two)
	m.untilOpen(1)
	m.agrees()
}

// TestManyConnectionsEndAtOnce: their cancels take no room in a symbol's inbox, other commands continue, and no
// record exceeds its bound.
func TestManyConnectionsEndAtOnce(t *testing.T) {
	m := open(t, Options{InboxLen: 1})
	const connections = 3 * requestsMax
	origins := make([]*Origin, connections)
	for i := range origins {
		origins[i] = m.NewOrigin()
		for _, sym := range []exchange.Symbol{"A", "B"} {
			require.Equal(t, exchange.OK, m.ask(cod(sell(sym, 1, exchange.Price(5+i%3)), origins[i])).Reason)
		}
	}
	first := m.journal.Appended() + 1
	d := (*m.numbered.Load())[0]
	busy, held := make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(held) })
	t.Cleanup(letGo) // also if the test fails early: must run before the engine is closed
	go func() {
		_ = m.call(background, &d.inbox, func() error { close(busy); <-held; return nil })
	}()
	<-busy
	var all sync.WaitGroup
	for _, origin := range origins {
		all.Go(func() { m.EndOrigin(origin) })
	}
	all.Wait()
	require.Eventually(t, func() bool { return m.Stats().OpenOrders == connections }, time.Minute, time.Millisecond,
		"the other symbol continues")
	d.inbox.mu.Lock()
	waiting := len(d.inbox.requests)
	d.inbox.mu.Unlock()
	require.LessOrEqual(t, waiting, 1)
	letGo()
	m.untilOpen(0)
	for _, e := range m.events(first) {
		require.LessOrEqual(t, len(e.Cancels), disconnectCancelsMax)
	}
	got, _ := m.canceledBy(exchange.ByDisconnect, first)
	require.Len(t, got, 2*connections)
	m.agrees()
}

// TestWhatHasNoRoomIsCanceledOnceThereIsSome also checks that until then the engine remembers no more due orders
// than are open.
func TestWhatHasNoRoomIsCanceledOnceThereIsSome(t *testing.T) {
	const others, segment = 600, 16 << 10
	m := cramped(t, segment)
	for range others {
		require.Equal(t, exchange.OK, m.do(buy("B", 1, 1)).Reason)
	}
	require.Eventually(t, func() bool { return m.journal.RoomBytes() > segment }, time.Minute, time.Millisecond)
	m.fillDisk()
	var origins []*Origin
	for {
		origin := m.NewOrigin()
		if m.ask(cod(buy("A", 1, 1), origin)).Reason != exchange.OK {
			break
		}
		origins = append(origins, origin)
	}
	id := exchange.OrderID(1)
	for ; m.do(cancelOf(id, "1")).Reason == exchange.OK; id++ { // use up the reserve too
	}
	left := others - int64(id-1)
	require.Positive(t, left, "some orders of connections are still open")
	require.Greater(t, len(origins), disconnectCancelsMax/4)
	for _, origin := range origins {
		m.EndOrigin(origin)
	}
	d := (*m.numbered.Load())[0]
	require.Eventually(t, func() bool {
		open := 0
		require.NoError(t, m.call(background, &d.inbox, func() error { open = len(d.connected.due); return nil }))
		return open > 0
	}, time.Minute, time.Millisecond)
	require.Greater(t, m.Stats().OpenOrders, left)
	m.freeDisk()
	m.untilOpen(left)
	m.agrees()
}

// TestAStartCancelsWhatHasLostItsConnection also checks the open orders of blocked accounts and of accounts whose
// switch has fired. All other orders stay open.
func TestAStartCancelsWhatHasLostItsConnection(t *testing.T) {
	m := inParts(t, Options{})
	origin := m.NewOrigin()
	for _, r := range []Request{
		cod(buy("A", 10, 5), origin), {Command: buy("A", 10, 4)}, cod(buy("B", 10, 5), origin),
		{Command: sell("B", 10, 8)}, {Command: sell("B", 10, 9)},
	} {
		require.Equal(t, exchange.OK, m.ask(r).Reason)
	}
	require.Equal(t, exchange.OK, m.do(exchange.Command{Kind: exchange.SetSwitch, Account: "2",
		More: &exchange.CommandMore{Seconds: 1}}).Reason)
	seq := m.journal.Appended()

	again := m.after(seq, false)
	first := again.journal.Appended() + 1
	require.NoError(t, again.Catchup(background))
	require.NoError(t, again.Refusing())
	got, _ := again.canceledBy(exchange.ByDisconnect, first)
	require.Equal(t, []exchange.OrderID{1, 3}, got)
	require.Equal(t, int64(3), again.Stats().OpenOrders, "the switch of account 2 has not passed")
	require.Equal(t, exchange.OK, again.do(buy("A", 1, 1)).Reason)
	again.agrees()

	late := m.options.Now
	m.options.Now = func() int64 { return 77 + exchange.Second }
	again = m.after(seq, false)
	m.options.Now = late
	require.NoError(t, again.Catchup(background))
	require.Equal(t, int64(1), again.Stats().OpenOrders)
	again.agrees()
}

// TestAStartCancelsForManySwitches uses books that one survey step does not cover. Each account's orders of both
// symbols are canceled in one record, and no orders of other accounts.
func TestAStartCancelsForManySwitches(t *testing.T) {
	c := &clock{}
	m := inParts(t, c.options())
	const first, accounts, foreign = 100, 200, surveyMax
	for range foreign {
		require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	}
	for n := range accounts {
		id := exchange.AccountID(strconv.Itoa(first + n))
		a, b := buy("A", 1, 1), buy("B", 1, 1)
		a.Account, b.Account = id, id
		open := exchange.Command{Kind: exchange.OpenAccount, Account: id, Balance: exchange.Notional(10, 10)}
		for _, r := range m.all(open, a, b, cancelAfter(id, 1+n%2)) {
			require.Equal(t, exchange.OK, r.Reason)
		}
	}
	seq := m.journal.Appended() // after this, m may cancel as well, because it has the same clock
	c.Store(77 + exchange.Second)
	again := m.after(seq, false)
	before := seq + 1
	require.NoError(t, again.Catchup(background))
	require.Equal(t, int64(foreign+accounts), again.Stats().OpenOrders, "half of the switches have not passed")
	canceled, records := again.canceledBy(exchange.BySwitch, before)
	require.Len(t, canceled, accounts)
	require.Equal(t, accounts/2, records)
	require.Equal(t, accounts/2, again.shard("B").book.Resting(), "each order of a batch is in its symbol's book")
	for _, id := range canceled {
		require.Zero(t, (id-foreign-1)/2%2, "order %d is of an account whose switch has not passed", id)
	}
	again.agrees()
}

// TestNoOrdersAreTakenUntilWhatWasDueIsDone starts an engine whose journal has no room for the cancels that are
// due.
func TestNoOrdersAreTakenUntilWhatWasDueIsDone(t *testing.T) {
	m := inParts(t, Options{})
	origin := m.NewOrigin()
	for range 1000 {
		require.Equal(t, exchange.OK, m.ask(cod(buy("A", 1, 1), origin)).Reason)
	}
	require.Equal(t, exchange.OK, m.do(buy("B", 1, 1)).Reason)
	refusing := false
	again := m.afterWith(m.journal.Appended(), false, func(j *journal.Journal) Log { return &noReserve{j, &refusing} })
	refusing = true
	require.NoError(t, again.Catchup(background))
	require.ErrorIs(t, again.Refusing(), errUnresumed)
	require.Equal(t, exchange.Unresumed, again.do(buy("B", 1, 1)).Reason)
	require.Equal(t, exchange.OK, again.do(queryOf(1001)).Reason)
	d := (*again.numbered.Load())[0]
	require.NoError(t, again.call(background, &d.inbox, func() error { refusing = false; return nil }))
	require.Eventually(t, func() bool { return again.Refusing() == nil }, time.Minute, time.Millisecond)
	require.Equal(t, int64(1), again.Stats().OpenOrders)
	for _, e := range again.events(1) {
		require.LessOrEqual(t, len(e.Cancels), disconnectCancelsMax)
	}
	require.Equal(t, exchange.OK, again.do(buy("B", 1, 1)).Reason)
	again.agrees()
}

// TestASwitchThatPassedDuringTheStopIsNotArmedAgain: a client tries in vain to arm a switch that fired while the
// exchange was down, before there is room for the cancels that are due.
func TestASwitchThatPassedDuringTheStopIsNotArmedAgain(t *testing.T) {
	m := inParts(t, Options{})
	for range 1000 {
		require.Equal(t, exchange.OK, m.do(buy("A", 1, 1)).Reason)
	}
	m.all(cancelAfter("1", 1), cancelAfter("2", 90))
	m.options.Now = func() int64 { return 77 + exchange.Second }
	var refusing atomic.Bool
	refusing.Store(true)
	again := m.afterWith(m.journal.Appended(), false, func(j *journal.Journal) Log { return &fewBytes{j, &refusing} })
	require.NoError(t, again.Catchup(background))
	require.ErrorIs(t, again.Refusing(), errUnresumed)
	for _, seconds := range []int{90, 0} {
		require.Equal(t, exchange.Unresumed, again.do(cancelAfter("1", seconds)).Reason)
	}
	require.Equal(t, exchange.OK, again.do(cancelAfter("2", 91)).Reason, "it has not passed")
	refusing.Store(false)
	require.Eventually(t, func() bool { return again.Refusing() == nil }, time.Minute, time.Millisecond)
	require.Zero(t, again.Stats().OpenOrders)
	require.Equal(t, exchange.OK, again.do(cancelAfter("1", 90)).Reason)
	again.agrees()
}

// fewBytes is a journal that, while refusing is set, has room only for small records.
type fewBytes struct {
	*journal.Journal
	refusing *atomic.Bool
}

func (n *fewBytes) ClaimReserve(bytes int) error {
	if n.refusing.Load() && bytes > exchange.EventBytesMax {
		return journal.ErrNoRoom
	}
	return n.Journal.ClaimReserve(bytes)
}

// noReserve is a journal that, while refusing is set, has no reserve.
type noReserve struct {
	*journal.Journal
	refusing *bool // used only by the first shard's goroutine
}

func (n *noReserve) ClaimReserve(bytes int) error {
	if *n.refusing {
		return journal.ErrNoRoom
	}
	return n.Journal.ClaimReserve(bytes)
}

// TestRandomConnections compares the open orders after random commands of many connections, some of which end, with
// a list of all orders that the test keeps.
func TestRandomConnections(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	m := open(t, Options{})
	origins := make([]*Origin, 8)
	for i := range origins {
		origins[i] = m.NewOrigin()
	}
	originOf := map[exchange.OrderID]*Origin{}
	ended := map[*Origin]bool{}
	for range 3000 {
		n := random.IntN(len(origins))
		switch random.IntN(20) {
		case 0:
			m.EndOrigin(origins[n])
			ended[origins[n]] = true
			origins[n] = m.NewOrigin()
		case 1, 2, 3:
			m.do(cancelOf(exchange.OrderID(1+random.IntN(len(originOf)+1)), []exchange.AccountID{"1", "2"}[random.IntN(2)]))
		default:
			c := buy([]exchange.Symbol{"A", "B"}[random.IntN(2)], exchange.Shares(1+random.IntN(5)),
				exchange.Price(1+random.IntN(8)))
			if random.IntN(2) == 0 {
				c = sell(c.Symbol, c.Shares, c.Limit+2)
			}
			r := m.ask(cod(c, origins[n]))
			require.Equal(t, exchange.OK, r.Reason, fmt.Sprint("seed ", seed))
			originOf[r.Order] = origins[n]
		}
	}
	for _, d := range *m.numbered.Load() {
		require.Eventually(t, func() bool {
			due := 0
			require.NoError(t, m.call(background, &d.inbox, func() error {
				due = len(d.connected.due)
				for o := range d.book.Orders() {
					if o.Open > 0 && d.connected.origins[o.ID] != originOf[o.ID] || o.Open > 0 && ended[originOf[o.ID]] {
						due++
					}
					if _, known := d.connected.origins[o.ID]; known && o.Open == 0 {
						due++
					}
				}
				return nil
			}))
			return due == 0
		}, time.Minute, time.Millisecond, "seed %d", seed)
	}
	m.agrees()
}

// openSmall returns a market whose journal accepts records of up to about 48 KiB.
func openSmall(t *testing.T, o Options) *market {
	return openWith(t, o, journal.Options{Version: exchange.EventVersion, SegmentBytes: 64 << 10})
}

// TestAnEngineEndsBeforeWhatConnectionsHaveLeft: Close leaves due cancels to the next start, and no owner waits
// for them.
func TestAnEngineEndsBeforeWhatConnectionsHaveLeft(t *testing.T) {
	for range 50 {
		t.Run("", func(t *testing.T) {
			m := open(t, Options{InboxLen: 1}) // the cleanup closes it, which must not hang
			one := m.NewOrigin()
			require.Equal(t, exchange.OK, m.ask(cod(sell("A", 1, 5), one)).Reason)
			busy := make(chan struct{})
			go func() {
				_ = m.call(background, &(*m.numbered.Load())[0].inbox, func() error {
					close(busy)
					<-m.stop
					m.endOwners() // as Close does at this point: it wakes the owner while the owner is busy
					return nil
				})
			}()
			<-busy
			m.EndOrigin(one)
		})
	}
}
