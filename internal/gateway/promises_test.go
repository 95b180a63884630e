package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestADatabaseThatIsBackIsAskedHoweverSlowTheClientIs: what was executed after it was
// found silent is asked for, also if the reply that says so was not taken by then.
func TestADatabaseThatIsBackIsAskedHoweverSlowTheClientIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.away = 9, true
		s := start(t, p, x, Options{BatchFramesMax: 1, UnsentRepliesMax: 1})
		c := connect(t, p)
		c.send(query(10)) // whose reply is in the way
		c.send(query(1))
		synctest.Wait()
		require.Equal(t, []int{1}, x.asked())
		time.Sleep(time.Second)
		x.set(func() { x.away = false })
		c.send(query(2))
		synctest.Wait()
		time.Sleep(time.Second)
		for _, want := range []string{answer(10), away(1), answer(2)} {
			require.Equal(t, want, c.reply())
		}
		synctest.Wait()
		requireNothingHeld(t, s)
	})
}

// TestWhoFindsNoTurnAtADatabaseThatIsSilentWaitsOnce: the rest of its frame is not asked
// for any more.
func TestWhoFindsNoTurnAtADatabaseThatIsSilentWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past = 99
		s := start(t, p, x, Options{})
		for range 8 {
			require.True(t, s.recalls.TryAcquire(1), "others ask")
		}
		require.False(t, s.recalls.TryAcquire(1), "and are as many as may")
		c := connect(t, p)
		begun := time.Now()
		c.send(asking("", 1, 2, 3))
		refused := c.reply()
		require.Equal(t, 3, strings.Count(refused, "does not answer now"), refused)
		require.Equal(t, 5*time.Second, time.Since(begun))
		require.Empty(t, x.asked())
		s.recalls.Release(8)
		c.send(query(1))
		require.Equal(t, answer(1), c.reply())
	})
}
