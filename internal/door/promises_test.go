package door

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Queries that are executed after a failure of the database ask it again, even if the client has not yet read the
// replies about the failure.
func TestADatabaseThatIsBackIsAskedHoweverSlowTheClientIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.away = 9, true
		s := start(t, p, x, Options{BatchFramesMax: 1, UnsentRepliesMax: 1})
		c := connect(t, p)
		c.send(query(10)) // its reply keeps the queue full
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

// If a query times out while it waits for its turn to ask the database, the other queries of its frame do not
// ask at all.
func TestWhoFindsNoTurnAtADatabaseThatIsSilentWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past = 99
		s := start(t, p, x, Options{})
		for range 8 {
			require.True(t, s.recalls.TryAcquire(1), "others ask")
		}
		require.False(t, s.recalls.TryAcquire(1), "all slots are taken")
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

// Replies to queries that did not ask the database do not count as new failures of the database.
func TestWhatWasNotAskedForMakesADatabaseNoLongerSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.frozen = 9, true
		s := start(t, p, x, Options{BatchFramesMax: 1, UnsentRepliesMax: 1})
		c := connect(t, p)
		for order := 1; order <= 3; order++ {
			c.send(query(order))
		}
		synctest.Wait()
		time.Sleep(5 * time.Second) // the first query has timed out; its reply is not read
		synctest.Wait()
		x.set(func() { x.frozen = false })
		c.send(query(4))
		synctest.Wait()
		time.Sleep(time.Second)
		for _, want := range []string{away(1), away(2), away(3)} {
			require.Equal(t, want, c.reply())
			time.Sleep(time.Second)
		}
		require.Equal(t, answer(4), c.reply())
		synctest.Wait()
		requireNothingHeld(t, s)
	})
}

// An unsent reply extends the idle time, but not the time for a frame that has begun.
func TestAFrameMustArriveInTimeAlsoFromWhoIsOwedAReply(t *testing.T) {
	l, x := listen(t), newFake()
	x.held = true
	s := start(t, l, x, Options{FrameTimeout: 20 * time.Millisecond})
	c := dial(t, l)
	c.send(query(1), query(2)[:10])
	eventually(t, func() bool { return s.hits(limitFrameTime) == 1 })
	x.set(func() { x.held = false })
	require.Equal(t, answer(1), c.reply())
	c.isLast("a frame did not arrive within 20ms")
}

// After a successful accept, the waits after errors start again from their minimum.
func TestAnErrorOfAcceptAfterAConnectionIsANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &stubborn{newPipes(), 20, 1}
		start(t, l, newFake(), Options{})
		connect(t, l.pipes)
		begun := time.Now()
		connect(t, l.pipes)
		require.Equal(t, 5*time.Millisecond, time.Since(begun))
	})
}

// Each stage of a reply is counted once, even if the reader sends the reply's beginning and the writer the rest.
func TestAReplyThatTheClientHasNoRoomForIsMeasuredOnce(t *testing.T) {
	x, m := newFake(), NewMetrics()
	x.executions = 5000 // about 500 kB
	l := narrow{listen(t)}
	s := start(t, l, x, Options{Metrics: m})
	c := dial(t, l)
	require.NoError(t, c.Conn.(*net.TCPConn).SetReadBuffer(64<<10))
	for sent := 0; m.byStage[stageWrite].Count() < 3; sent++ { // one batch in 16 is measured
		require.Less(t, sent, 2000, "never drawn")
		c.send(query(1))
		c.reply()
	}
	require.NoError(t, c.Close())
	eventually(t, func() bool { return s.count() == 0 })
	require.Equal(t, m.byStage[stageWrite].Count(), m.byStage[stageJournal].Count())
}

// A wake-up by SetLimits may arrive after the reader has already adopted the new limits. It must not end the
// session.
func TestALookAtLimitsThatAreKnownAlreadyEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{})
		c := connect(t, p)
		for order := 1; order <= 3; order++ {
			c.send(query(order)[:10])
			synctest.Wait()
			s.mu.Lock()
			for open := range s.sessions {
				session := open.(*session)
				session.rereadLimits()
			}
			s.mu.Unlock()
			synctest.Wait()
			c.send(query(order)[10:])
			require.Equal(t, answer(order), c.reply())
		}
	})
}
