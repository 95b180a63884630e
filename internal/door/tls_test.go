package door

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/testing/certtest"
)

// secured returns TLS configurations for a server and its clients.
func secured(t testing.TB, clientCA bool) (server, client *tls.Config, authority *certtest.Authority) {
	t.Helper()
	authority = certtest.NewAuthority(t)
	own, ca := authority.Server("server"), ""
	if clientCA {
		ca = authority.File
	}
	certificates, err := auth.LoadCertificates(own.CertFile, own.KeyFile, ca, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return certificates.Config(), &tls.Config{RootCAs: authority.Pool}, authority
}

// dialTLS connects over TLS.
func dialTLS(t testing.TB, l net.Listener, config *tls.Config) *client {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", l.Addr().String(), config)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return newClient(t, conn)
}

func TestFramesAndHalfCloseOverTLS(t *testing.T) {
	l := listen(t)
	server, config, _ := secured(t, false)
	start(t, l, newFake(), Options{TLS: server})
	c := dialTLS(t, l, config)
	c.send(query(1), query(2))
	require.NoError(t, c.Conn.(*tls.Conn).CloseWrite())
	require.Equal(t, answer(1), c.reply())
	require.Equal(t, answer(2), c.reply())
	c.ends()
}

func TestTheReasonArrivesOverTLSAlthoughTheClientStillSends(t *testing.T) {
	l := listen(t)
	server, config, _ := secured(t, false)
	start(t, l, newFake(), Options{TLS: server, FrameBytesMax: 1000, LingerTimeout: patience})
	c := dialTLS(t, l, config)
	c.send("4000000\n", strings.Repeat(" ", 4_000_000))
	require.NoError(t, c.Conn.(*tls.Conn).CloseWrite())
	c.isLast("a frame of 4000000 bytes is over the limit of 1000")
}

func TestDeadlinesHoldOverTLS(t *testing.T) {
	l := listen(t)
	server, config, _ := secured(t, false)
	s := start(t, l, newFake(), Options{TLS: server})
	c := dialTLS(t, l, config)
	c.send(query(1))
	require.Equal(t, answer(1), c.reply())
	s.SetLimits(limitsOf(func(l *Limits) { l.IdleTimeout = 50 * time.Millisecond }))
	c.isLast("nothing was sent for 50ms")
	require.Equal(t, 1.0, s.hits(limitIdle))
}

// A client that does not use TLS gets an error that says so, and nothing it sent is executed.
func TestAPlainClientIsToldToSpeakTLS(t *testing.T) {
	l, x := listen(t), newFake()
	server, _, _ := secured(t, false)
	s := start(t, l, x, Options{TLS: server})
	c := dial(t, l)
	_, err := io.WriteString(c, query(1))
	require.NoError(t, err)
	c.isLast("this port speaks TLS; connect again with it")
	require.Zero(t, x.executed())
	eventually(t, func() bool { return testutil.ToFloat64(s.options.Metrics.handshakeFailures) == 1 })
}

func TestOldTLSAndWrongCertificatesGetNothing(t *testing.T) {
	l, x := listen(t), newFake()
	server, config, authority := secured(t, true)
	start(t, l, x, Options{TLS: server})
	for name, change := range map[string]func(*tls.Config){
		"TLS 1.0":                 func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 },
		"TLS 1.1":                 func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 },
		"no certificate":          func(c *tls.Config) { c.Certificates = nil },
		"no certificate, TLS 1.2": func(c *tls.Config) { c.Certificates, c.MaxVersion = nil, tls.VersionTLS12 },
		"another's certificate": func(c *tls.Config) {
			c.Certificates = []tls.Certificate{certtest.NewAuthority(t).Client("mallory").Certificate}
		},
	} {
		config := config.Clone()
		config.Certificates = []tls.Certificate{authority.Client("alice").Certificate}
		change(config)
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", l.Addr().String(), config)
		if err == nil { // with TLS 1.3 the client's handshake ends before the server has checked its certificate
			_, _ = io.WriteString(conn, query(1))
			rest, err := io.ReadAll(conn)
			require.Error(t, err, name)
			require.Empty(t, string(rest), name)
			conn.Close()
		}
	}
	require.Zero(t, x.executed())
	config.Certificates = []tls.Certificate{authority.Client("alice").Certificate}
	c := dialTLS(t, l, config)
	c.send(query(1))
	require.Equal(t, answer(1), c.reply())
}

func TestAHandshakeCountsAsAConnectionAndEndsWithTheServer(t *testing.T) {
	l := listen(t)
	server, config, _ := secured(t, false)
	s := New(newFake(), Options{TLS: server, ConnectionsMax: 1})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, xmlCodec) }()
	displaced := dial(t, l)
	eventually(t, func() bool { return s.count() == 1 })
	c := dialTLS(t, l, config)
	c.send(query(1))
	require.Equal(t, answer(1), c.reply())
	refused := dialTLS(t, l, config)
	refused.isLast("the exchange has 1 connections and accepts no more; try again later")
	_, _ = io.ReadAll(displaced.in)
	c.Close()
	eventually(t, func() bool { return s.count() == 0 })
	silent := dial(t, l)
	eventually(t, func() bool { return s.count() == 1 })
	begun := time.Now()
	require.NoError(t, s.Shutdown(context.Background()))
	require.NoError(t, <-served)
	require.Less(t, time.Since(begun), handshakeTimeout, "the shutdown ends the handshake")
	_, _ = io.ReadAll(silent.in)
}

func TestATokenOverTLS(t *testing.T) {
	l, k := listen(t), newKeyring(t)
	server, config, _ := secured(t, false)
	token, id := k.add("account:1", time.Time{})
	start(t, l, newFake(), Options{TLS: server, Tokens: k.tokens})
	c := dialTLS(t, l, config)
	c.send(authFrame(token), query(1))
	require.Equal(t, taken, c.reply())
	require.Equal(t, answer(1), c.reply())
	k.revoke(id)
	c.isLast("the token was revoked; nothing that was sent after the last reply was done")
}
