package door

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

func TestRepliesComeInTheOrderOfTheFrames(t *testing.T) {
	l := listen(t)
	start(t, l, newFake(), Options{})
	c := dial(t, l)
	const frames = 500
	go func() {
		for order := 1; order <= frames; order++ {
			_, _ = io.WriteString(c, query(order)) // a failed write shows as missing replies
		}
	}()
	for order := 1; order <= frames; order++ {
		require.Equal(t, answer(order), c.reply())
	}
}

func TestAFrameSeesWhatAnEarlierOneDid(t *testing.T) {
	l := listen(t)
	start(t, l, newFake(), Options{})
	c := dial(t, l)
	c.send(opening(7), opening(7))
	require.Equal(t, `<results><created id="7"/></results>`, c.reply())
	require.Equal(t, `<results><error id="7">account 7 already exists</error></results>`, c.reply())
}

func TestFramesThatAreHereAreExecutedTogether(t *testing.T) {
	p, x := newPipes(), newFake()
	start(t, p, x, Options{BatchFramesMax: 4})
	c := connect(t, p)
	go c.send(query(1), query(2), frame("<create/>"), query(3), query(4), query(5))
	for _, want := range []string{answer(1), answer(2), "<results/>", answer(3), answer(4), answer(5)} {
		require.Equal(t, want, c.reply())
	}
	require.Equal(t, []int{3, 2}, x.calls, "four frames are executed in one call, the other two in another")
}

func TestABatchIsBoundedInMemory(t *testing.T) {
	p, x := newPipes(), newFake()
	one := wire.DecodeMemory(framedXML(query(1)))
	start(t, p, x, Options{BatchMemoryMax: 3 * one})
	c := connect(t, p)
	go c.send(query(1), query(2), query(3), query(4), query(5), query(6), query(7))
	for order := 1; order <= 7; order++ {
		require.Equal(t, answer(order), c.reply())
	}
	require.Equal(t, []int{3, 3, 1}, x.calls)
}

func TestNothingIsToldBeforeItIsDurable(t *testing.T) {
	l, x := listen(t), newFake()
	x.held = true
	start(t, l, x, Options{BatchFramesMax: 1})
	c := dial(t, l)
	c.send(query(1), query(2), frame("<nonsense/>"), query(3))
	eventually(t, func() bool { return x.executed() == 3 })
	arrived := make(chan string)
	go func() {
		for range 4 {
			arrived <- c.reply()
		}
	}()
	step := func(durable uint64, replies ...string) {
		select {
		case reply := <-arrived:
			t.Fatalf("a reply was sent before it was durable: %s", reply)
		default:
		}
		x.set(func() { x.durable = durable })
		for _, want := range replies {
			require.Equal(t, want, <-arrived)
		}
	}
	step(1, answer(1))
	step(2, answer(2), errorReply("unknown root element <nonsense>, only <create> and <transactions> are known"))
	step(3, answer(3))
}

func TestTheReaderDoesNotWaitForTheDisk(t *testing.T) {
	l, x := listen(t), newFake()
	x.held = true
	start(t, l, x, Options{})
	c := dial(t, l)
	for order := 1; order <= 10; order++ {
		c.send(query(order))
		eventually(t, func() bool { return x.executed() == order })
	}
	x.set(func() { x.held = false })
	for order := 1; order <= 10; order++ {
		require.Equal(t, answer(order), c.reply())
	}
}

func TestAMalformedDocumentKeepsTheConnectionOpen(t *testing.T) {
	l := listen(t)
	start(t, l, newFake(), Options{})
	c := dial(t, l)
	c.send(query(1), frame("<create>"), frame(""), query(2))
	require.Equal(t, answer(1), c.reply())
	require.Contains(t, c.reply(), "<results><error>malformed XML")
	require.Contains(t, c.reply(), "<results><error>malformed XML")
	require.Equal(t, answer(2), c.reply())
}

func TestAfterHalfCloseEverythingIsStillAnswered(t *testing.T) {
	l, x := listen(t), newFake()
	x.held = true
	start(t, l, x, Options{})
	c := dial(t, l)
	c.send(query(1), query(2), query(3))
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	eventually(t, func() bool { return x.executed() == 3 })
	x.set(func() { x.held = false })
	for order := 1; order <= 3; order++ {
		require.Equal(t, answer(order), c.reply())
	}
	c.ends()
}

