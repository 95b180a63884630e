package load_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
	"outcry/internal/door/xml/wire"
	. "outcry/internal/lab/load"
)

// large is a source of frames too large for one write to a socket. Each reply must equal its frame.
type large struct{ left, got int }

func (s *large) frame(n int) []byte {
	return fmt.Appendf(nil, "<f>%d%s</f>", n, strings.Repeat("x", 4<<20))
}

func (s *large) Next() []byte {
	if s.left == 0 {
		return nil
	}
	s.left--
	return s.frame(s.left)
}

func (s *large) Reply(xml []byte) error {
	s.got++
	if !bytes.HasPrefix(xml, []byte("<f>")) || len(xml) < 4<<20 {
		return fmt.Errorf("%d bytes: %.20q", len(xml), xml)
	}
	return nil
}

// accept serves each connection with handle, in its own goroutine, until the test ends.
func accept(t *testing.T, handle func(net.Conn)) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return l.Addr().String()
}

// TestRepliesAreReadWhileRequestsWait checks that the run does not block on a server that sends replies before it
// reads more requests.
func TestRepliesAreReadWhileRequestsWait(t *testing.T) {
	addr := accept(t, func(c net.Conn) {
		frames := wire.NewFrameReader(c, 8<<20)
		for {
			xml, err := frames.Next()
			if err != nil {
				return
			}
			for part := wire.AppendFrame(nil, xml); len(part) > 0; { // in parts of any size
				n, err := c.Write(part[:min(len(part), 333_333)])
				if err != nil {
					return
				}
				part = part[n:]
			}
		}
	})
	sources := []*large{{left: 6}, {left: 6}, {left: 6}}
	r, err := Closed(background, Options{Addrs: []string{addr}, Connections: 3, Depth: 3},
		func(n int) Source { return sources[n] })
	require.NoError(t, err)
	require.EqualValues(t, 18, r.Requests)
	require.Zero(t, r.Errors, r.Examples)
	require.Equal(t, r.BytesOut, r.BytesIn)
}

// TestAReplyToNothingBreaksTheRun checks that an unexpected reply fails the run. Otherwise it would be counted as
// the reply to the next request.
func TestAReplyToNothingBreaksTheRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		frames := wire.NewFrameReader(c, 1<<20)
		for {
			xml, err := frames.Next()
			if err != nil {
				return
			}
			if _, err := c.Write(wire.AppendFrame(wire.AppendFrame(nil, xml), xml)); err != nil {
				return
			}
		}
	}()
	o := Options{Addrs: []string{l.Addr().String()}, Connections: 1, Depth: 1}
	_, err = Closed(background, o, one(&counting{most: 9}))
	require.ErrorContains(t, err, `load: connection 1: an unexpected reply: "<f>1</f>"`)
}

// TestARunEndsWithItsContext checks that the run ends even if nothing arrives.
func TestARunEndsWithItsContext(t *testing.T) {
	for _, rate := range []int{0, 100} {
		asked := make(chan struct{})
		var once atomic.Bool
		addr := serve(t, func(_, _ int, _ []byte) []byte {
			if once.CompareAndSwap(false, true) {
				close(asked)
			}
			<-t.Context().Done()
			return nil
		})
		ctx, cancel := context.WithCancel(background)
		go func() {
			<-asked
			cancel()
		}()
		o := Options{Addrs: []string{addr}, Connections: 2, Duration: time.Hour}
		var err error
		if rate > 0 {
			_, err = Open(ctx, o, rate, func(int) Source { return &counting{most: 1 << 40} })
		} else {
			_, err = Closed(ctx, o, func(int) Source { return &counting{most: 1 << 40} })
		}
		require.ErrorIs(t, err, context.Canceled)
	}
}

// TestConnectionsWithATokenAreDrivenOneByOne checks that connections with a token, which are not plain sockets, get
// a goroutine each and the same replies.
func TestConnectionsWithATokenAreDrivenOneByOne(t *testing.T) {
	addr := serve(t, func(_, _ int, xml []byte) []byte {
		if bytes.HasPrefix(xml, []byte("<auth ")) {
			return []byte("<results><authorized/></results>")
		}
		return xml
	})
	o := Options{Addrs: []string{addr}, Connections: 4, Depth: 3, Client: client.Options{Token: "secret"}}
	r, err := Closed(background, o, func(int) Source { return &counting{most: 50} })
	require.NoError(t, err)
	require.EqualValues(t, 200, r.Requests)
	require.Zero(t, r.Errors, r.Examples)
	o.Duration = 100 * time.Millisecond
	r, err = Open(background, o, 1000, func(int) Source { return &counting{most: 1 << 40} })
	require.NoError(t, err)
	require.EqualValues(t, 100, r.Requests)
	require.Zero(t, r.Errors, r.Examples)
}

// TestOpenUsesAllConnections checks that an open run uses its connections in turn instead of the same
// few.
func TestOpenUsesAllConnections(t *testing.T) {
	var had [8]atomic.Int64
	addr := serve(t, func(connection, _ int, xml []byte) []byte {
		had[connection-1].Add(1)
		return xml
	})
	o := Options{Addrs: []string{addr}, Connections: 8, Duration: 200 * time.Millisecond}
	r, err := Open(background, o, 2000, func(int) Source { return &counting{most: 1 << 40} })
	require.NoError(t, err)
	require.EqualValues(t, 400, r.Requests)
	for n := range had {
		require.Greater(t, had[n].Load(), int64(20), "connection %d", n+1)
	}
}

// lines is a codec with one request or reply on each line. A line that begins with ! is not a reply.
type lines struct{}

func (lines) Append(out, request []byte) []byte { return append(append(out, request...), '\n') }

func (lines) Cut(in []byte) (reply []byte, n int, err error) {
	end := bytes.IndexByte(in, '\n')
	if end < 0 || in[0] == '!' {
		return nil, end + 1, nil
	}
	return in[:end], end + 1, nil
}

// TestAMessageThatIsNoReplyFreesNobody checks that a message that is not a reply does not mark an idle connection
// as idle a second time. Otherwise the connection would be used for two requests at once.
func TestAMessageThatIsNoReplyFreesNobody(t *testing.T) {
	addr := accept(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			for _, text := range []string{"!\n", line, "!\n", "!\n"} {
				if _, err := c.Write([]byte(text)); err != nil {
					return
				}
			}
		}
	})
	o := Options{Addrs: []string{addr}, Connections: 3, Depth: 2, Duration: 200 * time.Millisecond,
		Greet: func(net.Conn) (Codec, error) { return lines{}, nil }}
	r, err := Open(background, o, 2000, func(int) Source { return &counting{most: 1 << 40} })
	require.NoError(t, err)
	require.EqualValues(t, 400, r.Requests)
	require.Zero(t, r.Errors, r.Examples)
	o.Duration = 0
	r, err = Closed(background, o, func(int) Source { return &counting{most: 50} })
	require.NoError(t, err)
	require.EqualValues(t, 150, r.Requests)
}
