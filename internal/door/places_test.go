package door

import (
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// silent connects and sends nothing. The connection is closed when the test ends.
func silent(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// counts returns the number of sessions with a place, and how many of them have not authenticated.
func (s *Server) counts() (served, unproved int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served, s.unproved.Len()
}

// TestAFloodOfHandshakesShutsNobodyOut opens 2,000 connections that never finish their handshake. They must
// never exceed the limit of connections, and each client that finishes its handshake gets a place and keeps
// it.
func TestAFloodOfHandshakesShutsNobodyOut(t *testing.T) {
	const most = 20
	l := listen(t)
	server, config, _ := secured(t, false)
	s := start(t, l, newFake(), Options{TLS: server, ConnectionsMax: most})
	before := dialTLS(t, l, config)
	before.send(query(1))
	require.Equal(t, answer(1), before.reply())
	for i := range 2000 {
		c := silent(t, l)
		if i%2 == 1 {
			_, _ = c.Write([]byte{22, 3, 1, 0}) // a part of a handshake; the connection may already be closed
		}
		if i%500 == 0 {
			c := dialTLS(t, l, config)
			c.send(query(2))
			require.Equal(t, answer(2), c.reply())
			defer func() {
				c.send(query(3))
				require.Equal(t, answer(3), c.reply(), "the connection has kept its place")
			}()
		}
		served, _ := s.counts()
		require.LessOrEqual(t, served, most)
	}
	before.send(query(1))
	require.Equal(t, answer(1), before.reply())
	eventually(t, func() bool { return testutil.ToFloat64(s.options.Metrics.connections) == most })
	served, unproved := s.counts()
	require.Equal(t, most, served)
	require.Equal(t, most-5, unproved)
}

// A connection that is closed to make room does not count as one with a wrong token.
func TestThoseWithoutATokenGiveWayToThoseWithOne(t *testing.T) {
	l, keys := listen(t), newKeyring(t)
	token, _ := keys.add("account:1", time.Time{})
	other, _ := keys.add("account:2", time.Time{})
	s := start(t, l, newFake(), Options{Tokens: keys.tokens, ConnectionsMax: 3})
	first := silent(t, l)
	for range 100 {
		silent(t, l)
	}
	_, err := io.ReadAll(first)
	require.NoError(t, err, "the oldest connection was closed")
	for _, token := range []string{token, other, token} {
		c := dial(t, l)
		c.send(authFrame(token))
		require.NotContains(t, c.reply(), "<error")
	}
	served, unproved := s.counts()
	require.Equal(t, 3, served)
	require.Zero(t, unproved)
	// while many displaced connections are not yet closed, one more is closed without a message
	eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sessions) == served
	})
	dial(t, l).isLast("the exchange has 3 connections and accepts no more; try again later")
	require.Zero(t, testutil.ToFloat64(s.options.Metrics.authRefused))
}

// One token cannot use the last places. When a connection of a token ends, the token may use its place again.
func TestATokenShutsNobodyElseOut(t *testing.T) {
	const most, share = 24, 21
	l, keys := listen(t), newKeyring(t)
	greedy, _ := keys.add("account:1", time.Time{})
	other, _ := keys.add("account:2", time.Time{})
	s := start(t, l, newFake(), Options{Tokens: keys.tokens, ConnectionsMax: most})
	enter := func(token string) *client {
		c := dial(t, l)
		c.send(authFrame(token))
		require.NotContains(t, c.reply(), "<error")
		return c
	}
	first := enter(greedy)
	for range share - 1 {
		enter(greedy)
	}
	for range most {
		c := dial(t, l)
		c.send(authFrame(greedy))
		c.isLast("the token has 21 connections and is allowed no more; try again later")
	}
	for range most - share {
		enter(other)
	}
	require.NoError(t, first.Conn.Close())
	eventually(t, func() bool { served, _ := s.counts(); return served == most-1 })
	enter(greedy)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.bearers, 2)
}

// Connections begin and end; start asserts at the end that no session is left and no memory is held.
func TestConnectionsThatComeAndGoLeaveNothing(t *testing.T) {
	l := listen(t)
	s := start(t, l, newFake(), Options{ConnectionsMax: 50})
	for i := range 10_000 {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		switch i % 3 {
		case 1:
			_, _ = io.WriteString(c, query(1)[:i%10])
		case 2:
			require.NoError(t, c.(*net.TCPConn).SetLinger(0)) // sends a reset
		}
		require.NoError(t, c.Close())
	}
	eventually(t, func() bool { // the last connections may still fill the server
		c := dial(t, l)
		defer c.Close()
		_, _ = io.WriteString(c, query(1))
		line, err := c.in.ReadString('\n')
		reply := make([]byte, len(answer(1)))
		_, broken := io.ReadFull(c.in, reply)
		return errors.Join(err, broken) == nil && line == strconv.Itoa(len(reply))+"\n" && string(reply) == answer(1)
	})
	eventually(t, func() bool {
		served, _ := s.counts()
		s.mu.Lock()
		defer s.mu.Unlock()
		return served == 0 && len(s.sessions) == 0
	})
}
