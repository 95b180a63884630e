package door

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// shutDown starts a shutdown in the background and returns the channel for its error.
func shutDown(ctx context.Context, s *Server) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx) }()
	return done
}

func TestShutdownAnswersTheFramesThatAreIn(t *testing.T) {
	l, x := listen(t), newFake()
	x.held = true
	s := start(t, l, x, Options{BatchFramesMax: 1})
	c := dial(t, l)
	c.send(query(1), query(2), query(3))
	eventually(t, func() bool { return x.executed() == 3 })
	done := shutDown(t.Context(), s)
	eventually(t, func() bool { // no further client is accepted
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	x.set(func() { x.held = false })
	for order := 1; order <= 3; order++ {
		require.Equal(t, answer(order), c.reply())
	}
	require.Equal(t, errorReply(textDraining), c.reply())
	c.ends()
	require.NoError(t, c.Close())
	require.NoError(t, <-done)
	require.Equal(t, 3, x.executed())
}

func TestShutdownReadsWhatHasArrived(t *testing.T) {
	l, x := listen(t), newFake()
	x.held = true
	s := start(t, l, x, Options{BatchFramesMax: 1, UnsentRepliesMax: 1})
	c := dial(t, l)
	for order := 1; order <= 20; order++ {
		c.send(query(order))
	}
	eventually(t, func() bool { return x.executed() == 2 }) // the rest is in the kernel's buffers
	done := shutDown(t.Context(), s)
	eventually(t, s.isDraining)
	x.set(func() { x.held = false })
	for order := 1; order <= 20; order++ {
		require.Equal(t, answer(order), c.reply())
	}
	c.isLast(textDraining)
	require.NoError(t, c.Close())
	require.NoError(t, <-done)
}

func TestShutdownEndsClientsThatNeverPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := start(t, p, newFake(), Options{})
		c := connect(t, p)
		c.drip(strings.Repeat(query(1), 1000), time.Millisecond)
		require.Equal(t, answer(1), c.reply())
		begun := time.Now()
		done := shutDown(t.Context(), s)
		last := c.reply()
		for last == answer(1) {
			last = c.reply()
		}
		require.Equal(t, errorReply(textDraining), last)
		require.NoError(t, <-done)
		require.LessOrEqual(t, time.Since(begun), 2*drainGrace+time.Second, "drainGrace and LingerTimeout bound the shutdown")
	})
}

func TestShutdownEndsIdleConnections(t *testing.T) {
	l := listen(t)
	s := start(t, l, newFake(), Options{})
	clients := make([]*client, 100)
	for i := range clients {
		clients[i] = dial(t, l)
	}
	eventually(t, func() bool { return s.count() == len(clients) })
	done := shutDown(t.Context(), s)
	for _, c := range clients {
		c.isLast(textDraining)
		require.NoError(t, c.Close())
	}
	require.NoError(t, <-done)
	require.Zero(t, s.count())
}

func TestAnImpatientShutdownCutsOff(t *testing.T) {
	l, x := listen(t), newFake()
	x.held = true
	s := start(t, l, x, Options{})
	c, idle := dial(t, l), dial(t, l)
	c.send(query(1))
	eventually(t, func() bool { return x.executed() == 1 && s.count() == 2 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
	require.Zero(t, s.count(), "all sessions have ended")
	for _, c := range []*client{c, idle} {
		rest, _ := io.ReadAll(c.in) // the connection may end with a reset
		require.NotContains(t, string(rest), "status", "no reply is sent that is not durable")
	}
}

func TestShutdownTwiceIsFine(t *testing.T) {
	l := listen(t)
	s := start(t, l, newFake(), Options{})
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, s.Shutdown(t.Context()))
}

func TestServeAfterShutdownEndsAtOnce(t *testing.T) {
	l := listen(t)
	s := New(newFake(), Options{})
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, s.Serve(l, xmlCodec))
	_, err := l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestServeTellsWhenItsListenerWasClosed(t *testing.T) {
	l := listen(t)
	s := New(newFake(), Options{})
	require.NoError(t, l.Close())
	require.ErrorIs(t, s.Serve(l, xmlCodec), net.ErrClosed)
	require.NoError(t, s.Shutdown(t.Context()))
}

// stubborn is a listener whose Accept fails as if there were no free file descriptors.
type stubborn struct {
	*pipes
	failures int // number of further failures of Accept
	between  int // number of failures after each connection
}

var errTooManyFiles = errors.New("accept: too many open files")

func (l *stubborn) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, errTooManyFiles
	}
	l.failures = l.between
	return l.pipes.Accept()
}

func TestErrorsOfAcceptAreWaitedOutAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &stubborn{newPipes(), 20, 0}
		begun := time.Now()
		s := start(t, l, newFake(), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		c := connect(t, l.pipes)
		require.Equal(t, 13*time.Second+275*time.Millisecond, time.Since(begun), "waits of 5 ms, doubled up to a second")
		c.send(query(1))
		require.Equal(t, answer(1), c.reply())
		require.Equal(t, 1, strings.Count(log.String(), errTooManyFiles.Error()), log.String())
		require.Equal(t, 20.0, testutil.ToFloat64(s.options.Metrics.acceptErrors))
	})
}

func TestASpellOfErrorsOfAcceptIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &stubborn{newPipes(), 1, 3}
		start(t, l, newFake(), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for spell := 1; spell <= 3; spell++ {
			for range 20 { // each connection that ends makes room for another
				connect(t, l.pipes).Close()
				time.Sleep(5 * time.Second)
			}
			require.Equal(t, spell, strings.Count(log.String(), errTooManyFiles.Error()), log.String())
			time.Sleep(acceptSpell)
		}
	})
}

func TestShutdownEndsTheWaitForAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &stubborn{newPipes(), 20, 0}
		s := New(newFake(), Options{})
		served := make(chan error)
		go func() { served <- s.Serve(l, xmlCodec) }()
		time.Sleep(10 * time.Second)
		begun := time.Now()
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-served)
		require.Equal(t, begun, time.Now())
	})
}
