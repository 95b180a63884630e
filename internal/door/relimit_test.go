package door

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// limitsOf returns the default limits with a change.
func limitsOf(change func(*Limits)) Limits {
	l := Limits{ConnectionsMax: 16384, IdleTimeout: 10 * time.Minute, FrameTimeout: 30 * time.Second,
		WriteTimeout: 30 * time.Second}
	change(&l)
	return l
}

func TestAnotherIdleTimeoutIsForOpenConnectionsToo(t *testing.T) {
	for _, c := range []struct {
		name                     string
		changed, timeout, closed time.Duration // all counted from the last reply
	}{
		{"shorter", time.Minute, 2 * time.Minute, 2 * time.Minute},
		{"already over", 5 * time.Minute, time.Minute, 5 * time.Minute},
		{"longer", 9 * time.Minute, time.Hour, time.Hour},
	} {
		for _, replied := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				s := start(t, p, newFake(), Options{})
				client := connect(t, p)
				if replied {
					time.Sleep(time.Minute)
					client.send(query(1))
					require.Equal(t, answer(1), client.reply())
				}
				begun := time.Now()
				time.Sleep(c.changed)
				s.SetLimits(limitsOf(func(l *Limits) { l.IdleTimeout = c.timeout }))
				require.Equal(t, errorReply("nothing was sent for "+c.timeout.String()), client.reply(), c.name)
				require.Equal(t, c.closed, time.Since(begun), c.name)
			})
		}
	}
}

func TestAnotherFrameTimeoutIsForFramesThatHaveBegun(t *testing.T) {
	for _, timeout := range []time.Duration{20 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipes()
			s := start(t, p, newFake(), Options{})
			c := connect(t, p)
			begun := time.Now()
			c.drip("54\n<trans", time.Millisecond)
			time.Sleep(10 * time.Second)
			s.SetLimits(limitsOf(func(l *Limits) { l.FrameTimeout = timeout }))
			require.Equal(t, errorReply("a frame did not arrive within "+timeout.String()), c.reply())
			require.Equal(t, timeout+time.Millisecond, time.Since(begun))
		})
	}
}

func TestLimitsThatChangeDisturbNobodyWhoKeepsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{})
		c := connect(t, p)
		for n := 1; n <= 100; n++ {
			s.SetLimits(limitsOf(func(l *Limits) { l.IdleTimeout += time.Duration(n) * time.Second }))
			c.send(query(n))
			s.SetLimits(limitsOf(func(l *Limits) { l.FrameTimeout += time.Duration(n) * time.Second }))
			require.Equal(t, answer(n), c.reply())
		}
	})
}

func TestFewerConnectionsMayBeThanThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{})
		first, second := connect(t, p), connect(t, p)
		synctest.Wait()
		s.SetLimits(limitsOf(func(l *Limits) { l.ConnectionsMax = 1 }))
		require.Equal(t, errorReply("the exchange has 1 connections and accepts no more; try again later"),
			connect(t, p).reply())
		first.send(query(1))
		require.Equal(t, answer(1), first.reply())
		second.send(query(2))
		require.Equal(t, answer(2), second.reply())
		s.SetLimits(limitsOf(func(l *Limits) { l.ConnectionsMax = 3 }))
		third := connect(t, p)
		third.send(query(3))
		require.Equal(t, answer(3), third.reply())
	})
}
