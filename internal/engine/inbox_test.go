package engine

import (
	"testing"

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
