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
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const announced = "POST /xml HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n<create>"

// rawClient is a connection on which a test writes and reads HTTP by hand.
type rawClient struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func rawDial(t *testing.T, address string) *rawClient {
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return &rawClient{t, conn, bufio.NewReader(conn)}
}

func (c *rawClient) send(text string) {
	_, err := io.WriteString(c, text)
	require.NoError(c.t, err)
}

// answer reads an answer and returns its status and body.
func (c *rawClient) answer() (int, string) {
	response, err := http.ReadResponse(c.in, nil)
	require.NoError(c.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	return response.StatusCode, string(text)
}

// counted returns options with a counter of the bodies that the server has begun to read.
func counted(o Options) (Options, *atomic.Int64) {
	n := new(atomic.Int64)
	started := o.Started
	o.Started = func() error { n.Add(1); return started() }
	return o, n
}

func TestBodiesThatDoNotArriveHoldUpNobody(t *testing.T) {
	o, begun := counted(options())
	s := serve(t, o)
	var stuck []*rawClient
	const many = 300
	for range many {
		c := rawDial(t, s.Listener.Addr().String())
		c.send(announced)
		stuck = append(stuck, c)
	}
	require.Eventually(t, func() bool { return begun.Load() == many }, time.Minute, time.Millisecond)
	for _, body := range []string{"<create/>", strings.Repeat("x", 1000)} {
		response, got := do(t, s, "POST", "/xml", body)
		require.Equal(t, http.StatusOK, response.StatusCode, got)
	}
	stuck[0].send(strings.Repeat("x", 92))
	code, _ := stuck[0].answer()
	require.Equal(t, http.StatusOK, code)
}

func TestABodyTooManyCutsOffTheOneThatBeganFirst(t *testing.T) {
	o, begun := counted(options())
	s := serve(t, o)
	var stuck []*rawClient
	for i := range bodiesMax {
		c := rawDial(t, s.Listener.Addr().String())
		c.send(announced)
		stuck = append(stuck, c)
		if i == 0 {
			require.Eventually(t, func() bool { return begun.Load() == 1 }, time.Minute, time.Millisecond)
		}
	}
	require.Eventually(t, func() bool { return begun.Load() == bodiesMax }, time.Minute, time.Millisecond)
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		_, _ = stuck[0].in.Peek(1)
	}()
	require.Eventually(t, func() bool { // the last body may have begun and not be counted yet
		response, got := do(t, s, "POST", "/xml", "<create/>")
		require.Equal(t, http.StatusOK, response.StatusCode, got)
		select {
		case <-cut:
			return true
		default:
			return false
		}
	}, time.Minute, time.Millisecond)
	code, text := stuck[0].answer()
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "<results><error>the body did not arrive: too many other bodies are arriving, and this one started "+
		"first</error></results>", text)
}

// TestABodyThatHasArrivedMakesNoRoomForOthers: a body that has arrived is no longer cut off to make room, and its
// client's connection stays open.
func TestABodyThatHasArrivedMakesNoRoomForOthers(t *testing.T) {
	s := serve(t, options())
	first, other := rawDial(t, s.Listener.Addr().String()), rawDial(t, s.Listener.Addr().String())
	post := func(c *rawClient) {
		c.send("POST /xml HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n<create/>")
		code, text := c.answer()
		require.Equal(t, http.StatusOK, code, text)
	}
	post(first)
	for range bodiesMax {
		post(other)
	}
	post(first)
}

