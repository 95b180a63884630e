package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestAnOwnerThatIsSentToRestKeepsWhatItHasPutAside: sessions that share a desk take
// turns, and each time it is asked whether it has nothing to do.
func TestAnOwnerThatIsSentToRestKeepsWhatItHasPutAside(t *testing.T) {
	m := open(t, Options{InboxLen: 4})
	m.do(buy("A", 1, 1))
	in := &m.desk("A").inbox
	ended := make(chan error, 3)
	for range cap(ended) {
		go func() {
			commands := make([]exchange.Command, 200*turnWork)
			for i := range commands {
				commands[i] = queryOf(1)
			}
			_, err := m.Execute(background, commands, make([]exchange.Result, len(commands)))
			ended <- err
		}()
	}
	for left := cap(ended); left > 0; {
		select {
		case err := <-ended:
			require.NoError(t, err)
			left--
		default: // as restIdle, each time
			in.mu.Lock()
			in.fresh = false
			in.nudge()
			in.mu.Unlock()
		}
	}
}

// TestAnOrderWaitsForTheRecordOfACancelOfAll: it is placed afterwards, once, and its ref
// names it.
func TestAnOrderWaitsForTheRecordOfACancelOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Options{})
		gate := func(account *exchange.Account) {
			m.mu.Lock()
			m.canceling = account
			m.mu.Unlock()
		}
		account := m.ledger.Account("1")
		gate(account)
		order := buy("A", 1, 1)
		order.Ref = "r"
		placed := make(chan exchange.Result)
		go func() { placed <- m.do(order) }()
		time.Sleep(time.Second) // of the test's clock: it is handed over many times
		require.Zero(t, m.Stats().OpenOrders)
		gate(nil)
		require.Equal(t, exchange.Result{Order: 1}, <-placed)
		require.Equal(t, exchange.Result{Order: 1}, m.do(order), "it was placed once")
		require.EqualValues(t, 1, m.Stats().OpenOrders)
		m.Close()
		m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()})
	})
}
