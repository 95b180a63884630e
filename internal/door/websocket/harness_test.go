package websocket

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is the maximum time that a test waits.
const patience = time.Minute

// harness is a server of WebSocket connections over real sockets.
type harness struct {
	*Server
	http  *httptest.Server
	conns chan *Conn // each connection that is opened, if the test receives it
}

// serving returns a server that calls serve for each connection.
func serving(t testing.TB, o Options, serve func(c *Conn)) *harness {
	t.Helper()
	return servingBy(t, o, serve, (*httptest.Server).Start)
}

// servingBy is like serving; start starts the server with or without TLS.
func servingBy(t testing.TB, o Options, serve func(c *Conn), start func(*httptest.Server)) *harness {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	h := &harness{Server: NewServer(o), conns: make(chan *Conn, 1024)}
	h.http = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.Serve(w, r, func(c *Conn) (func(), error) {
			return func() {
				h.conns <- c
				serve(c)
			}, nil
		})
	}))
	start(h.http)
	t.Cleanup(func() {
		h.Abort()
		require.NoError(t, h.Shutdown(context.Background()))
		h.http.Close()
	})
	return h
}

// echo sends each message back.
func echo(c *Conn) {
	for {
		text, err := c.Read()
		if err != nil || c.Answer(NewFrame(text)) != nil {
			return
		}
	}
}

// readOn reads until the connection ends.
func readOn(c *Conn) {
	for {
		if _, err := c.Read(); err != nil {
			return
		}
	}
}

// client is the client's end of a connection. It sends and reads bytes.
type client struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	left bool // the client has sent a close
}

// request returns a handshake. The headers given replace its own.
func request(h *harness, headers ...string) *http.Request {
	r, err := http.NewRequest(http.MethodGet, h.http.URL+"/", nil)
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		r.Header.Set(name, value)
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

// ask sends a handshake and returns the answer and the connection.
func ask(t testing.TB, h *harness, r *http.Request) (*http.Response, *client) {
	t.Helper()
	conn := connect(t, h)
	require.NoError(t, r.Write(conn))
	c := &client{t: t, conn: conn, in: bufio.NewReader(conn)}
	answer, err := http.ReadResponse(c.in, r)
	require.NoError(t, err)
	return answer, c
}

// connect opens a TCP connection.
func connect(t testing.TB, h *harness) net.Conn {
	t.Helper()
	addr := h.http.Listener.Addr().String()
	conn, err := net.Dial("tcp", addr)
	if h.http.TLS != nil {
		conn, err = tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) // the test does not check certificates
	}
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// dial opens a WebSocket connection.
func dial(t testing.TB, h *harness) *client {
	t.Helper()
	answer, c := ask(t, h, request(h))
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	require.Equal(t, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", answer.Header.Get("Sec-WebSocket-Accept")) // RFC 6455, section 1.3
	return c
}

// masked returns a masked frame, as clients send it. first is its first byte.
func masked(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, bitMasked|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, bitMasked|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, bitMasked|127), uint64(n))
	}
	mask := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	b = append(b, mask[:]...)
	for i, one := range payload {
		b = append(b, one^mask[i%4])
	}
	return b
}

func (c *client) send(bytes ...[]byte) {
	c.t.Helper()
	for _, b := range bytes {
		c.left = c.left || b[0] == bitFin|opClose
		_, err := c.conn.Write(b)
		require.NoError(c.t, err)
	}
}

func (c *client) text(s string) {
	c.t.Helper()
	c.send(masked(bitFin|opText, []byte(s)))
}

// next reads the server's next frame.
func (c *client) next() (op byte, payload []byte) {
	c.t.Helper()
	op, payload, err := c.try()
	require.NoError(c.t, err)
	return op, payload
}

func (c *client) try() (op byte, payload []byte, err error) {
	var first [2]byte
	if _, err = io.ReadFull(c.in, first[:]); err != nil {
		return 0, nil, err
	}
	require.Equal(c.t, byte(bitFin), first[0]&0xf0, "a server's frame is whole, without reserved bits")
	require.Zero(c.t, first[1]&bitMasked, "a server does not mask")
	n := uint64(first[1])
	if more := headerLen(first) - 2; more > 0 {
		var b [8]byte
		_, err = io.ReadFull(c.in, b[8-more:])
		require.NoError(c.t, err)
		n = binary.BigEndian.Uint64(b[:])
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(c.in, payload)
	return first[0] & 0xf, payload, err
}

// want reads a text message and compares it. It answers pings that arrive before it.
func (c *client) want(text string) {
	c.t.Helper()
	require.Equal(c.t, text, c.message())
}

func (c *client) message() string {
	c.t.Helper()
	for {
		op, payload := c.next()
		if op == opPing {
			c.send(masked(bitFin|opPong, payload))
			continue
		}
		require.Equal(c.t, byte(opText), op, "%q", payload)
		return string(payload)
	}
}

// wantClose reads a close, answers it, and reads the end of the connection. It returns the reason.
func (c *client) wantClose(code int) (reason string) {
	c.t.Helper()
	op, payload := c.next()
	for op == opPing {
		op, payload = c.next()
	}
	require.Equal(c.t, byte(opClose), op, "%q", payload)
	require.GreaterOrEqual(c.t, len(payload), 2)
	require.Equal(c.t, code, int(binary.BigEndian.Uint16(payload)), "%q", payload[2:])
	if !c.left {
		_, _ = c.conn.Write(masked(bitFin|opClose, payload[:2])) // an error means that the server did not wait for it
	}
	c.wantEnd()
	return string(payload[2:])
}

// wantEnd reads the end of the TCP connection.
func (c *client) wantEnd() {
	c.t.Helper()
	_, _, err := c.try()
	require.ErrorIs(c.t, err, io.EOF)
}

// eventually waits until so returns true.
func eventually(t testing.TB, so func() bool) {
	t.Helper()
	require.Eventually(t, so, patience, time.Millisecond)
}

// newPieces returns a reader whose reads return one piece each.
func newPieces(pieces ...[]byte) *bufio.Reader {
	var all []io.Reader
	for _, p := range pieces {
		all = append(all, bytes.NewReader(p))
	}
	return bufio.NewReaderSize(io.MultiReader(all...), readBufferBytes)
}
