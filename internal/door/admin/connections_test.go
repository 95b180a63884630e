package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// site is a server with a bound on its connections.
type site struct {
	bound *Connections
	addr  string
	full  atomic.Int64
}

func serveBounded(t *testing.T, most int, o Options) *site {
	t.Helper()
	s := &site{}
	s.bound = NewConnections(most, func(net.Addr) { s.full.Add(1) })
	o.Connections = s.bound
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	server := NewServer(o)
	go func() { _ = server.Serve(s.bound.Listener(l)) }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

// visitor is a client that writes and reads HTTP by hand.
type visitor struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (s *site) visit(t *testing.T) *visitor {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return &visitor{c, t, bufio.NewReader(c)}
}

func (v *visitor) send(text string) *visitor {
	v.t.Helper()
	_, err := io.WriteString(v, text)
	require.NoError(v.t, err)
	return v
}

// get requests a path. It returns the status of the answer, and whether the server closes the connection.
func (v *visitor) get(path string) (status int, closes bool) {
	v.t.Helper()
	v.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	return v.answer()
}

func (v *visitor) answer() (status int, closes bool) {
	v.t.Helper()
	a, err := http.ReadResponse(v.r, nil)
	require.NoError(v.t, err)
	_, err = io.Copy(io.Discard, a.Body)
	require.NoError(v.t, err)
	return a.StatusCode, a.Close
}

// isClosed waits until the server has closed the connection.
func (v *visitor) isClosed() {
	v.t.Helper()
	_, err := v.r.ReadByte()
	require.Error(v.t, err)
	require.False(v.t, errors.Is(err, os.ErrDeadlineExceeded), "it is open")
}

func (s *site) has(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return s.bound.Count() == n }, time.Minute, time.Millisecond, "%d instead of %d",
		s.bound.Count(), n)
}

// TestIdleConnectionsGiveWay: of three connections the server closes the one that has waited longest for a request,
// whether the client has sent a request before, a part of one, or nothing.
func TestIdleConnectionsGiveWay(t *testing.T) {
	s := serveBounded(t, 3, options())
	kept, nothing, part := s.visit(t), s.visit(t), s.visit(t)
	s.has(t, 3)
	status, closes := kept.get("/healthz")
	require.Equal(t, http.StatusOK, status)
	require.False(t, closes)
	s.waitIdle(t)
	part.send("GET / HT")
	require.Zero(t, s.full.Load())
	for i, goes := range []*visitor{nothing, part, kept} {
		status, _ := s.visit(t).get("/")
		require.Equal(t, http.StatusOK, status)
		goes.isClosed()
		s.waitIdle(t)
		require.EqualValues(t, i+1, s.full.Load())
		require.Equal(t, 3, s.bound.Count())
	}
}

// waitIdle waits until no request is in progress, which the server notes after the client has read the answer.
func (s *site) waitIdle(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return s.busy() == 0 }, time.Minute, time.Millisecond)
}

// busy returns the number of connections with a request in progress.
func (s *site) busy() int {
	s.bound.mu.Lock()
	defer s.bound.mu.Unlock()
	return s.bound.served - s.bound.waiting.Len()
}

// hold opens n connections, each with a request in progress.
func hold(t *testing.T, s *site, n int) (all []*visitor) {
	for range n {
		all = append(all, s.visit(t).send("POST /xml HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n<c"))
	}
	require.Eventually(t, func() bool { return s.busy() == n }, time.Minute, time.Millisecond)
	return all
}

