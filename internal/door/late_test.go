package door

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// away returns the reply to a query of an order that is only in the database, while the database does not
// answer.
func away(order int) string {
	return fmt.Sprintf(`<results><error id="%d">order %d was closed long ago, and the database that knows it does `+
		`not answer now</error></results>`, order, order)
}

func (x *fake) asked() []int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]int(nil), x.recalled...)
}

// Frames after a query of an old order, in the same write or in later ones, are executed while the database is
// queried. Replies keep their order.
func TestAQueryOfAnOldOrderHoldsBackItsReplyAlone(t *testing.T) {
	for _, together := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			p, x := newPipes(), newFake()
			x.past, x.frozen = 3, true
			s := start(t, p, x, Options{BatchFramesMax: together})
			c := connect(t, p)
			c.send(query(1), opening(1))
			synctest.Wait()
			require.Equal(t, 2, x.executed(), "the frames after it in the same write are executed")
			c.send(opening(2), query(9))
			c.send(query(2))
			synctest.Wait()
			require.Equal(t, 5, x.executed())
			require.Equal(t, []int{1}, x.asked())
			x.set(func() { x.frozen = false })
			for _, want := range []string{answer(1), `<results><created id="1"/></results>`,
				`<results><created id="2"/></results>`, answer(9), answer(2)} {
				require.Equal(t, want, c.reply())
			}
			synctest.Wait()
			require.Equal(t, []int{1, 2}, x.asked())
			c.send(query(8))
			require.Equal(t, answer(8), c.reply(), "later queries are answered as usual")
			requireNothingHeld(t, s)
		})
	}
}

// After the database did not answer one query, the queries that were executed before that do not each wait for the
// database.
func TestADatabaseThatIsSilentCostsAConnectionItsTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.frozen = 99, true
		start(t, p, x, Options{BatchFramesMax: 1})
		c := connect(t, p)
		begun := time.Now()
		for order := 1; order <= 10; order++ {
			c.send(query(order))
		}
		for order := 1; order <= 10; order++ {
			require.Equal(t, away(order), c.reply())
		}
		require.Equal(t, recallTimeout, time.Since(begun))
		require.Equal(t, []int{1}, x.asked())
		x.set(func() { x.frozen = false })
		c.send(query(11))
		require.Equal(t, answer(11), c.reply(), "later queries ask the database again")
	})
}

// A query that is executed after the failure asks the database. This holds even if it waits after queries
// that did not ask, because the client has not read the replies.
func TestWhatIsExecutedLaterIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.frozen = 99, true
		s := start(t, p, x, Options{BatchFramesMax: 1, UnsentBytesMax: 1})
		c := connect(t, p)
		for order := 1; order <= 4; order++ {
			c.send(query(order))
		}
		time.Sleep(recallTimeout)
		synctest.Wait()
		x.set(func() { x.frozen = false })
		c.send(query(5))
		synctest.Wait()
		require.Equal(t, []int{1}, x.asked(), "the client has not read the replies before it")
		for order := 1; order <= 4; order++ {
			require.Equal(t, away(order), c.reply())
		}
		require.Equal(t, answer(5), c.reply())
		synctest.Wait()
		requireNothingHeld(t, s)
	})
}

// The number of waiting batches of one connection is limited, and so is the memory of the batches of all
// connections.
func TestWhatWaitsForTheHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.frozen = 1, true
		s := start(t, p, x, Options{BatchFramesMax: 1})
		c := connect(t, p)
		go func() {
			for order := 1; order <= 40; order++ {
				_, _ = c.Write([]byte(query(order)))
			}
		}()
		synctest.Wait()
		require.Equal(t, lateBatchesMax+1, x.executed(), "one more waits for room")
		require.Len(t, x.asked(), 1)
		x.set(func() { x.frozen = false })
		for order := 1; order <= 40; order++ {
			require.Equal(t, answer(order), c.reply())
		}
		synctest.Wait()
		requireNothingHeld(t, s)

		x.set(func() { x.frozen = true })
		free := s.recalling.max
		require.True(t, s.recalling.try(free), "the rest of the memory is free for others")
		c.send(query(1))
		synctest.Wait() // the write has ended, but the server may not have executed the query yet
		go func() { _, _ = c.Write([]byte(query(2))) }()
		other := connect(t, p)
		other.send(query(3))
		require.Equal(t, answer(3), other.reply())
		require.Equal(t, []int{1, 3}, x.queried[40:], "the reader asks the history itself")
		x.set(func() { x.frozen = false })
		require.Equal(t, answer(1), c.reply())
		require.Equal(t, answer(2), c.reply())
		s.recalling.release(free)
	})
}

// At most recallsMax connections ask the database at the same time.
func TestManyConnectionsAskTheHistoryInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.frozen = 99, true
		start(t, p, x, Options{})
		var clients []*client
		for order := 1; order <= 3*recallsMax; order++ {
			c := connect(t, p)
			c.send(query(order), query(100+order))
			clients = append(clients, c)
		}
		synctest.Wait()
		require.Equal(t, 6*recallsMax, x.executed())
		require.Len(t, x.asked(), recallsMax)
		begun := time.Now()
		for i, c := range clients {
			require.Equal(t, away(i+1), c.reply())
			require.Equal(t, answer(101+i), c.reply())
		}
		require.Equal(t, recallTimeout, time.Since(begun), "recallTimeout includes the wait for a slot")
	})
}

