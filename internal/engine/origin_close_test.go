package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestAnEngineEndsBeforeWhatConnectionsHaveLeft: it is left to the next start, and no owner waits for it.
func TestAnEngineEndsBeforeWhatConnectionsHaveLeft(t *testing.T) {
	for range 50 {
		t.Run("", func(t *testing.T) {
			m := open(t, Options{InboxLen: 1}) // it is closed at the end, which has to come
			one := m.NewOrigin()
			require.Equal(t, exchange.OK, m.ask(cod(sell("A", 1, 5), one)).Reason)
			busy := make(chan struct{})
			go func() {
				_ = m.call(background, &(*m.numbered.Load())[0].inbox, func() error {
					close(busy)
					<-m.stop
					m.endOwners() // as Close does at this moment: the owner is told to look while it cannot
					return nil
				})
			}()
			<-busy
			m.EndOrigin(one)
		})
	}
}
