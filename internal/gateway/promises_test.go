package gateway

import (
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
