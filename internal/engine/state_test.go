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

// TestReconcileRunsBesideTrading counts all cash and shares over and over while
// five sessions trade, place shares and open accounts.
func TestReconcileRunsBesideTrading(t *testing.T) {
	m := open(t, Options{})
	var sessions sync.WaitGroup
	for s := range 5 {
		sessions.Go(func() {
			for i := range 200 {
				id := exchange.AccountID(fmt.Sprint(1000*(s+1) + i))
				results := make([]exchange.Result, 5)
				_, err := m.Execute(background, []exchange.Command{
					{Kind: exchange.OpenAccount, Account: id, Balance: exchange.Notional(7, 9)},
					{Kind: exchange.PlaceShares, Account: id, Symbol: "A", Placed: exchange.Shares(3).Position()},
					sell("A", 2, exchange.Price(1+i%3)), buy("A", 2, 3), sell("B", 1, 1)}, results)
				if err != nil || results[1].Reason != exchange.OK {
					t.Errorf("%v %v", results, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { sessions.Wait(); close(done) }()
	for counts := 0; ; counts++ {
		require.Zero(t, m.Reconcile())
		select {
		case <-done:
			require.Positive(t, counts)
			require.NoError(t, m.CheckLedger())
			return
		default:
		}
	}
}

// TestAStoppedEngineHandsBackItsState compares it with what the journal leads to.
func TestAStoppedEngineHandsBackItsState(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 10, 5), buy("A", 4, 6), buy("B", 3, 5), cancelOf(3, "1"), buy("B", 2, 5))
	m.Close()
	stopped := m.State()
	m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // for the cleanup
	require.NoError(t, m.journal.Wait(background, m.journal.Appended()))
	replayed := exchange.NewState()
	require.NoError(t, journal.Scan(m.dir, func(_ uint64, record []byte) error {
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
		m := open(t, Options{InboxLen: 1}) // sessions wait to hand over as well
		var running sync.WaitGroup
		var done atomic.Int64
		for n := range 16 {
			running.Go(func() {
				commands := []exchange.Command{buy("A", 1, 1), buy("B", 1, 1), {Kind: exchange.MakeSymbol, Symbol: exchange.Symbol(fmt.Sprint("NEW", n))}}
				results := make([]exchange.Result, len(commands))
				for err := error(nil); err == nil; done.Add(1) {
					if _, err = m.Execute(background, commands, results); err != nil {
						assert.ErrorIs(t, err, ErrStopped)
					}
					results = make([]exchange.Result, len(commands)) // a desk may still have those
				}
			})
		}
		require.Eventually(t, func() bool { return done.Load() > 100 }, 10*time.Second, time.Microsecond)
		m.Close()
		running.Wait()                                                          // it hangs where a call was forgotten
		m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // for the cleanup
	}
}