// A connection may end in any way while the database is queried.
func TestAConnectionThatEndsWhileTheHistoryIsAsked(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Server, *client){
		"half-closed with a frame cut off": func(t *testing.T, s *Server, c *client) {
			c.send("7\n")
			require.NoError(t, c.Close())
			time.Sleep(recallTimeout)
			synctest.Wait()
			require.Zero(t, s.count())
		},
		"a malformed length line": func(t *testing.T, s *Server, c *client) {
			c.send("x\n")
			require.Equal(t, away(1), c.reply())
			require.Equal(t, `<results><created id="1"/></results>`, c.reply())
			c.isLast(`a frame begins with its length in bytes, alone on a line, not with "x"`)
		},
		"a shutdown": func(t *testing.T, s *Server, c *client) {
			done := shutDown(t.Context(), s)
			require.Equal(t, away(1), c.reply())
			require.Equal(t, `<results><created id="1"/></results>`, c.reply())
			c.isLast(textDraining)
			require.NoError(t, <-done)
		},
		"a shutdown that takes too long": func(t *testing.T, s *Server, c *client) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, x := newPipes(), newFake()
				x.past, x.frozen = 1, true
				s := start(t, p, x, Options{IdleTimeout: time.Second})
				c := connect(t, p)
				c.send(query(1), opening(1))
				synctest.Wait()
				end(t, s, c)
			})
		})
	}
}

// A client that waits for a reply from the database is not idle.
func TestWhoIsOwedAReplyFromTheHistoryIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.frozen = 1, true
		start(t, p, x, Options{IdleTimeout: time.Second})
		c := connect(t, p)
		begun := time.Now()
		c.send(query(1))
		require.Equal(t, away(1), c.reply())
		c.isLast("nothing was sent for 1s")
		require.Equal(t, recallTimeout+2*time.Second, time.Since(begun),
			"idle from the reply on, and a second to read the last reply")
	})
}

// Frames of one write are executed together. But frames before one whose ref must be looked up in the history do
// not wait for the history.
func TestARefThatOnlyTheHistoryMayKnowHoldsBackNothingBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.old = "old"
		asking := make(chan struct{})
		executed := 0
		x.entered = func() {
			if executed++; executed == 2 {
				<-asking // blocks as Execute does while it queries the database
			}
		}
		start(t, p, x, Options{})
		c := connect(t, p)
		old := frame(`<transactions id="1"><order sym="S" amount="1" limit="1"/>` +
			`<order sym="S" amount="1" limit="1" ref="old"/></transactions>`)
		c.send(opening(1), query(5), old, query(6), old, query(7))
		require.Equal(t, `<results><created id="1"/></results>`, c.reply())
		require.Equal(t, answer(5), c.reply())
		synctest.Wait()
		require.Equal(t, []int{2}, x.calls, "the frames before it are executed and answered")
		close(asking)
		opened := `<results>` + anOpened + `<opened sym="S" amount="1" limit="1" ref="old" id="0"/></results>`
		for _, want := range []string{opened, answer(6), opened, answer(7)} {
			require.Equal(t, want, c.reply())
		}
		require.Equal(t, []int{2, 6}, x.calls)
	})
}

// At most lateAnswersMax frames of other transports wait for the history; the others are executed.
func TestOtherTransportsHaveRoomBesideThoseThatAskTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newFake()
		x.past, x.frozen = 999, true
		s := New(x, Options{})
		old := framedXML(query(1))
		replies := make(chan string, 2*lateAnswersMax)
		for range lateAnswersMax {
			go func() {
				reply, err := ask(s, t.Context(), old)
				replies <- fmt.Sprint(string(reply), err)
			}()
		}
		synctest.Wait()
		begun := time.Now()
		reply, err := ask(s, t.Context(), old)
		require.NoError(t, err)
		require.Equal(t, away(1), string(reply))
		reply, err = ask(s, t.Context(), framedXML(query(1000)))
		require.NoError(t, err)
		require.Equal(t, answer(1000), string(reply))
		require.Zero(t, time.Since(begun), "neither waits")
		for range lateAnswersMax {
			require.Equal(t, away(1)+"<nil>", <-replies)
		}
		require.Equal(t, recallTimeout, time.Since(begun))
		requireNothingHeld(t, s)
	})
}

// The same limit applies to frames that must ask the history before they are executed.
func TestOtherTransportsHaveRoomBesideRefsThatTheHistoryMayKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newFake()
		x.old = "old"
		asking := make(chan struct{})
		x.entered = func() { <-asking } // blocks as Execute does while it queries the database
		s := New(x, Options{})
		old := []byte(`<create><account id="1" balance="1" ref="old"/></create>`)
		errs := make(chan error, lateAnswersMax)
		for range lateAnswersMax {
			go func() {
				_, err := ask(s, t.Context(), old)
				errs <- err
			}()
		}
		synctest.Wait()
		_, err := ask(s, t.Context(), old)
		require.ErrorIs(t, err, ErrBusy)
		close(asking)
		for range lateAnswersMax {
			require.NoError(t, <-errs)
		}
		_, err = ask(s, t.Context(), old)
		require.NoError(t, err)
	})
}

// A large frame that queries the history keeps its reserved memory until it is answered.
func TestALargeFrameThatAsksTheHistoryKeepsItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.past, x.frozen = 1, true
		s := start(t, p, x, Options{})
		c := connect(t, p)
		c.send(asking(strings.Repeat(anOrder, 1000), 1))
		synctest.Wait()
		require.Equal(t, 1001, x.executed())
		require.Greater(t, s.workingHeld(), 1e6)
		all := s.recalling.max
		require.True(t, s.recalling.try(all), "it reserves nothing in recalling")
		s.recalling.release(all)
		c.send(opening(1))
		synctest.Wait()
		require.Equal(t, 1002, x.executed())
		x.set(func() { x.frozen = false })
		require.Contains(t, c.reply(), `<status id="1">`)
		require.Equal(t, `<results><created id="1"/></results>`, c.reply())
		synctest.Wait()
		requireNothingHeld(t, s)
		require.Equal(t, exchange.OrderID(1), x.past)
	})
}
