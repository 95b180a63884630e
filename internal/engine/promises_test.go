package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestNothingMayBeToldAtOnceThatPostgresDoesNotHave: MayTell never says yes ahead of
// Durable, which waits for Postgres.
func TestNothingMayBeToldAtOnceThatPostgresDoesNotHave(t *testing.T) {
	for ackPostgres, want := range map[bool]bool{false: true, true: false} {
		m := open(t, Options{Projection: &database{}, AckPostgres: ackPostgres})
		seq, err := m.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
		require.NoError(t, err)
		require.False(t, m.MayTell(seq+1), "what is not synced yet")
		require.NoError(t, m.journal.Wait(background, seq))
		require.Equal(t, want, m.MayTell(seq))
		ended, cancel := context.WithCancel(background)
		cancel()
		require.Equal(t, want, m.Durable(ended, seq) == nil)
	}
}
