package door

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// If a slowed-down client disconnects, its place is free at once, not after a minute, which is longer than
// patience.
func TestAClientThatHasGoneIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(c *client){
		"closed": func(c *client) { c.Close() },
		"half-closed": func(c *client) {
			require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
			c.ends()
		},
		"reset, with frames unread": func(c *client) {
			c.send(query(1))
			require.NoError(t, c.Conn.(*net.TCPConn).SetLinger(0))
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			s := start(t, l, newFake(), Options{BatchFramesMax: 1})
			s.SetRates(1, 0)
			c := dial(t, l)
			c.send(ordering("1", 10_000))
			c.reply()
			leave(c)
			eventually(t, func() bool { return s.count() == 0 })
		})
	}
}

// A client that closes only its sending side is slowed down and answered like any other.
func TestAClientThatOnlyEndsItsSendingIsAnswered(t *testing.T) {
	t.Parallel()
	l := listen(t)
	start(t, l, newFake(), Options{BatchFramesMax: 1}).SetRates(5, 0)
	c := dial(t, l)
	const frames = 13
	for range frames {
		c.send(query(1))
	}
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	for range frames {
		require.Equal(t, answer(1), c.reply())
	}
	c.ends()
}

// If a slowed-down TLS client resets its connection, its place is free, although the server may not have read all
// that the client sent.
func TestAClientThatResetsOverTLSIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	l := listen(t)
	server, config, _ := secured(t, false)
	s := start(t, l, newFake(), Options{TLS: server})
	s.SetRates(1, 0)
	c := dialTLS(t, l, config)
	c.send(ordering("1", 10_000))
	c.reply()
	require.NoError(t, c.Conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0))
	require.NoError(t, c.Conn.(*tls.Conn).NetConn().Close())
	eventually(t, func() bool { return s.count() == 0 })
}

func TestALookReadsNothing(t *testing.T) {
	l := listen(t)
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	server, err := l.Accept()
	require.NoError(t, err)
	defer server.Close()
	require.NoError(t, peerError(server))
	_, err = io.WriteString(client, "x")
	require.NoError(t, err)
	require.NoError(t, client.(*net.TCPConn).CloseWrite())
	var one [1]byte
	_, err = io.ReadFull(server, one[:])
	require.NoError(t, err)
	eventually(t, func() bool { return peerError(server) == io.EOF })
	_, err = io.WriteString(server, "y") // the peer is gone
	require.NoError(t, err)
	require.NoError(t, client.(*net.TCPConn).SetLinger(0))
	client.Close()
	eventually(t, func() bool { return peerError(server) == syscall.ECONNRESET })
	server.Close()
	require.ErrorIs(t, peerError(server), net.ErrClosed)
}