// TestOperatorsHaveRoomOfTheirOwn: when the maximum number of requests is in progress, health checks, metrics and
// operators' requests are answered, and all others are refused.
func TestOperatorsHaveRoomOfTheirOwn(t *testing.T) {
	o := options()
	o.Exchange, o.Status = func() Exchange { return &fakeExchange{} }, nil
	s := serveBounded(t, 3, o)
	held := hold(t, s, 3)
	for range OperatorConnectionsMax/5 + 1 { // in all more requests than operators have places
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/help": 503, "/": 503,
			"/debug/pprof/heap": 503, "/healthz/x": 503} {
			v := s.visit(t)
			status, closes := v.get(path)
			require.Equal(t, want, status, path)
			require.True(t, closes, "one request, and the place is free")
			v.isClosed()
		}
	}
	const announced = "POST /admin/halt?sym=A HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
	status, _ := s.visit(t).send(announced).answer()
	require.Equal(t, http.StatusOK, status, "also with a body that does not come")
	s.has(t, 3)

	// Clients that occupy these places and request nothing lose them.
	var idle []*visitor
	for range 2 * OperatorConnectionsMax {
		idle = append(idle, s.visit(t).send("GET /healthz HT"))
	}
	s.has(t, 3+OperatorConnectionsMax)
	status, _ = s.visit(t).get("/healthz")
	require.Equal(t, http.StatusOK, status)
	idle[0].isClosed()

	for _, v := range held { // the requests that were in progress are answered
		status, closes := v.send("reate/>").answer()
		require.Equal(t, http.StatusOK, status)
		require.False(t, closes)
	}
	status, closes := s.visit(t).get("/help")
	require.Equal(t, http.StatusOK, status, "all clients have room again")
	require.False(t, closes)
}

// TestOperatorsRoomIsBounded: if all connections beyond the bound have a request in progress, the next one is
// closed.
func TestOperatorsRoomIsBounded(t *testing.T) {
	o := options()
	begun, end := make(chan struct{}), make(chan struct{})
	o.Ready = func() error {
		begun <- struct{}{}
		<-end
		return nil
	}
	s := serveBounded(t, 1, o)
	hold(t, s, 1)
	var asking []*visitor
	for range OperatorConnectionsMax {
		asking = append(asking, s.visit(t).send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		<-begun
	}
	s.visit(t).isClosed()
	close(end)
	for _, v := range asking {
		status, _ := v.answer()
		require.Equal(t, http.StatusOK, status)
	}
	s.has(t, 1)
}

func TestTheBoundChangesWhileItHolds(t *testing.T) {
	s := serveBounded(t, 3, options())
	a, b, c := s.visit(t), s.visit(t), s.visit(t)
	s.has(t, 3)
	s.bound.SetMax(1)
	require.Equal(t, 1, s.bound.Max())
	for _, v := range []*visitor{a, b, c} {
		status, _ := v.get("/healthz")
		require.Equal(t, http.StatusOK, status, "it keeps its place")
		require.Eventually(t, func() bool { // so that the connections begin to wait in this order
			s.bound.mu.Lock()
			defer s.bound.mu.Unlock()
			return s.bound.waiting.Len() == 3
		}, time.Minute, time.Millisecond)
	}
	require.NoError(t, b.Close())
	s.has(t, 2)
	status, _ := s.visit(t).get("/healthz")
	require.Equal(t, http.StatusOK, status)
	a.isClosed()
}

// TestARefusedRequestClosesItsConnection: a client cannot keep connections open with requests that are refused.
func TestARefusedRequestClosesItsConnection(t *testing.T) {
	o, add, _ := guarded(t)
	o.Connections = nil
	token, _ := add("health")
	s := serveBounded(t, 10, o)
	basic := "Host: localhost\r\n"
	with := basic + "Authorization: Bearer " + token + "\r\n"
	for _, c := range []struct {
		request string
		status  int
	}{
		{"GET / HTTP/1.1\r\n" + basic, 401}, {"GET /metrics HTTP/1.1\r\n" + with, 403},
		{"GET / HTTP/1.1\r\nHost: evil.example\r\n", 403},
		{"POST / HTTP/1.1\r\n" + basic + "Content-Length: 1000\r\n", 401},
		{"GET / HTTP/1.1\r\n" + basic + "Authorization: Bearer x\r\n", 401},
	} {
		v := s.visit(t).send(c.request + "\r\n")
		status, closes := v.answer()
		require.Equal(t, c.status, status, c.request)
		require.True(t, closes, c.request)
		v.isClosed()
	}
	v := s.visit(t)
	status, closes := v.send("GET /healthz HTTP/1.1\r\n" + with + "\r\n").answer()
	require.Equal(t, http.StatusOK, status)
	require.False(t, closes)
	s.has(t, 1)
}

// TestWhatIsRefusedClosesAndNothingElse: of all statuses with which a handler may answer, only refusals close the
// connection.
func TestWhatIsRefusedClosesAndNothingElse(t *testing.T) {
	for status, closes := range map[int]string{200: "", 400: "", 404: "", 405: "", 408: "", 500: "",
		401: "close", 403: "close", 413: "close", 421: "close", 429: "close", 503: "close"} {
		answer := httptest.NewRecorder()
		withinBound(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })).
			ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
		require.Equal(t, closes, answer.Result().Header.Get("Connection"), "%d", status)
	}
}

