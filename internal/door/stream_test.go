package door

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/door/xml/wire"
)

// tape is a connection whose client has already sent everything, in pieces. Each read returns one piece or a
// part of it.
type tape struct {
	net.Conn // nil: the test calls no other method
	pieces   [][]byte
	written  bytes.Buffer
}

func (c *tape) Read(p []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	if c.pieces[0] = c.pieces[0][n:]; len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	return n, nil
}

func (c *tape) Write(p []byte) (int, error)      { return c.written.Write(p) }
func (c *tape) Close() error                     { return nil }
func (c *tape) SetReadDeadline(time.Time) error  { return nil }
func (c *tape) SetWriteDeadline(time.Time) error { return nil }
func (c *tape) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "tape"} }

// play runs a session on a stream and returns its replies.
func play(t require.TestingT, o Options, pieces ...[]byte) []string {
	conn := &tape{pieces: pieces}
	s := New(newFake(), o)
	newSession(s, conn, xmlCodec).serve()
	require.NoError(t, s.Shutdown(context.Background()))
	requireNothingHeld(t, s)
	return framesOf(t, conn.written.Bytes())
}

// framesOf splits a stream into frames, and requires that no bytes are left.
func framesOf(t require.TestingT, stream []byte) (frames []string) {
	r := wire.NewFrameReader(bytes.NewReader(stream), 1<<30)
	for {
		xml, err := r.Next()
		if errors.Is(err, io.EOF) {
			return frames
		}
		require.NoError(t, err)
		frames = append(frames, string(xml))
	}
}

var someFrames = []string{query(1), opening(1), query(22), opening(1), frame("<create/>"), frame(""), "\r\n \n",
	frame("<create>"), query(3)}

func TestCutsOfTheStreamDoNotMatter(t *testing.T) {
	var stream []byte
	for _, f := range someFrames {
		stream = append(stream, f...)
	}
	want := play(t, Options{}, stream)
	require.Len(t, want, len(someFrames)-1)
	for cut := 1; cut < len(stream); cut++ {
		require.Equal(t, want, play(t, Options{}, stream[:cut], stream[cut:]), "cut after %d bytes", cut)
	}
	var single [][]byte
	for i := range stream {
		single = append(single, stream[i:i+1])
	}
	require.Equal(t, want, play(t, Options{}, single...))
}

func TestBatchesAndCutsDoNotChangeReplies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frames := rapid.SliceOf(rapid.SampledFrom(someFrames)).Draw(t, "frames")
		var whole []byte
		var want []string
		alone := New(newFake(), Options{}) // gets one frame at a time through Answer
		for _, f := range frames {
			whole = append(whole, f...)
			for _, xml := range framesOf(t, []byte(f)) {
				reply, err := ask(alone, context.Background(), []byte(xml))
				require.NoError(t, err)
				want = append(want, string(reply))
			}
		}
		var pieces [][]byte
		for rest := whole; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		o := Options{
			BatchFramesMax:   rapid.IntRange(1, 5).Draw(t, "BatchFramesMax"),
			BatchMemoryMax:   rapid.IntRange(1, 30_000).Draw(t, "BatchMemoryMax"),
			UnsentRepliesMax: rapid.IntRange(1, 3).Draw(t, "UnsentRepliesMax"),
			UnsentBytesMax:   rapid.IntRange(1, 300).Draw(t, "UnsentBytesMax"),
		}
		require.Equal(t, want, play(t, o, pieces...))
	})
}

// FuzzSession sends arbitrary bytes. The session must end, and everything it sends must be complete replies
// that a client can decode. How the stream is cut into reads must not change the replies, except for how much
// of a malformed length line the last reply quotes.
func FuzzSession(f *testing.F) {
	for _, seed := range append(someFrames, "0\n", "9\n", "-1\n", "00\r\n00\r\n", "99999999999999999999\n", query(1)+"x",
		query(1)+query(2)[:20]) {
		f.Add([]byte(seed), 1)
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		o := Options{FrameBytesMax: 1000}
		whole := play(t, o, stream)
		for _, reply := range whole {
			_, err := wire.ParseReply([]byte(reply))
			require.NoError(t, err, reply)
		}
		if cut > 0 && cut < len(stream) {
			pieces := play(t, o, stream[:cut], stream[cut:])
			require.Len(t, pieces, len(whole))
			if last := len(whole) - 1; last >= 0 {
				require.Equal(t, whole[:last], pieces[:last])
			}
		}
	})
}