func TestACutOffFrameHasNoEffectAndNoReply(t *testing.T) {
	for _, cut := range []string{"5", "12\n", query(2)[:len(query(2))-1]} {
		l, x := listen(t), newFake()
		start(t, l, x, Options{})
		c := dial(t, l)
		c.send(query(1), cut)
		require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
		require.Equal(t, answer(1), c.reply())
		c.ends()
		require.Equal(t, []int{1}, x.queried)
	}
}

func TestBareRepliesHaveNoLengthLine(t *testing.T) {
	l := listen(t)
	startWith(t, l, Adapt(wire.XML{Bare: true}), newFake(), Options{})
	c := dial(t, l)
	c.send(query(1), query(2), "what?\n")
	all, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, answer(1)+answer(2)+errorReply(`a frame begins with its length in bytes, alone on a line, not `+
		`with "what?"`), unnumbered(string(all)))
}

func TestAFailedExchangeIsTheLastReply(t *testing.T) {
	for name, fail := range map[string]func(*fake){
		"Execute": func(x *fake) { x.executeErr = errors.New("the disk is gone") },
		"Durable": func(x *fake) { x.durableErr = errors.New("the disk is gone") },
	} {
		t.Run(name, func(t *testing.T) {
			l, x := listen(t), newFake()
			start(t, l, x, Options{BatchFramesMax: 1})
			c := dial(t, l)
			c.send(query(1))
			require.Equal(t, answer(1), c.reply())
			x.set(func() { fail(x) })
			c.send(query(2), query(3))
			c.isLast(textFailed)
		})
	}
}

func TestWhatIsNotDurableStaysUntoldWhenTheExchangeFails(t *testing.T) {
	l, x := listen(t), newFake()
	x.held = true
	start(t, l, x, Options{BatchFramesMax: 1})
	c := dial(t, l)
	c.send(query(1), query(2), query(3))
	eventually(t, func() bool { return x.executed() == 3 })
	x.set(func() { x.durable = 1 })
	require.Equal(t, answer(1), c.reply())
	x.set(func() { x.durableErr = errors.New("the disk is gone") })
	c.isLast(textFailed)
}

func TestAFailureStopsAReaderThatWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		x.held = true
		start(t, p, x, Options{BatchFramesMax: 1, UnsentRepliesMax: 1})
		c := connect(t, p)
		c.send(query(1), query(2))
		synctest.Wait()
		require.Equal(t, 2, x.executed(), "the reply to the second waits for room")
		time.Sleep(time.Minute) // so that a deadline set from now on differs from the earlier one
		begun := time.Now()
		x.set(func() { x.durableErr = errors.New("the disk is gone") })
		c.isLast(textFailed)
		require.Equal(t, time.Second, time.Since(begun), "no longer than LingerTimeout")
	})
}

func TestASessionEndsWhenItsClientIsGone(t *testing.T) {
	l, x := listen(t), newFake()
	x.held, x.executions = true, 10_000
	s := start(t, l, x, Options{BatchFramesMax: 1, UnsentBytesMax: 1 << 20})
	c := dial(t, l)
	c.send(query(1), query(2), query(3))
	eventually(t, func() bool { return x.executed() == 3 })
	require.NoError(t, c.Conn.(*net.TCPConn).SetLinger(0)) // sends a reset, not an end of stream
	require.NoError(t, c.Close())
	x.set(func() { x.held = false })
	eventually(t, func() bool { return s.count() == 0 })
}

func TestALongReplyArrivesWhole(t *testing.T) {
	l, x := listen(t), newFake()
	x.executions = 50_000
	start(t, l, x, Options{})
	c := dial(t, l)
	c.send(query(1), query(2))
	for order := 1; order <= 2; order++ {
		reply := c.reply()
		require.Greater(t, len(reply), 10*writeBytesMax)
		require.True(t, strings.HasPrefix(reply, fmt.Sprintf(`<results><status id="%d">`, order)))
		require.True(t, strings.HasSuffix(reply, `</status></results>`))
		require.Equal(t, 50_000, strings.Count(reply, "<executed "))
	}
}

// count returns the number of connections, including those that are being refused.
func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}
