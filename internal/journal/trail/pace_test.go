package trail

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// log is a log whose records become durable when a test calls sync.
type log struct {
	mu     sync.Mutex
	synced uint64
	asked  int
	wakes  []chan<- struct{}
}

// Notify works like a journal's.
func (l *log) Notify(seq uint64, wake chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.wakes = append(l.wakes, wake); l.synced >= seq {
		l.wake()
	}
}

func (l *log) wake() {
	for _, w := range l.wakes {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	l.wakes = nil
}

// sync makes one more record durable.
func (l *log) sync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced++
	l.wake()
}

func (l *log) Synced() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

// slept returns how long a call of Sleep lasts.
func slept(t *testing.T, p *Pace, seq uint64, listened bool) time.Duration {
	begun := time.Now()
	require.True(t, p.Sleep(t.Context(), seq, listened))
	return time.Since(begun)
}

// TestNobodyIsServedByLookingNowAndThen: without callers and listeners the follower looks once per StepTime, and
// does not call Notify.
func TestNobodyIsServedByLookingNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(log)
		p := NewPace(l.Notify)
		for seq := range uint64(5) {
			require.Equal(t, StepTime, slept(t, p, seq, false))
		}
		require.Zero(t, l.asked)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, p.Sleep(ctx, 5, false))
	})
}

// TestAListenerIsServedBySyncs: the first record after a pause wakes the follower; later ones are gathered.
func TestAListenerIsServedBySyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(log)
		p := NewPace(l.Notify)
		time.AfterFunc(7*time.Millisecond, l.sync)
		require.Equal(t, 7*time.Millisecond, slept(t, p, 0, true))
		l.sync()
		require.Equal(t, gatherTime, slept(t, p, 1, true), "record 1 is processed, and record 2 is gathered")
		require.Equal(t, gatherTime, slept(t, p, 2, true))
		require.Equal(t, 1, l.asked)
		time.AfterFunc(3*time.Millisecond, l.sync)
		require.Equal(t, 3*time.Millisecond, slept(t, p, 2, true), "no record arrived, so it waits for a sync")
		require.Equal(t, 2, l.asked)
		require.Equal(t, gatherTime, slept(t, p, 3, true))
		require.Equal(t, StepTime, slept(t, p, 3, true), "it looks without a sync")
		require.Equal(t, StepTime, slept(t, p, 3, true))
		require.Equal(t, 3, l.asked, "it asks for one wake only")
	})
}

// TestSomebodyWhoWaitsIsServedAtOnce: a waiter for a record that arrives returns at once; waiters for later records
// continue to wait.
func TestSomebodyWhoWaitsIsServedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(log)
		p := NewPace(l.Notify)
		begun := time.Now()
		done := [3]time.Duration{}
		var waiting sync.WaitGroup
		for i, seq := range []uint64{2, 1, 4} {
			waiting.Go(func() {
				require.NoError(t, p.Await(t.Context(), seq))
				done[i] = time.Since(begun)
			})
		}
		for i := range 3 {
			time.AfterFunc(time.Duration(i+1)*100*time.Microsecond, l.sync)
		}
		go func() {
			for seq := uint64(0); seq < 3; {
				p.Sleep(t.Context(), seq, false)
				seq = l.Synced()
				p.Reached(seq)
			}
			p.End()
		}()
		waiting.Wait()
		require.Equal(t, [3]time.Duration{200 * time.Microsecond, 100 * time.Microsecond, 300 * time.Microsecond}, done)
		require.NoError(t, p.Await(t.Context(), 100), "after the end")
		require.False(t, p.Waited())
	})
}

// TestAWaitEndsWithItsContext: a wait whose context ends returns the context's error and leaves no waiter
// registered.
func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Await(ctx, 1), context.DeadlineExceeded)
		require.False(t, p.Waited())
	})
}

// TestWhatMayNotBeToldYetIsPolledFor: while a synced record may not be read yet, the log wakes the follower at once
// each time, so the follower limits itself to polling.
func TestWhatMayNotBeToldYetIsPolledFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, listened := range []bool{true, false} {
			l := &log{synced: 10}
			p := NewPace(l.Notify)
			if !listened {
				_, leave := p.join(6)
				defer leave()
			}
			begun, looks := time.Now(), 0
			for ; time.Since(begun) < 100*time.Millisecond; looks++ {
				require.True(t, p.Sleep(t.Context(), 5, listened))
			}
			require.Less(t, looks, 210)
			require.Greater(t, looks, 90)
		}
	})
}

// TestWithoutALogItPolls: a follower without a log polls if there are waiters or listeners.
func TestWithoutALogItPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(nil)
		require.Equal(t, StepTime, slept(t, p, 0, false))
		require.Equal(t, pollTime, slept(t, p, 0, true))
		_, leave := p.join(1)
		require.Equal(t, pollTime, slept(t, p, 0, false))
		leave()
		require.Equal(t, StepTime, slept(t, p, 0, false))
		p.Hurry()
		p.Hurry()
		require.Zero(t, slept(t, p, 0, false), "Hurry ends the sleep")
		require.Equal(t, StepTime, slept(t, p, 0, false))
	})
}
