package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

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
					m.endOwners() // as Close does at this moment: it nudges the owner while that is busy
					return nil
				})
			}()
			<-busy
			m.EndOrigin(one)
		})
	}
}
