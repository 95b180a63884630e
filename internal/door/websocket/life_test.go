package websocket

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pinged makes the server ping the client now, and answers the ping.
func (c *client) pinged(conn *Conn) {
	c.t.Helper()
	conn.beat()
	op, payload := c.next()
	require.Equal(c.t, byte(opPing), op)
	c.send(masked(bitFin|opPong, payload))
}

// TestWhoAnswersPingsLives: a client that answers its pings stays connected. The test triggers the pings, as a client
// may answer late on a slow machine.
func TestWhoAnswersPingsLives(t *testing.T) {
	h := serving(t, Options{PingEvery: time.Hour}, readOn)
	alive := dial(t, h)
	conn := <-h.conns
	for range 10 {
		alive.pinged(conn)
		eventually(t, conn.heard.Load)
	}
	require.Equal(t, 1, h.Count())
	eventually(t, func() bool { // a client that is silent between two pings while the handler reads is disconnected
		conn.beat()
		return h.Count() == 0
	})
}

// TestWhoAnswersNoPingsIsEnded: a client that answers no pings is disconnected without a close frame.
func TestWhoAnswersNoPingsIsEnded(t *testing.T) {
	h := serving(t, Options{PingEvery: 20 * time.Millisecond}, readOn)
	dead := dial(t, h)
	for {
		op, _, err := dead.try()
		if err != nil {
			break
		}
		require.Equal(t, byte(opPing), op)
	}
	eventually(t, func() bool { return h.Count() == 0 })
}

// TestWhoTakesNothingIsEnded: a client that reads nothing is disconnected, even if it sends.
func TestWhoTakesNothingIsEnded(t *testing.T) {
	h := serving(t, Options{PingEvery: 50 * time.Millisecond}, func(c *Conn) {
		fill := NewFrame([]byte(strings.Repeat("x", 100_000)))
		for c.Answer(fill) == nil {
		}
	})
	dial(t, h)
	eventually(t, func() bool { return h.Count() == 0 })
}

// TestAClientIsNotEndedWhileItsRequestIsWorkedOn: a client stays connected while the handler works and reads no
// pongs.
func TestAClientIsNotEndedWhileItsRequestIsWorkedOn(t *testing.T) {
	reading, working := make(chan struct{}), make(chan struct{})
	h := serving(t, Options{PingEvery: time.Hour}, func(c *Conn) {
		text, err := c.Read()
		require.NoError(t, err)
		text = []byte(string(text))
		close(reading)
		<-working
		_ = c.Answer(NewFrame(text))
		readOn(c)
	})
	done := sync.OnceFunc(func() { close(working) })
	t.Cleanup(done) // runs before the server's Shutdown, which waits for the handler
	c := dial(t, h)
	c.text("a long one")
	conn := <-h.conns
	<-reading
	for range 20 {
		c.pinged(conn)
	}
	done()
	c.want("a long one")
}

func TestPingsComeOftenEnoughForTheIdleTimeout(t *testing.T) {
	idle := time.Hour
	c := newConn(NewServer(Options{IdleTimeout: func() time.Duration { return idle }}), "")
	require.Equal(t, 20*time.Second, c.pingEvery())
	idle = 6 * time.Second
	require.Equal(t, 3*time.Second, c.pingEvery())
	idle = 0
	require.Equal(t, 20*time.Second, c.pingEvery())
}

// TestAServerThatStopsAnswersWhatItHasRead: it then closes the connection with CodeGoingAway.
func TestAServerThatStopsAnswersWhatItHasRead(t *testing.T) {
	reading, working := make(chan struct{}), make(chan struct{})
	h := serving(t, Options{}, func(c *Conn) {
		_, err := c.Read()
		require.NoError(t, err)
		close(reading)
		<-working
		require.NoError(t, c.Answer(NewFrame([]byte("done"))))
		_, err = c.Read()
		require.NoError(t, err) // the message had arrived before the stop
		require.NoError(t, c.Answer(NewFrame([]byte("done too"))))
		_, err = c.Read()
		require.ErrorIs(t, err, ErrDraining)
	})
	c, idle := dial(t, h), make(chan error, 1)
	c.text("do")
	<-reading
	c.text("do too")
	go func() { idle <- h.Shutdown(context.Background()) }()
	eventually(t, func() bool {
		answer, _ := ask(t, h, request(h))
		return answer.StatusCode == 503
	})
	close(working)
	c.want("done")
	c.want("done too")
	require.Equal(t, "the server stops", c.wantClose(CodeGoingAway))
	require.NoError(t, <-idle)
	require.Zero(t, h.Count())
}

