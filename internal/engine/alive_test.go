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
	require.Eventually(t, func() bool { return len(m.awakeNow()) == 0 }, time.Minute,
		time.Millisecond) // by then all other owners are idle, so only B is queried

	hang.Store(true)
	ordered := make(chan struct{})
	go func() {
		defer close(ordered)
		_, _ = m.Execute(background, []exchange.Command{sell("B", 1, 1)}, make([]exchange.Result, 1))
	}()
	<-hangs
	d, _ := m.shards.Load(exchange.Symbol("B"))
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- m.Alive(ctx) }()
	require.Eventually(t, func() bool { return d.(*shard).inbox.hasRequests.Load() }, time.Minute, time.Millisecond)
	require.Empty(t, ended)
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "shard of B")

	close(release)
	<-ordered
	require.NoError(t, m.Alive(background))
}

// fakeOwner is an owner that does nothing.
type fakeOwner struct{ doer }

func (fakeOwner) do(*Request, *exchange.Result, int64) error { return nil }
func (fakeOwner) begin()                                     {}
func (fakeOwner) afterTask()                                 {}
func (fakeOwner) freeMemory()                                {}
func (fakeOwner) chore() (more bool, err error)              { return false, nil }

// TestAnOwnerEndsOnlyIfNoTaskIsAboutToArrive: a task in the inbox of an owner whose goroutine has ended
// would never be executed.
func TestAnOwnerEndsOnlyIfNoTaskIsAboutToArrive(t *testing.T) {
	m := open(t, Options{})
	for name, test := range map[string]struct {
		come func(*inbox)
		ends bool
	}{
		"nothing":                 {func(*inbox) {}, true},
		"a task":                  {func(in *inbox) { in.tasks <- nil }, false},
		"a sender waits for room": {func(in *inbox) { in.waiting = 1 }, false},
		"an operator waits":       {func(in *inbox) { in.requests = []*task{{}} }, false},
		"a task arrived recently": {func(in *inbox) { in.recentTask = true }, false},
	} {
		in := &inbox{engine: m.Engine, owner: fakeOwner{}, tasks: make(chan *task, 1)}
		test.come(in)
		m.awakeCount.Add(1)
		require.Equal(t, test.ends, in.endIfIdle(), name)
		require.Equal(t, test.ends, in.tasks == nil, name)
		if !test.ends {
			m.awakeCount.Add(-1)
		}
	}
}
