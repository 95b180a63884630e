package load

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Sockets are WebSocket connections that may have a subscription. They ignore all messages except pings,
// which they answer, so that almost all their cost is the server's.
type Sockets struct {
	conns    []*Socket
	running  sync.WaitGroup
	leaving  atomic.Bool
	messages atomic.Uint64
	ended    atomic.Uint64 // sockets ended by the server
}

// Socket is one WebSocket connection, for use by one goroutine.
type Socket struct {
	net.Conn
	in *bufio.Reader
}

// Frame headers (RFC 6455, section 5.2): the text and pong frames of a client, whose mask is zero, and
// the frames of a server.
const (
	textFrame, pongFrame = 0x81, 0x8a
	maskedBit            = 0x80
	opMask               = 0xf
	opClosing, opPinging = 0x8, 0x9
)

// OpenSockets opens n connections to the HTTP server at addr. Each sends the message that first returns,
// unless it is "", and waits until it has received something. The error contains the server's answer if
// it is not an upgrade.
func OpenSockets(ctx context.Context, addr string, n int, first func(socket int) string) (*Sockets, error) {
	s := &Sockets{}
	for n := range n {
		c, err := DialSocket(ctx, addr, first(n))
		if err != nil {
			s.Leave()
			return nil, fmt.Errorf("load: WebSocket %d: %w", n+1, err)
		}
		s.conns = append(s.conns, c)
		s.running.Go(func() { s.read(c) })
	}
	return s, nil
}

// DialSocket opens one connection and sends message, unless it is "". The caller closes the socket.
func DialSocket(ctx context.Context, addr, message string) (*Socket, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Socket{conn, bufio.NewReader(conn)}
	if err := c.open(message); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *Socket) open(message string) error {
	if err := c.SetDeadline(time.Now().Add(readerTimeout)); err != nil {
		return err
	}
	_, err := io.WriteString(c, "GET /api/v1/ws HTTP/1.1\r\nHost: localhost\r\n"+
		"Connection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if err != nil {
		return err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("the server answers %s: %s", answer.Status, strings.TrimSpace(string(text)))
	}
	if message == "" {
		return c.SetDeadline(time.Time{})
	}
	if err := c.send(textFrame, []byte(message)); err != nil {
		return err
	}
	if _, err := c.in.Peek(1); err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

// send sends a frame of up to 64 KiB.
func (c *Socket) send(first byte, payload []byte) error {
	b := []byte{first}
	if n := len(payload); n < 126 {
		b = append(b, maskedBit|byte(n))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, maskedBit|126), uint16(n))
	}
	b = append(b, 0, 0, 0, 0) // the mask: zero
	_, err := c.Write(append(b, payload...))
	return err
}

// Next reads the next frame and returns its opcode and the length of its payload. As much of the payload
// as fits is copied to to. A ping is answered.
func (c *Socket) Next(to []byte) (op byte, n int, err error) {
	first, err := c.in.Peek(2)
	if err != nil {
		return 0, 0, err
	}
	op, n = first[0]&opMask, int(first[1])
	switch n {
	case 126:
		b, err := c.in.Peek(4)
		if err != nil {
			return 0, 0, err
		}
		n = int(binary.BigEndian.Uint16(b[2:]))
		_, _ = c.in.Discard(4)
	case 127:
		b, err := c.in.Peek(10)
		if err != nil {
			return 0, 0, err
		}
		n = int(binary.BigEndian.Uint64(b[2:]))
		_, _ = c.in.Discard(10)
	default:
		_, _ = c.in.Discard(2)
	}
	have := min(n, len(to))
	if _, err := io.ReadFull(c.in, to[:have]); err != nil {
		return 0, 0, err
	}
	if _, err := c.in.Discard(n - have); err != nil {
		return 0, 0, err
	}
	if op == opPinging {
		err = c.send(pongFrame, to[:have])
	}
	return op, n, err
}

// Closing reads until the server's close frame and returns its code and reason.
func (c *Socket) Closing() (code int, reason string, err error) {
	var payload [125]byte
	for {
		op, n, err := c.Next(payload[:])
		if err != nil {
			return 0, "", err
		}
		if op == opClosing && n >= 2 {
			return int(binary.BigEndian.Uint16(payload[:])), string(payload[2:n]), nil
		}
	}
}

func (s *Sockets) read(c *Socket) {
	var control [125]byte
	for {
		op, _, err := c.Next(control[:])
		if err != nil || op == opClosing {
			if !s.leaving.Load() {
				s.ended.Add(1)
			}
			return
		}
		s.messages.Add(1)
	}
}

// Received returns how many messages all sockets have received, pings included, and how many sockets the
// server has ended.
func (s *Sockets) Received() (messages, ended uint64) { return s.messages.Load(), s.ended.Load() }

// Leave closes the sockets and waits until they have ended. It may be called more than once.
func (s *Sockets) Leave() {
	s.leaving.Store(true)
	for _, c := range s.conns {
		c.Close()
	}
	s.running.Wait()
}
