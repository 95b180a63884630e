package admin

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/exchange"
	"outcry/internal/testing/certtest"
)

// lines is a log in memory.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

// TestNobodyWritesLinesIntoTheLog: a client cannot add lines to the log by line feeds and escapes in a request,
// neither in the format for people nor in the format for machines.
func TestNobodyWritesLinesIntoTheLog(t *testing.T) {
	for name, newHandler := range map[string]func(*lines) slog.Handler{
		"time=":    func(l *lines) slog.Handler { return slog.NewTextHandler(l, nil) },
		`{"time":`: func(l *lines) slog.Handler { return slog.NewJSONHandler(l, nil) },
	} {
		o, add, _ := guarded(t)
		log := &lines{}
		o.Log = slog.New(newHandler(log))
		o.Exchange = func() Exchange { return &fakeExchange{halt: exchange.HaltResult{Changed: true}} }
		token, _ := add("admin")
		s := serveBounded(t, 20, o)
		const nasty = "x%0alevel=ERROR%20msg=forged%0d%0a%1b%5b31m%22%5c"
		with := "Host: localhost\r\nAuthorization: Bearer "
		for _, request := range []string{
			"POST /admin/halt?sym=A&reason=" + nasty + " HTTP/1.1\r\n" + with + token,
			"POST /admin/halt?sym=" + nasty + " HTTP/1.1\r\n" + with + token,
			"POST /admin/halt?sym=A&reason=\"level=ERROR HTTP/1.1\r\n" + with + token,
			"POST /admin/cancel-all?account=" + nasty + " HTTP/1.1\r\n" + with + token,
			"GET /" + nasty + " HTTP/1.1\r\n" + with + "x\x1b[31mforged",
			"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic eDoKbGV2ZWw9RVJST1I=",
			"GET / HTTP/1.1\r\nHost: a\x1b[31m\"forged",
			"PUT /loglevel HTTP/1.1\r\n" + with + token + "\r\nContent-Length: 5\r\n\r\nA\nB\x1bC",
			"\x16\x03\x01\x1b[31m",
		} {
			v := s.visit(t).send(request + "\r\n\r\n")
			_, _ = http.ReadResponse(v.r, nil) // the test accepts any answer, and also no answer
			require.NoError(t, v.Close())
		}
		s.has(t, 0)
		found := log.all()
		require.Greater(t, len(found), 1, "something was logged")
		for _, line := range found {
			require.True(t, strings.HasPrefix(line, name), "%q", line)
			require.NotContains(t, line, "\x1b")
			require.NotContains(t, line, "\r")
			require.NotContains(t, line, token)
		}
	}
}

// TestHandshakesThatNeverEndGiveWay: TLS handshakes that never end lose their places to other connections. HTTP/2
// is not offered, because one connection could then make hundreds of requests, and reset them as fast as it makes
// them.
func TestHandshakesThatNeverEndGiveWay(t *testing.T) {
	authority := certtest.NewAuthority(t)
	own := authority.Server("server")
	certificates, err := auth.LoadCertificates(own.CertFile, own.KeyFile, "", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	o := options()
	s := &site{bound: NewConnections(5, func(net.Addr) {})}
	o.Connections = s.bound
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	server := NewServer(o)
	server.TLSConfig = certificates.Config()
	go func() { _ = server.ServeTLS(s.bound.Listener(l), "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	for i := range 200 {
		v := s.visit(t)
		if i%2 == 0 {
			_, _ = v.Write([]byte{22, 3, 1, 0})
		}
	}
	require.LessOrEqual(t, s.bound.Count(), 5)
	config := &tls.Config{RootCAs: authority.Pool, NextProtos: []string{"h2", "http/1.1"}}
	conn, err := tls.Dial("tcp", s.addr, config)
	require.NoError(t, err)
	defer conn.Close()
	require.Equal(t, "http/1.1", conn.ConnectionState().NegotiatedProtocol)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	for range 3 { // the later requests reuse an idle connection, which the server knows by the connection below TLS
		response, err := client.Get("https://" + s.addr + "/healthz")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 1, response.ProtoMajor)
	}
}

// TestARevokedTokenOpensNothingOnAConnectionThatIsKept: the token of each request is checked.
func TestARevokedTokenOpensNothingOnAConnectionThatIsKept(t *testing.T) {
	o, add, revoke := guarded(t)
	token, id := add("health")
	s := serveBounded(t, 5, o)
	v := s.visit(t)
	ask := "GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	status, closes := v.send(ask).answer()
	require.Equal(t, http.StatusOK, status)
	require.False(t, closes)
	revoke(id)
	status, closes = v.send(ask).answer()
	require.Equal(t, http.StatusUnauthorized, status)
	require.True(t, closes)
	v.isClosed()
}
