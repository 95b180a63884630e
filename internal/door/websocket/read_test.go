package websocket

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMessagesArriveHoweverTheyAreCut sends messages in random fragments, with pings between them, in random pieces of
// TCP. Pongs must be in order, and the last one must answer the newest ping. A pong may be missing if a newer ping
// replaced it while the server wrote something else.
func TestMessagesArriveHoweverTheyAreCut(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	h := serving(t, Options{}, echo)
	c := dial(t, h)
	var all []byte
	var want []string
	pings := 0
	for range 200 {
		text := strings.Repeat("é$€ 1", random.IntN(1<<random.IntN(13)))
		want = append(want, text)
		rest, first := []byte(text), byte(opText)
		for {
			n := random.IntN(len(rest) + 1)
			if random.IntN(3) == 0 {
				n = len(rest)
			}
			fin := byte(0)
			if n == len(rest) {
				fin = bitFin
			}
			all = append(all, masked(first|fin, rest[:n])...)
			rest, first = rest[n:], opContinuation
			if random.IntN(4) == 0 {
				all = append(all, masked(bitFin|opPing, fmt.Append(nil, pings))...)
				pings++
			}
			if fin != 0 {
				break
			}
		}
	}
	go func() {
		for len(all) > 0 {
			n := min(len(all), 1+random.IntN(1<<random.IntN(16)))
			if _, err := c.conn.Write(all[:n]); err != nil {
				return
			}
			all = all[n:]
		}
	}()
	for next, newest := 0, -1; next < len(want) || newest < pings-1; {
		switch op, payload := c.next(); op {
		case opPong:
			pong, err := strconv.Atoi(string(payload))
			require.NoError(t, err)
			require.Greater(t, pong, newest)
			newest = pong
		default:
			require.Equal(t, want[next], string(payload))
			next++
		}
	}
}

func TestUnmaskIsXor(t *testing.T) {
	mask := [4]byte{1, 20, 100, 200}
	for offset := range 9 {
		for n := range 40 {
			b, want := bytes.Repeat([]byte{0x55}, n), make([]byte, n)
			for i := range want {
				want[i] = 0x55 ^ mask[(offset+i)%4]
			}
			unmask(b, mask, offset)
			require.Equal(t, want, b, "%d at %d", n, offset)
		}
	}
}

func TestWhatMakesNoSenseClosesTheConnectionWithItsCode(t *testing.T) {
	long := bytes.Repeat([]byte("x"), MessageBytesMax+1)
	close_ := func(payload ...byte) []byte { return masked(bitFin|opClose, payload) }
	for _, one := range []struct {
		name string
		sent [][]byte
		code int
	}{
		{"a binary message", [][]byte{masked(bitFin|opBinary, []byte("1"))}, CodeUnsupported},
		{"a message that is too large", [][]byte{masked(bitFin|opText, long)}, CodeTooLarge},
		{"one in fragments", [][]byte{masked(opText, long[:1<<15]), masked(opContinuation, long[:1<<15]),
			masked(bitFin|opContinuation, long[:1])}, CodeTooLarge},
		{"a length of 63 bits", [][]byte{append([]byte{bitFin | opText, bitMasked | 127, 0x7f},
			255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0)}, CodeTooLarge},
		{"one that is not UTF-8", [][]byte{masked(bitFin|opText, []byte("a\xffb"))}, CodeInvalidText},
		{"half a character", [][]byte{masked(opText, []byte("a\xe2\x82")), masked(bitFin|opContinuation, nil)},
			CodeInvalidText},
		{"a frame without a mask", [][]byte{{bitFin | opText, 1, 'a'}}, CodeProtocol},
		{"reserved bits", [][]byte{masked(bitFin|0x40|opText, nil)}, CodeProtocol},
		{"an unknown kind", [][]byte{masked(bitFin|3, nil)}, CodeProtocol},
		{"an unknown control frame", [][]byte{masked(bitFin|11, nil)}, CodeProtocol},
		{"a ping in fragments", [][]byte{masked(opPing, nil)}, CodeProtocol},
		{"a ping of 126 bytes", [][]byte{masked(bitFin|opPing, long[:126])}, CodeProtocol},
		{"a continuation of nothing", [][]byte{masked(bitFin|opContinuation, nil)}, CodeProtocol},
		{"a message within another", [][]byte{masked(opText, nil), masked(bitFin|opText, nil)}, CodeProtocol},
		{"a close with half a code", [][]byte{close_(3)}, CodeProtocol},
		{"a close with a code that may not be sent", [][]byte{close_(1005>>8, 1005&255)}, CodeProtocol},
		{"a close with an undefined code", [][]byte{close_(2000>>8, 2000&255)}, CodeProtocol},
		{"a close whose reason is not UTF-8", [][]byte{close_(1000>>8, 1000&255, 0xff)}, CodeInvalidText},
		{"a close", [][]byte{close_(1000>>8, 1000&255)}, CodeNormal},
		{"a close with a reason", [][]byte{close_(4000>>8, 4000&255, 'b', 'y', 'e')}, 4000},
	} {
		t.Run(one.name, func(t *testing.T) {
			h := serving(t, Options{}, echo)
			c := dial(t, h)
			c.text("before")
			c.send(one.sent...)
			c.want("before") // a message that was read earlier is answered
			c.wantClose(one.code)
			c.conn.Close()
			eventually(t, func() bool { return h.Count() == 0 })
		})
	}
}

