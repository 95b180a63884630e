package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

func TestAnEngineIsAliveWhileEveryOwnerAnswers(t *testing.T) {
	var hang atomic.Bool
	hangs, release := make(chan struct{}), make(chan struct{})
	m := open(t, Options{Now: func() int64 {
		if hang.CompareAndSwap(true, false) {
			close(hangs)
			<-release
		}
		return 77
	}})
	require.NoError(t, m.Alive(background))
	require.Eventually(t, func() bool { return len(m.awakeNow()) == 0 }, time.Minute, time.Millisecond) // so only B is asked

	hang.Store(true)
	ordered := make(chan struct{})
	go func() {
		defer close(ordered)
		_, _ = m.Execute(background, []exchange.Command{sell("B", 1, 1)}, make([]exchange.Result, 1))
	}()
	<-hangs
	d, _ := m.desks.Load(exchange.Symbol("B"))
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- m.Alive(ctx) }()
	require.Eventually(t, func() bool { return d.(*desk).inbox.asked.Load() }, time.Minute, time.Millisecond)
	require.Empty(t, ended)
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "desk of B")

	close(release)
	<-ordered
	require.NoError(t, m.Alive(background))
}
