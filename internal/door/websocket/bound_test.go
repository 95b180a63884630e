package websocket

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestSmallFramesCountAsWhatTheyCost: a queue of the smallest frames is bounded by its memory, not by the frames'
// bytes.
func TestSmallFramesCountAsWhatTheyCost(t *testing.T) {
	h := serving(t, Options{CloseTimeout: time.Second}, readOn)
	c := dial(t, h)
	conn := <-h.conns
	smallest, pushed := NewFrame(nil), 0
	for conn.Push(smallest, nil, 0) { // without Flush nothing is sent
		pushed++
		require.LessOrEqual(t, pushed*FrameCostBytes, WaitingBytesMax)
	}
	require.Equal(t, WaitingBytesMax/(smallest.Len()+FrameCostBytes), pushed)
	require.LessOrEqual(t, unsafe.Sizeof(item{})*3/2, uintptr(FrameCostBytes), "a queue grows by a half at the most")
	c.wantClose(CodeTooSlow)
	eventually(t, func() bool { return conn.Waiting() == 0 })
}

// TestWhatWasWrittenCountsNoMore checks that Waiting is 0 after the writes of each way to send.
func TestWhatWasWrittenCountsNoMore(t *testing.T) {
	h := serving(t, Options{}, readOn)
	c := dial(t, h)
	conn := <-h.conns
	frame := NewFrame([]byte("x"))
	for range 1000 {
		require.True(t, conn.Push(frame, nil, 0))
		require.NoError(t, conn.Answer(frame))
		require.True(t, conn.Push(frame, nil, 0))
		require.NoError(t, conn.AnswerFrames(bytes.Repeat(frame.bytes, 2)))
		c.send(masked(bitFin|opPing, []byte("p")))
		for frames := 0; frames < 5; {
			if op, _ := c.next(); op == opText {
				frames++
			}
		}
	}
	eventually(t, func() bool { return conn.Waiting() == 0 })
}

// heldUp returns a connection whose client reads nothing more: the kernel's buffers are full, and further frames wait.
// It also returns the number of text frames that the client has not read.
func heldUp(t *testing.T) (c *client, conn *Conn, unread int) {
	t.Helper()
	h := serving(t, Options{PingEvery: time.Hour}, echo)
	c = dial(t, h)
	conn = <-h.conns
	fill := NewFrame([]byte(strings.Repeat("x", 50_000)))
	for still := 0; still < 100; {
		before := conn.Waiting()
		if before < WaitingBytesMax/2 {
			require.True(t, conn.Push(fill, nil, 0))
			conn.Flush()
			unread++
			still = 0
			continue
		}
		time.Sleep(time.Millisecond)
		if still++; conn.Waiting() < before {
			still = 0
		}
	}
	return c, conn, unread
}

// TestOnePongWaitsAtMost: a client that sends pings and reads nothing gets the newest pong, and needs no more memory.
func TestOnePongWaitsAtMost(t *testing.T) {
	c, conn, unread := heldUp(t)
	before := conn.Waiting()
	const pings = 10_000
	var all []byte
	for n := range pings {
		all = append(all, masked(bitFin|opPing, binary.BigEndian.AppendUint32(nil, uint32(n)))...)
	}
	c.send(all)
	c.text("after all pings")
	answer := NewFrame([]byte("after all pings")).Len() + FrameCostBytes
	eventually(t, func() bool { return conn.Waiting() >= before+answer })
	pong := headerBytes(4) + 4 + FrameCostBytes
	eventually(t, func() bool { return conn.Waiting() == before+answer+pong })
	var pongs []uint32
	for texts := 0; texts <= unread; {
		switch op, payload := c.next(); op {
		case opPong:
			pongs = append(pongs, binary.BigEndian.Uint32(payload))
		default:
			texts++
		}
	}
	require.Equal(t, []uint32{pings - 1}, pongs)
	eventually(t, func() bool { return conn.Waiting() == 0 })
}

// TestAPongIsDroppedByACut: a cut drops the waiting pong like all frames that wait.
func TestAPongIsDroppedByACut(t *testing.T) {
	c, conn, unread := heldUp(t)
	before := conn.Waiting()
	c.send(masked(bitFin|opPing, []byte("late")))
	eventually(t, func() bool { return conn.Waiting() > before })
	conn.Cut(CodeUnauthorized, "the token has ended")
	for range unread { // some of them may have been sent already
		op, payload := c.next()
		if op == opClose {
			require.Equal(t, "the token has ended", string(payload[2:]))
			eventually(t, func() bool { return conn.Waiting() == 0 })
			return
		}
		require.Equal(t, byte(opText), op)
	}
	require.Fail(t, "no close came")
}

// TestPingsThatComeTogetherAreAllAnswered: if the client reads the pongs, each of several pings in a row gets a
// pong.
func TestPingsThatComeTogetherAreAllAnswered(t *testing.T) {
	h := serving(t, Options{}, echo)
	c := dial(t, h)
	var all []byte
	for n := range 1000 {
		all = append(all, masked(bitFin|opPing, fmt.Append(nil, n))...)
	}
	c.send(all)
	for n := range 1000 {
		op, payload := c.next()
		require.Equal(t, byte(opPong), op)
		require.Equal(t, fmt.Sprint(n), string(payload))
	}
}

// TestWhoTakesNoPongsIsEnded: a client that only sends pings and reads no pongs is disconnected.
func TestWhoTakesNoPongsIsEnded(t *testing.T) {
	h := serving(t, Options{PingEvery: 100 * time.Millisecond}, readOn)
	c := dial(t, h)
	conn := <-h.conns
	pings := bytes.Repeat(masked(bitFin|opPing, make([]byte, controlBytesMax)), 100)
	for {
		require.LessOrEqual(t, conn.Waiting(), 2*(headerBytes(controlBytesMax)+controlBytesMax+FrameCostBytes))
		if _, err := c.conn.Write(pings); err != nil {
			break
		}
	}
	eventually(t, func() bool { return h.Count() == 0 })
}

// TestASlotBeginsNothingBehindACut: after a cut a slot makes no frames, because the reason of the cut does not
// count them. After a close it still makes them.
func TestASlotBeginsNothingBehindACut(t *testing.T) {
	for name, end := range map[string]func(c *Conn){
		"too slow": func(c *Conn) { c.Push(NewFrame(make([]byte, WaitingBytesMax)), nil, 0) },
		"cut":      func(c *Conn) { c.Cut(CodeUnauthorized, "") },
		"aborted":  (*Conn).Abort,
		"closed":   func(c *Conn) { c.Close(CodeNormal, "") },
	} {
		c := newConn(NewServer(Options{}), "") // c has no network connection, so nothing is sent
		var p Progress
		require.True(t, c.Push(NewFrame(nil), nil, 0))
		require.True(t, c.Advance(&p, 1))
		end(c)
		begins := c.Advance(&p, 2)
		require.Equal(t, name == "closed", begins, name)
		require.Equal(t, begins, p.Sent() == 2, name)
	}
}