// TestTheLargestMessageIsTaken: a message of the maximum size is read, and its memory is not kept.
func TestTheLargestMessageIsTaken(t *testing.T) {
	h := serving(t, Options{}, echo)
	c := dial(t, h)
	largest := strings.Repeat("x", MessageBytesMax)
	c.text(largest)
	c.want(largest)
	c.text("small")
	c.want("small")
	require.Less(t, cap((<-h.conns).message), 2*keepBytes)
}

func TestACloseWithoutACodeIsAnsweredSo(t *testing.T) {
	h := serving(t, Options{}, echo)
	c := dial(t, h)
	c.send(masked(bitFin|opClose, nil))
	op, payload := c.next()
	require.Equal(t, byte(opClose), op)
	require.Empty(t, payload)
	c.wantEnd()
}

// TestAReasonFits: a reason is cut between two characters.
func TestAReasonFits(t *testing.T) {
	h := serving(t, Options{}, func(c *Conn) { c.Close(4001, strings.Repeat("€", 100)) })
	require.Equal(t, strings.Repeat("€", 41), dial(t, h).wantClose(4001))
}

// FuzzRead sends arbitrary bytes in two pieces. The server must not panic, and Read must return only valid UTF-8.
func FuzzRead(f *testing.F) {
	f.Add(masked(bitFin|opText, []byte("a")), 3)
	f.Add(append(masked(opText, []byte("a")), masked(bitFin|opContinuation, []byte("b"))...), 9)
	f.Add(masked(bitFin|opPing, []byte("a")), 1)
	f.Add(masked(bitFin|opClose, []byte{3, 232}), 1)
	f.Fuzz(func(t *testing.T, sent []byte, cut int) {
		c := newConn(NewServer(Options{}), "")
		cut = max(0, min(cut, len(sent)))
		c.in = newPieces(sent[:cut], sent[cut:])
		for {
			text, err := c.Read()
			if err != nil {
				break
			}
			require.True(t, len(text) <= MessageBytesMax)
			require.Equal(t, string(text), strings.ToValidUTF8(string(text), "?"))
		}
	})
}

// TestBufferedIsAWholeMessage: Buffered returns false for a part of a message and for frames of other kinds.
func TestBufferedIsAWholeMessage(t *testing.T) {
	text, long := masked(bitFin|opText, []byte("abc")), masked(bitFin|opText, bytes.Repeat([]byte("x"), 300))
	for name, one := range map[string]struct {
		arrived []byte
		want    bool
	}{
		"nothing": {nil, false}, "a message": {text, true}, "a long one": {long, true},
		"an empty one":           {masked(bitFin|opText, nil), true},
		"a message and a half":   {append(bytes.Clone(text), text[:2]...), true},
		"one byte":               {text[:1], false},
		"half of a header":       {long[:3], false},
		"a header":               {text[:6], false},
		"all but one byte":       {long[:len(long)-1], false},
		"a fragment":             {masked(opText, []byte("abc")), false},
		"a ping before it":       {append(masked(bitFin|opPing, nil), text...), false},
		"a close":                {masked(bitFin|opClose, nil), false},
		"a binary message":       {masked(bitFin|opBinary, []byte("abc")), false},
		"one that is not masked": {newFrame(opText, []byte("abc")).bytes, false},
	} {
		c := newConn(NewServer(Options{}), name)
		c.in = bufio.NewReader(bytes.NewReader(one.arrived))
		_, _ = c.in.Peek(1)
		require.Equal(t, one.want, c.Buffered(), name)
		c.partial = true
		require.False(t, c.Buffered(), "what follows a fragment ends a message, or is refused")
	}
}