// pipeListener is a listener without a network, for tests with a fake clock.
type pipeListener struct {
	conns  chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error { p.close(); return nil }

func (p *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func TestABodyHasItsTimeAndTheFrameAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.Answer = telling(func(ctx context.Context, xml []byte) ([]byte, error) {
			select {
			case <-time.After(80 * time.Second): // longer than a request may take to arrive
				return []byte("<results/>"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		l := &pipeListener{conns: make(chan net.Conn)}
		l.closed, l.close = context.WithCancel(t.Context())
		s := NewServer(o)
		go func() { _ = s.Serve(l) }()
		defer s.Close()
		for _, test := range []struct {
			begin, rest string
			code        int
			took        time.Duration
		}{
			{strings.Replace(announced, "POST /xml", "PUT /loglevel", 1), "", http.StatusBadRequest,
				requestBodyTimeout + restTimeout},
			{announced, "", http.StatusRequestTimeout, bodyTimeout + restTimeout}, // net/http waits for the rest first
			{announced, strings.Repeat("x", 92), http.StatusOK, 80 * time.Second},
		} {
			ours, theirs := net.Pipe()
			l.conns <- theirs
			c := &rawClient{t, ours, bufio.NewReader(ours)}
			begun := time.Now()
			c.send(test.begin)
			if test.rest != "" {
				c.send(test.rest)
			}
			code, text := c.answer()
			require.Equal(t, test.code, code, text)
			require.Equal(t, test.took, time.Since(begun))
			require.NoError(t, ours.Close())
		}
	})
}

func TestBodiesInEveryForm(t *testing.T) {
	s := serve(t, options())
	const head = "POST /xml HTTP/1.1\r\nHost: localhost\r\n"
	for name, test := range map[string]struct{ send, want string }{
		"in chunks": {head + "Transfer-Encoding: chunked\r\n\r\n4\r\n<cre\r\n5\r\nate/>\r\n0\r\n\r\n",
			"200 <results><create/></results>"},
		"in chunks, too large": {head + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat("x", 1001) +
			"\r\n0\r\n\r\n", "413 <results><error>a frame is over the limit of 1000 bytes</error></results>"},
		"in chunks that break off": {head + "Transfer-Encoding: chunked\r\n\r\n4\r\n<creXX",
			"400 <results><error>the body did not arrive: "},
		"of two lengths": {head + "Content-Length: 9\r\nContent-Length: 8\r\n\r\n<create/>", "400 "},
		"of a length and in chunks": {head + "Content-Length: 4\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n9\r\n<create/>\r\n0\r\n\r\n", "200 <results><create/></results>"},
		"after 100 Continue": {head + "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n<create/>",
			"100  200 <results><create/></results>"},
		"too large, and not even sent": {head + "Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n",
			"413 <results><error>a frame is over the limit of 1000 bytes</error></results>"},
		"of a length that no number has": {head + "Content-Length: 99999999999999999999\r\n\r\n", "400 "},
		"of a length over all, announced": {head + "Content-Length: 9999999999\r\n\r\n<create/>",
			"413 <results><error>a frame is over the limit of 1000 bytes</error></results>"},
	} {
		t.Run(name, func(t *testing.T) {
			c := rawDial(t, s.Listener.Addr().String())
			c.send(test.send)
			code, text := c.answer()
			got := fmt.Sprint(code, " ", text)
			if code == http.StatusContinue {
				code, text = c.answer()
				got += fmt.Sprint(" ", code, " ", text)
			}
			require.True(t, strings.HasPrefix(got, test.want), got)
		})
	}
}

// recorded is a response that records read deadlines.
type recorded struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

// SetReadDeadline is called through http.ResponseController.
func (r *recorded) SetReadDeadline(t time.Time) error {
	r.deadlines = append(r.deadlines, t)
	return nil
}

// TestABodyThatWaitsIsNotAmongThoseThatArrive: while a large body waits for Admit, it is not cut off to make room for
// others, and its time to arrive stands still.
func TestABodyThatWaitsIsNotAmongThoseThatArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 2 * smallBodyMax
		o := options()
		o.FrameBytesMax = size
		var h *xmlHandler
		o.Admit = func(_ context.Context, head []byte, _ int) (func(), error) {
			require.Len(t, head, smallBodyMax+1)
			require.Zero(t, h.bodies.arriving.Len())
			time.Sleep(time.Minute)
			return func() {}, nil
		}
		h = &xmlHandler{options: o}
		body := io.MultiReader(strings.NewReader(strings.Repeat("x", smallBodyMax+10)), arriving{t, h},
			strings.NewReader(strings.Repeat("x", size-smallBodyMax-10)))
		w, begun := &recorded{ResponseRecorder: httptest.NewRecorder()}, time.Now()
		h.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/xml", body))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		first := begun.Add(bodyTimeout)
		require.Equal(t, []time.Time{first, {}, first.Add(time.Minute), {}}, w.deadlines)
	})
}

// arriving is a part of a body without bytes. It requires that the body is among those that arrive.
type arriving struct {
	t *testing.T
	h *xmlHandler
}

func (a arriving) Read([]byte) (int, error) {
	require.Equal(a.t, 1, a.h.bodies.arriving.Len())
	return 0, io.EOF
}

// TestABodyThatMayNotWaitIsRefused: if too many bodies wait for Admit, the next one is refused, and nothing is done.
func TestABodyThatMayNotWaitIsRefused(t *testing.T) {
	o := options()
	o.FrameBytesMax = 2 * smallBodyMax
	o.Busy = errors.New("busy")
	o.Admit = func(context.Context, []byte, int) (func(), error) { return nil, fmt.Errorf("session: %w", o.Busy) }
	o.Answer = telling(func(context.Context, []byte) ([]byte, error) { panic("it was not admitted") })
	w := httptest.NewRecorder()
	Handler(o).ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/xml",
		strings.NewReader(strings.Repeat("x", smallBodyMax+1))))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "too many requests are in progress; nothing was done, try again")
}
