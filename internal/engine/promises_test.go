package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestNothingMayBeToldAtOnceThatPostgresDoesNotHave: MayTell never reports true before
// Durable, which waits for Postgres, would return.
func TestNothingMayBeToldAtOnceThatPostgresDoesNotHave(t *testing.T) {
	for ackPostgres, want := range map[bool]bool{false: true, true: false} {
		m := open(t, Options{Projection: &database{}, AckPostgres: ackPostgres})
		mark, err := m.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
		require.NoError(t, err)
		require.False(t, m.MayTell(Mark{Seq: mark.Seq + 1}), "a record that does not exist yet")
		require.NoError(t, m.journal.Wait(background, mark.Seq))
		require.Equal(t, want, m.MayTell(mark))
		ended, cancel := context.WithCancel(background)
		cancel()
		require.Equal(t, want, m.Durable(ended, mark) == nil)
	}
}

// TestACancelOfAllIsToldOnceItIsDurable: with AckPostgres, a cancel of all waits for Postgres too.
func TestACancelOfAllIsToldOnceItIsDurable(t *testing.T) {
	m := open(t, Options{Projection: &database{}, AckPostgres: true})
	_, err := m.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
	require.NoError(t, err)
	before := m.journal.Appended()
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() {
		_, err := m.CancelAll(ctx, "1", "")
		ended <- err
	}()
	require.Eventually(t, func() bool { return m.journal.Appended() == before+1 }, time.Minute, time.Microsecond)
	require.Eventually(t, func() bool { return m.Stats().OpenOrders == 0 }, time.Minute, time.Microsecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
