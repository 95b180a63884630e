package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/certtest"
)

// playing is a fake exchange. It calls do for each connection, and then reads until the client closes, so that
// everything that do has written arrives. It returns the address.
func playing(t *testing.T, do func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				do(conn)
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// answering returns a function for playing that reads a frame and replies with an error.
func answering(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := wire.NewFrameReader(conn, 1<<20).Next(); err == nil {
			_, _ = conn.Write(wire.AppendFrame(nil, wire.AppendError(nil, text)))
		}
	}
}

// shaking returns a function for playing that does a TLS handshake.
func shaking(config *tls.Config) func(net.Conn) {
	return func(conn net.Conn) { _ = tls.Server(conn, config).Handshake() }
}

// TestTheExitStatusTellsWhetherATryMayHelp: if no connection can be made, status 3 means that a retry may help, and
// status 1 that it will not.
func TestTheExitStatusTellsWhetherATryMayHelp(t *testing.T) {
	authority, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	own, err := tls.LoadX509KeyPair(authority.Server("server").CertFile, authority.Server("server").KeyFile)
	require.NoError(t, err)
	secret := "outc_" + strings.Repeat("0", 16) + "_" + strings.Repeat("0", 64)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(secret), 0o600))
	frame := filepath.Join(t.TempDir(), "frame.xml")
	require.NoError(t, os.WriteFile(frame, []byte(`<create/>`), 0o600))
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())
	hangUp := func(conn net.Conn) {}
	wait := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	for _, of := range []struct {
		name   string
		play   func(net.Conn)
		flags  string
		stderr string
		status int
	}{
		{"nobody is there", nil, "", "is the exchange running? client: dial", cli.ExitNoAnswer},
		{"an end in the handshake", hangUp, "--tls-ca=CA", "EOF", cli.ExitNoAnswer},
		{"no handshake in time", wait, "--timeout=300ms --tls-ca=CA", "deadline exceeded", cli.ExitNoAnswer},
		{"an end before the answer to the token", hangUp, "--token-file=TOKEN", "EOF", cli.ExitNoAnswer},
		{"no answer to the token in time", wait, "--timeout=300ms --token-file=TOKEN", "deadline exceeded", cli.ExitNoAnswer},
		{"too many connections",
			answering("the exchange has 2 connections and accepts no more; try again later (connection 3)"),
			"--token-file=TOKEN", "the exchange closed the connection: the exchange has 2", cli.ExitNoAnswer},
		{"a bad token", answering(wire.TextUnauthorized + " (connection 3)"), "--token-file=TOKEN", "the token is refused: ",
			cli.ExitError},
		{"no TLS where a token is asked for", answering(wire.TextNeedsTLS + " (connection 3)"), "--token-file=TOKEN",
			"speaks TLS", cli.ExitError},
		{"no port", nil, "--addr=localhost:", "--addr: the port after the colon is missing", cli.ExitUsage},
		{"no TLS", func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") },
			"--tls-ca=CA", "does not look like a TLS handshake", cli.ExitError},
		{"an unknown authority", shaking(&tls.Config{Certificates: []tls.Certificate{own}}), "--tls-ca=OTHER",
			"unknown authority", cli.ExitError},
		{"a missing certificate",
			shaking(&tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert}),
			"--tls-ca=CA --token-file=TOKEN", "certificate required", cli.ExitError},
		{"a missing certificate in TLS 1.2",
			shaking(&tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert,
				MaxVersion: tls.VersionTLS12}), "--tls-ca=CA", "remote error: tls: ", cli.ExitError},
	} {
		addr := nobody.Addr().String()
		if of.play != nil {
			addr = playing(t, of.play)
		}
		flags := strings.NewReplacer("CA", authority.File, "OTHER", other.File, "TOKEN", token).Replace(of.flags)
		for _, line := range []string{"buy --ref r 1 SPY 1 1", "send " + frame} {
			args := append([]string{"--addr=" + addr}, strings.Fields(flags+" "+line)...)
			got, stderr, status := outcry("", args...)
			require.Equal(t, of.status, status, "%s: %s: %s", of.name, line, stderr)
			require.Empty(t, got, of.name)
			require.Contains(t, stderr, of.stderr, of.name)
			require.NotContains(t, stderr, secret, of.name)
			require.Equal(t, of.name == "nobody is there", strings.Contains(stderr, "is the exchange running?"), of.name)
		}
	}
	addr := playing(t, answering(wire.TextNeedsTLS+" (connection 3)"))
	got, stderr, status := outcry("", "--addr="+addr, "buy", "--ref=r", "1", "SPY", "1", "1")
	require.Equal(t, []any{"", cli.ExitError}, []any{got, status})
	require.Contains(t, stderr, "connect with --tls-ca")
	err = unsent(fmt.Errorf("client: %w", api.ErrInsecureToken))
	require.False(t, errors.As(err, new(*cli.NoAnswerError)), "the token goes to another machine")
}

// TestAFileWithoutAnAnswerMayHaveBeenDone: no matter how the reply is lost, the error says that the file may have been
// executed.
func TestAFileWithoutAnAnswerMayHaveBeenDone(t *testing.T) {
	taking := func(then func(net.Conn)) func(net.Conn) {
		return func(conn net.Conn) {
			if _, err := wire.NewFrameReader(conn, 1<<20).Next(); err == nil {
				then(conn)
			}
		}
	}
	for name, of := range map[string]struct {
		play   func(net.Conn)
		stderr string
	}{
		"the connection ends": {taking(func(net.Conn) {}), "closed the connection without an answer"},
		"it breaks in the answer": {taking(func(conn net.Conn) { _, _ = io.WriteString(conn, "40\n<results>") }),
			"unexpected EOF"},
		"no answer in time": {taking(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }), "i/o timeout"},
	} {
		got, stderr, status := outcry(`<transactions id="1"><order sym="SPY" amount="1" limit="1" ref="r"/></transactions>`,
			"--addr="+playing(t, of.play), "--timeout=300ms", "send", "-")
		require.Equal(t, cli.ExitNoAnswer, status, name)
		require.Empty(t, got, name)
		require.Contains(t, stderr, "outcry: whether the file was executed is unknown: ", name)
		require.Contains(t, stderr, of.stderr, name)
	}
}
