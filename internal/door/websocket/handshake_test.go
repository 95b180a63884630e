package websocket

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHandshakeIsExact(t *testing.T) {
	h := serving(t, Options{Origins: []string{"https://desk.example"}}, echo)
	host := h.http.Listener.Addr().String()
	for _, one := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"as it should be", nil, 101},
		{"several tokens, in any case", []string{"Connection", "keep-alive, upgrade", "Upgrade", "WebSocket"}, 101},
		{"no upgrade", []string{"Connection", "", "Upgrade", ""}, 426},
		{"no connection", []string{"Connection", "keep-alive"}, 426},
		{"another protocol", []string{"Upgrade", "h2c"}, 426},
		{"no version", []string{"Sec-WebSocket-Version", ""}, 400},
		{"another version", []string{"Sec-WebSocket-Version", "8"}, 400},
		{"no key", []string{"Sec-WebSocket-Key", ""}, 400},
		{"a short key", []string{"Sec-WebSocket-Key", "c2hvcnQ="}, 400},
		{"a key that is not one", []string{"Sec-WebSocket-Key", "!"}, 400},
		{"its own origin", []string{"Origin", "http://" + host}, 101},
		{"its own origin in capitals", []string{"Host", "EXCHANGE", "Origin", "HTTP://exchange"}, 101},
		{"its own origin, with the port that goes without saying", []string{"Host", "a", "Origin", "http://a:80"}, 101},
		{"an IPv6 address", []string{"Host", "[::1]:80", "Origin", "http://[::1]"}, 101},
		{"another port", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"another name", []string{"Origin", "http://evil.example"}, 403},
		{"another scheme", []string{"Origin", "https://" + host}, 403},
		{"null", []string{"Origin", "null"}, 403},
		{"an origin with a path", []string{"Origin", "http://" + host + "/"}, 403},
		{"an origin with a user", []string{"Origin", "http://" + host + "@evil.example"}, 403},
		{"no origin at all, but a header", []string{"Origin", "x"}, 403},
		{"an origin that is listed", []string{"Origin", "https://desk.example"}, 101},
		{"one that is not quite", []string{"Origin", "https://desk.example.evil"}, 403},
	} {
		t.Run(one.name, func(t *testing.T) {
			answer, _ := ask(t, h, request(h, one.headers...))
			require.Equal(t, one.status, answer.StatusCode)
			if one.status == 426 {
				require.Equal(t, "websocket", answer.Header.Get("Upgrade"))
			}
			require.Empty(t, answer.Header.Get("Sec-WebSocket-Extensions"))
			require.Empty(t, answer.Header.Get("Sec-WebSocket-Protocol"))
		})
	}
}

// TestTwoOriginsAreNone: a request with two origins is refused, even if one is the server's own.
func TestTwoOriginsAreNone(t *testing.T) {
	h := serving(t, Options{}, echo)
	r := request(h, "Origin", "http://"+h.http.Listener.Addr().String())
	r.Header.Add("Origin", "http://evil.example")
	answer, _ := ask(t, h, r)
	require.Equal(t, 403, answer.StatusCode)
}

// TestNoCompressionAndNoSubprotocolIsAgreedOn: the answer accepts no extension and no subprotocol that a client offers.
func TestNoCompressionAndNoSubprotocolIsAgreedOn(t *testing.T) {
	h := serving(t, Options{}, echo)
	answer, c := ask(t, h, request(h, "Sec-WebSocket-Extensions", "permessage-deflate", "Sec-WebSocket-Protocol", "json"))
	require.Equal(t, 101, answer.StatusCode)
	require.Empty(t, answer.Header.Get("Sec-WebSocket-Extensions"))
	require.Empty(t, answer.Header.Get("Sec-WebSocket-Protocol"))
	c.text("hello")
	c.want("hello")
}

// TestARequestWithABodyIsRefused: net/http would read the body from the bytes of the WebSocket.
func TestARequestWithABodyIsRefused(t *testing.T) {
	h := serving(t, Options{}, echo)
	r := request(h)
	r.ContentLength, r.Body = 5, http.NoBody
	w := httptest.NewRecorder()
	h.Serve(w, r, func(*Conn) (func(), error) { panic("it is not opened") })
	require.Equal(t, 400, w.Code)
}

func TestAConnectionWithoutAPlaceIsRefused(t *testing.T) {
	most := 1
	h := serving(t, Options{Max: func() int { return most }}, echo)
	first := dial(t, h)
	answer, _ := ask(t, h, request(h))
	require.Equal(t, 503, answer.StatusCode)
	first.text("still here")
	first.want("still here")
	first.conn.Close()
	eventually(t, func() bool { return h.Count() == 0 })
	dial(t, h).text("now")

	// A refusal by open is answered in the same form.
	w := httptest.NewRecorder()
	full := NewServer(Options{})
	full.Serve(w, request(h), func(*Conn) (func(), error) { return nil, errors.New("the exchange has 3 connections") })
	require.Equal(t, 503, w.Code)
	require.Equal(t, "the exchange has 3 connections\n", w.Body.String())
	require.Zero(t, full.Count())
}

// TestWhatAClientSendsAtOnceIsRead: a client may send messages before it has the answer to its handshake.
func TestWhatAClientSendsAtOnceIsRead(t *testing.T) {
	h := serving(t, Options{}, echo)
	var all bytes.Buffer
	require.NoError(t, request(h).Write(&all))
	all.Write(masked(bitFin|opText, []byte("early")))
	c := &client{t: t, conn: connect(t, h)}
	c.send(all.Bytes())
	c.in = bufio.NewReader(c.conn)
	_, err := http.ReadResponse(c.in, nil)
	require.NoError(t, err)
	c.text("late")
	c.want("early")
	c.want("late")
}

// TestAHandshakeIsAGET, as RFC 6455 requires. Other methods may change something and have bodies.
func TestAHandshakeIsAGET(t *testing.T) {
	h := serving(t, Options{}, readOn)
	for _, method := range []string{http.MethodPost, http.MethodHead} {
		r := request(h)
		r.Method = method
		answer, _ := ask(t, h, r)
		require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode, method)
	}
}