// TestARequestIsOneRequest: requests that proxies and servers have parsed in two ways are refused, and the bytes after
// them are not executed as another request.
func TestARequestIsOneRequest(t *testing.T) {
	var done atomic.Int64
	o := options()
	o.Answer = telling(func(_ context.Context, _ []byte) ([]byte, error) {
		done.Add(1)
		return []byte("<results/>"), nil
	})
	s := serveBounded(t, 10, o)
	smuggled := "POST /xml HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n<create/>"
	for name, headers := range map[string]string{
		"two lengths":                    "Content-Length: 0\r\nContent-Length: 80\r\n",
		"a length that is a sum":         "Content-Length: +80\r\n",
		"an unknown coding":              "Transfer-Encoding: xchunked\r\n",
		"two codings":                    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
		"a blank before the colon":       "Transfer-Encoding : chunked\r\n",
		"a header that goes on":          "X: a\r\n Content-Length: 9\r\nContent-Length : 3\r\n",
		"a bare line feed in the length": "Content-Length: 1\n1\r\n",
	} {
		v := s.visit(t).send("POST /loglevel HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n0\r\n\r\n" + smuggled)
		status, closes := v.answer()
		require.GreaterOrEqual(t, status, 400, name)
		require.True(t, closes, name)
		v.isClosed()
	}
	// A request with both headers: the transfer coding counts, and the connection is closed after the request, so that
	// no proxy can disagree on where the next one begins.
	v := s.visit(t).send("PUT /loglevel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n4\r\nINFO\r\n0\r\n\r\n" + smuggled)
	_, err := io.Copy(io.Discard, v)
	if err != nil {
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "it is open")
	}
	require.Zero(t, done.Load(), "nothing was done that was no request")
}

// TestConnectionsThatComeAndGoLeaveNothing opens 10,000 connections that send nothing or break off.
func TestConnectionsThatComeAndGoLeaveNothing(t *testing.T) {
	s := serveBounded(t, 50, options())
	for i := range 10_000 {
		c, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		if i%3 == 1 {
			fmt.Fprint(c, strings.Repeat("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", i%5))
		}
		if i%3 == 2 {
			require.NoError(t, c.(*net.TCPConn).SetLinger(0)) // closing sends a reset
		}
		require.NoError(t, c.Close())
	}
	s.has(t, 0)
	status, _ := s.visit(t).get("/healthz")
	require.Equal(t, http.StatusOK, status)
}

// TestTheSendingSideEndsAlone: after CloseWrite the server still reads what the client sends, so that the client
// gets the answer and not a reset.
func TestTheSendingSideEndsAlone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := &site{bound: NewConnections(1, func(net.Addr) {}), addr: l.Addr().String()}
	v := s.visit(t)
	conn, err := s.bound.Listener(l).Accept()
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	_, err = v.r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	v.send("x")
	_, err = io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err)
}
