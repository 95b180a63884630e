package engine

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestRefusedOrdersThatLookAtManyAreDoneInTurns: an FOK counts as work for all orders that it visits, even if
// they all belong to its own account.
func TestRefusedOrdersThatLookAtManyAreDoneInTurns(t *testing.T) {
	m := open(t, Options{})
	m.do(exchange.Command{Kind: exchange.DepositShares, Symbol: "A", Account: "1",
		Deposited: exchange.Shares(8 * turnWork * fillsPerWork).Position()})
	for range 8 * fillsPerWork {
		c := sell("A", 1, 5)
		c.Account = "1"
		require.Equal(t, exchange.OK, m.do(c).Reason)
	}
	release := m.held("A")
	frame := make([]exchange.Command, turnWork)
	for n := range frame {
		frame[n] = stp(fok(buy("A", 1, 5)), exchange.CancelOldest)
	}
	frame = append(frame, buy("A", 1, 1)) // the only order that is accepted
	inbox := func(n int) func() bool { return func() bool { return m.Stats().Inbox == int64(n) } }
	long := m.later(frame...)
	require.Eventually(t, inbox(1), time.Minute, time.Millisecond)
	single := m.later(buy("A", 1, 2))
	require.Eventually(t, inbox(2), time.Minute, time.Millisecond)
	release()
	first, last := (<-single)[0].Order, (<-long)[turnWork]
	require.Equal(t, exchange.OK, last.Reason)
	require.Less(t, first, last.Order, "it was executed before the end of the frame")
}

// TestAnAmendWaitsForAnOrderOfAnotherSymbol: the order holds the account's cash and is not in the journal yet.
func TestAnAmendWaitsForAnOrderOfAnotherSymbol(t *testing.T) {
	m := open(t, Options{})
	m.all(exchange.Command{Kind: exchange.OpenAccount, Account: "3", Balance: exchange.Notional(100, 10)})
	as3 := func(c exchange.Command) exchange.Command { c.Account = "3"; return c }
	old := m.do(as3(buy("A", 10, 5))).Order
	b := m.shard("B")
	o := exchange.Order{Account: m.ledger.Account("3"), Terms: exchange.Terms{Side: exchange.Buy, Limit: 5}, Shares: 160,
		Open: 160}
	m.mu.Lock()
	require.Equal(t, exchange.OK, m.ledger.Reserve(b.instrument, &o))
	m.mu.Unlock()
	release := m.held("A")
	amended := m.later(amend(old, "3", exchange.Buy, 60, 5))
	require.Eventually(t, func() bool { return m.Stats().Inbox == 1 }, time.Minute, time.Millisecond)
	release()
	require.Equal(t, exchange.OK, m.do(as3(amend(old, "3", exchange.Buy, 9, 0))).Reason,
		"other commands are executed after its first try")
	m.mu.Lock()
	m.ledger.Withdraw(b.instrument, &o)
	m.mu.Unlock()
	r := (<-amended)[0]
	require.Equal(t, exchange.OK, r.Reason)
	require.Equal(t, exchange.Shares(60), m.do(queryOf(r.Amended.By)).Status.Open)
	m.agrees()
}

// TestInstructionsOfManySessionsAreReplayed: sessions send orders and amends of all kinds concurrently, for
// accounts that trade in two symbols. Connections end, and accounts cancel all.
func TestInstructionsOfManySessionsAreReplayed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &clock{}
	m := inParts(t, c.options())
	lot := exchange.Position{Lo: 200}
	m.all(exchange.Command{Kind: exchange.DepositShares, Symbol: "A", Account: "1", Deposited: lot},
		exchange.Command{Kind: exchange.DepositShares, Symbol: "B", Account: "1", Deposited: lot},
		exchange.Command{Kind: exchange.OpenAccount, Account: "3", Balance: exchange.Notional(60, 30)})
	var sessions sync.WaitGroup
	for k := range 6 {
		random := rand.New(rand.NewPCG(seed, uint64(k)))
		sessions.Go(func() {
			origin := m.NewOrigin()
			for n := range 700 {
				c.Add(random.Int64N(exchange.Second / 10))
				if random.IntN(60) == 0 {
					m.EndOrigin(origin)
					origin = m.NewOrigin()
				}
				frame := make([]Request, 1+random.IntN(4))
				for i := range frame {
					frame[i] = Request{Command: m.draw(random), Origin: origin}
					if frame[i].Account != "3" && random.IntN(3) > 0 && frame[i].Kind == exchange.PlaceOrder {
						frame[i].Account = "3"
					}
					if r := &frame[i]; r.Ref != "" {
						r.Ref = exchange.Ref(fmt.Sprintf("r%d", random.IntN(4*n+1)))
					}
				}
				results := make([]exchange.Result, len(frame))
				if _, err := m.Engine.Execute(background, frame, results); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	sessions.Wait()
	m.settleSwitches(c)
	for _, d := range *m.numbered.Load() {
		require.NoError(t, m.call(background, &d.inbox, func() error { _, err := d.cancelAllDue(); return err }))
	}
	m.agrees()
	for range 3 {
		crashed := m.after(1+rand.Uint64N(m.journal.Appended()), false)
		require.NoError(t, crashed.Catchup(background))
		crashed.agrees()
	}
	m.Close()
	state := exchange.NewState()
	state.Index.FillsMax = m.index.FillsMax
	for _, e := range m.events(1) {
		require.NoError(t, state.Apply(&e))
	}
	require.NoError(t, m.State().Audit())
	require.Equal(t, state.Digest(), m.State().Digest())
	for _, sh := range *m.numbered.Load() {
		require.Equal(t, int64(sh.book.Closed()), sh.closedCount.Load())
	}
	require.EqualValues(t, m.ledger.OpenOrders(), m.counters.openOrders.Load())
	m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // the market's cleanup closes it
}
