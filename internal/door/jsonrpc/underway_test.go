package jsonrpc

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/websocket"
)

// TestWhatIsUnderWayIsBounded checks that a client that reads no answers cannot make the server keep many requests, or
// large ones.
func TestWhatIsUnderWayIsBounded(t *testing.T) {
	const large = websocket.MessageBytesMax
	for size, most := range map[int]int{100: underWayMax, large: underWayBytesMax / large} {
		c := &conn{answering: true} // but no goroutine answers
		c.changed.L = &c.mu
		n := 0
		for ; !c.full(); n++ {
			require.True(t, c.enqueue(&call{size: size, fault: &fault{}}))
		}
		require.Equal(t, most, n)
		require.NotNil(t, c.next(&out{}))
		require.False(t, c.full())
	}
}

// TestTheLastAnswersAreSentWhileItEnds ends a connection whose client reads nothing while answers are unsent. When
// the client is gone, the wait for these answers must end: otherwise the connection's goroutine would never end.
func TestTheLastAnswersAreSentWhileItEnds(t *testing.T) {
	client := untaken(t)
	c := &conn{socket: client, answering: true}
	c.changed.L = &c.mu
	frames := websocket.EndFrame(append(websocket.BeginFrame(nil), make([]byte, 100)...), 0)
	go c.next(&out{frames})
	finished := make(chan struct{})
	go func() { c.finish(); close(finished) }()
	waits := func() bool {
		select {
		case <-finished: // the kernel's buffers had enough room
			return true
		default:
		}
		all := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
			if strings.Contains(stack, "sync.(*Cond).Wait") && strings.Contains(stack, "rpc.(*conn).finish") {
				return true
			}
		}
		return false
	}
	require.Eventually(t, waits, time.Minute, time.Millisecond)
	client.Abort()
	select {
	case <-finished:
	case <-time.After(time.Minute):
		require.Fail(t, "it waits for ever")
	}
}

// untaken returns a connection whose client reads nothing, and which has no room for another answer.
func untaken(t *testing.T) *websocket.Conn {
	t.Helper()
	sockets := websocket.NewServer(websocket.Options{Max: func() int { return 1 }})
	conns, ended := make(chan *websocket.Conn), make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sockets.Serve(w, r, func(c *websocket.Conn) (func(), error) {
			return func() { conns <- c; <-ended }, nil
		})
	}))
	t.Cleanup(func() { close(ended); h.Close() })
	client, err := net.Dial("tcp", h.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	_, err = client.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"))
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(client), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	conn := <-conns
	t.Cleanup(conn.Abort)
	piece := websocket.NewFrame(make([]byte, 60_000))
	const around = websocket.FrameCostBytes + 4 // cost of a frame in addition to its text
	room := func() int { return websocket.WaitingBytesMax - conn.Waiting() }
	for taken := true; taken; { // until the kernel's buffers and the queue are full
		for room() >= piece.Len()+websocket.FrameCostBytes {
			require.True(t, conn.Push(piece, nil, 0))
		}
		conn.Flush()
		before := conn.Waiting()
		deadline := time.Now().Add(200 * time.Millisecond)
		for taken = false; !taken && time.Now().Before(deadline); runtime.Gosched() {
			taken = conn.Waiting() < before
		}
	}
	for rest := room(); rest >= around; rest = room() {
		require.True(t, conn.Push(websocket.NewFrame(make([]byte, min(rest, 60_000)-around)), nil, 0))
	}
	return conn
}
