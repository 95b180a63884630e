package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"outcry/clients/go/client"
)

// link is a connection that carries frames. client.Conn implements it.
type link interface {
	SendFrame(xml []byte)
	Unflushed() int
	Flush() error
	NextReply() ([]byte, error)
	Buffered() bool
	SetDeadline(t time.Time) error
	Close() error
}

// dial connects to the server of connection n, with the server's habits.
func (o *Options) dial(ctx context.Context, n int) (link, error) {
	addr := o.addr(n)
	if how := o.Client; how.TLS != nil || how.Token != "" || how.CancelOnDisconnect {
		how.DialTimeout, how.ReplyBytesMax = dialTimeout, cmp.Or(o.ReplyBytesMax, replyBytesMax)
		c, err := client.DialConn(ctx, addr, how)
		if err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
		return c, nil
	}
	d := net.Dialer{Timeout: dialTimeout}
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	codec, err := o.greet(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("load: %s: %w", addr, err)
	}
	return &coded{Conn: conn, codec: codec}, nil
}

// dialAll makes all connections. On an error it closes those it has made.
func (o *Options) dialAll(ctx context.Context) ([]link, error) {
	conns := make([]link, 0, o.Connections)
	for n := range o.Connections {
		c, err := o.dial(ctx, n)
		if err != nil {
			for _, c := range conns {
				c.Close()
			}
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// greet returns the codec of a new connection.
func (o *Options) greet(conn net.Conn) (Codec, error) {
	switch h := o.Habits; {
	case o.Greet != nil:
		if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
			return nil, err
		}
		codec, err := o.Greet(conn)
		return codec, errors.Join(err, conn.SetDeadline(time.Time{}))
	case h.CRLF || h.Bare || h.WrongLength || h.ResultRoot:
		return newLoose(h, o.ReplyBytesMax), nil
	}
	return &framed{most: cmp.Or(o.ReplyBytesMax, replyBytesMax)}, nil
}

// coded is a connection with a codec.
type coded struct {
	net.Conn
	codec Codec
	out   []byte // requests to be sent by Flush
	in    []byte // bytes received; those from at on are not processed yet
	at    int
	next  []byte // a reply found by Buffered, or nil
}

// codedBytes is the minimum free space for a read.
const codedBytes = 4 << 10

// SendFrame implements link.
func (c *coded) SendFrame(xml []byte) { c.out = c.codec.Append(c.out, xml) }

// Unflushed implements link.
func (c *coded) Unflushed() int { return len(c.out) }

// Flush implements link.
func (c *coded) Flush() error {
	_, err := c.Write(c.out)
	c.out = c.out[:0]
	return err
}

// cut returns the next complete reply received, or nil if no reply is complete.
func (c *coded) cut() ([]byte, error) {
	for {
		reply, n, err := c.codec.Cut(c.in[c.at:])
		c.at += n
		if reply != nil || n == 0 || err != nil {
			return reply, err
		}
	}
}

// NextReply implements link. It returns io.EOF if the server has closed the connection between replies,
// io.ErrUnexpectedEOF if it closed within a reply, the codec's error, or the network's.
func (c *coded) NextReply() ([]byte, error) {
	if reply := c.next; reply != nil {
		c.next = nil
		return reply, nil
	}
	for {
		reply, err := c.cut()
		if reply != nil || err != nil {
			return reply, err
		}
		c.in = c.in[:copy(c.in, c.in[c.at:])]
		c.at = 0
		c.in = slices.Grow(c.in, codedBytes)
		n, err := c.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+n]
		if n > 0 {
			continue
		}
		if errors.Is(err, io.EOF) && !idle(c.codec, c.in) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
}

// Buffered implements link.
func (c *coded) Buffered() bool {
	if c.next == nil {
		c.next, _ = c.cut() // NextReply returns the error again
	}
	return c.next != nil
}