// TestOverTLSAllIsTheSame: over TLS the server's own origin has the scheme https, and a client that reads nothing
// does not delay the end of the connection.
func TestOverTLSAllIsTheSame(t *testing.T) {
	h := servingBy(t, Options{}, echo, (*httptest.Server).StartTLS)
	host := h.http.Listener.Addr().String()
	answer, _ := ask(t, h, request(h, "Origin", "http://"+host))
	require.Equal(t, 403, answer.StatusCode)
	answer, c := ask(t, h, request(h, "Origin", "https://"+host))
	require.Equal(t, 101, answer.StatusCode)
	c.text("hello")
	c.want("hello")
	hasty := servingBy(t, Options{CloseTimeout: 100 * time.Millisecond}, echo, (*httptest.Server).StartTLS)
	dial(t, hasty)
	conn := <-hasty.conns
	fill := NewFrame([]byte(strings.Repeat("x", 100_000)))
	for conn.Push(fill, nil, 0) {
		conn.Flush()
	}
	eventually(t, func() bool { return hasty.Count() == 0 })
	stopped := make(chan error, 1)
	go func() { stopped <- h.Shutdown(context.Background()) }()
	c.wantClose(CodeGoingAway)
	require.NoError(t, <-stopped)
}

// TestAStopDoesNotWaitForever: Shutdown aborts connections that do not end in time.
func TestAStopDoesNotWaitForever(t *testing.T) {
	h := serving(t, Options{}, func(c *Conn) {
		fill := NewFrame([]byte(strings.Repeat("x", 100_000)))
		for c.Answer(fill) == nil {
		}
	})
	dial(t, h)
	<-h.conns
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.Shutdown(ctx), context.DeadlineExceeded)
	require.Zero(t, h.Count())
}

// TestEndClosesThoseThatThereAre: End closes all connections after their queued frames. Later ones are accepted.
func TestEndClosesThoseThatThereAre(t *testing.T) {
	h := serving(t, Options{}, readOn)
	c := dial(t, h)
	conn := <-h.conns
	conn.Push(NewFrame([]byte("waits")), nil, 0)
	h.End(CodeGoingAway, "this node leads")
	c.want("waits")
	require.Equal(t, "this node leads", c.wantClose(CodeGoingAway))
	eventually(t, func() bool { return h.Count() == 0 })
	dial(t, h)
}

// TestACutDropsWhatWaits: a revoked token ends a connection before any further event is sent.
func TestACutDropsWhatWaits(t *testing.T) {
	h := serving(t, Options{}, readOn)
	c := dial(t, h)
	conn := <-h.conns
	conn.Push(NewFrame([]byte("never")), nil, 0)
	conn.Cut(CodeUnauthorized, "the token was revoked")
	conn.Close(CodeNormal, "no further call does anything")
	require.False(t, conn.Push(NewFrame([]byte("never")), nil, 0))
	require.Equal(t, "the token was revoked", c.wantClose(CodeUnauthorized))
}

// TestAHandlerIsToldWhenItsConnectionIsClosed: Read returns at once, not only when the client has read the close.
func TestAHandlerIsToldWhenItsConnectionIsClosed(t *testing.T) {
	ended := make(chan error, 1)
	h := serving(t, Options{CloseTimeout: patience}, func(c *Conn) {
		_, err := c.Read()
		ended <- err
	})
	c := dial(t, h)
	c.send(masked(bitFin|opText, []byte("half of it"))[:9]) // the first part of a frame
	conn := <-h.conns
	conn.Close(4000, "")
	require.ErrorIs(t, <-ended, ErrClosed)
	c.send(masked(bitFin|opText, []byte("half of it"))[9:])
	c.wantClose(4000)
}

// TestAConnectionThatIsAbortedBeforeItIsOpenIsServedAllTheSame: its handler is called nevertheless, so that it can
// release what open reserved.
func TestAConnectionThatIsAbortedBeforeItIsOpenIsServedAllTheSame(t *testing.T) {
	served := make(chan error, 1)
	h := serving(t, Options{}, readOn)
	h.http.Config.Handler = nil
	aborted := newConn(h.Server, "")
	aborted.Abort()
	aborted.attach(nil, nil)
	go func() {
		_, err := aborted.Read()
		served <- err
		aborted.finish()
	}()
	require.ErrorIs(t, <-served, ErrClosed)
}
