package door

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"outcry/internal/process/queue"

	"github.com/stretchr/testify/require"
)

// narrow is a listener whose connections have small send buffers, so that one write rarely sends a longer
// reply.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn, conn.(*net.TCPConn).SetWriteBuffer(64 << 10)
}

// Replies that are durable at once come after others that wait for the journal or for the client. All must
// arrive in order.
func TestRepliesThatAreSentAtOnceAndThoseThatWaitComeInOrder(t *testing.T) {
	r := random(t)
	x := newFake()
	x.executions = 2000 // about 200 kB
	l := narrow{listen(t)}
	start(t, l, x, Options{UnsentRepliesMax: 8})
	c := dial(t, l)
	require.NoError(t, c.Conn.(*net.TCPConn).SetReadBuffer(64<<10))
	one := query(1)
	c.send(one)
	whole := len(c.reply())
	for range 40 {
		orders := make([]int, 1+r.IntN(16))
		for i := range orders {
			orders[i] = 1000 + r.IntN(1000)
		}
		x.set(func() { x.held, x.durable = r.IntN(2) == 0, uint64(x.total()+r.IntN(len(orders)+1)) })
		wrote := make(chan error, 1)
		go func() {
			for _, order := range orders {
				if _, err := io.WriteString(c, query(order)); err != nil {
					wrote <- err
					return
				}
			}
			wrote <- nil
		}()
		x.set(func() { x.held = false })
		for _, order := range orders {
			reply := c.reply()
			require.Contains(t, reply, fmt.Sprintf(`<status id="%d"><open shares="%d"/>`, order, order))
			require.Len(t, reply, whole+2*len("000"))
		}
		require.NoError(t, <-wrote)
	}
}

// TestAReplyThatMayBeToldIsSentByWhoMadeIt checks that no reply that is durable at once went through the writer's
// queue.
func TestAReplyThatMayBeToldIsSentByWhoMadeIt(t *testing.T) {
	x := newFake()
	l := listen(t)
	s := start(t, l, x, Options{})
	c := dial(t, l)
	for i := range 100 {
		c.send(query(i + 1))
		require.Equal(t, answer(i+1), c.reply())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for open := range s.sessions {
		session := open.(*session)
		require.Equal(t, queue.Queue[*reply]{}, session.unsent.replies)
	}
}

// The writer leaves the connection with the write deadline of an earlier reply. A later attempt by the reader
// to write without setting a deadline writes nothing then, and no byte may be lost.
func TestADeadlineThatHasPassedLosesNothing(t *testing.T) {
	x := newFake()
	l := listen(t)
	s := start(t, l, x, Options{})
	c := dial(t, l)
	c.send(query(1))
	require.Equal(t, answer(1), c.reply())
	var served *session
	s.mu.Lock()
	for open := range s.sessions {
		served = open.(*session)
	}
	s.mu.Unlock()
	empty := func() bool { _, empty := served.unsent.silence(); return empty }
	for order := 2; order < 20; order += 2 {
		require.NoError(t, served.conn.SetWriteDeadline(time.Unix(1, 0)))
		c.send(query(order)) // the reader sends this reply
		require.Equal(t, answer(order), c.reply())
		require.Eventually(t, empty, time.Minute, time.Millisecond)
		require.NoError(t, served.conn.SetWriteDeadline(time.Unix(1, 0)))
		x.set(func() { x.held, x.durable = true, 0 })
		c.send(query(order + 1)) // the writer sends this reply
		require.Eventually(t, func() bool { return !empty() }, time.Minute, time.Millisecond)
		x.set(func() { x.held = false })
		require.Equal(t, answer(order+1), c.reply())
		require.Eventually(t, empty, time.Minute, time.Millisecond)
	}
}
