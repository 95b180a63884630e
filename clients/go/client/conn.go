package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"outcry/internal/door/xml/wire"
)

// Conn is one connection to an exchange that carries frames: XML out, XML in. It knows
// nothing of what is in them, sends nothing twice, and does not connect again. It
// allocates nothing for a frame that is no larger than those before it.
//
// One goroutine may send while another reads. Deadlines may be set, and Close called,
// from any.
type Conn struct {
	conn    net.Conn
	replies *wire.FrameReader
	out     []byte // frames that Flush will send
}

// DialConn connects to the exchange at addr, proves with the token if there is one,
// and returns the connection. Of o it looks at TLS, Token, InsecureToken, DialTimeout,
// CancelOnDisconnect, SilenceTime, ReplyBytesMax and Log. The error is ctx's, that of the network or of TLS,
// ErrInsecureToken, an *Unauthorized, *LastWords that are not about the token, such as
// that there are too many connections, or a *ProtocolError.
//
// If addr is several addresses with commas between them, DialConn tries all of them, again
// until RetryTime has passed, and returns a connection to the first that answers a frame
// without effect. The error has those of all addresses.
func DialConn(ctx context.Context, addr string, o Options) (*Conn, error) {
	o.setDefaults()
	addrs, err := split(addr)
	if err != nil {
		return nil, err
	}
	conn, _, err := o.dialAny(ctx, addrs)
	return conn, err
}

// dialAny is DialConn, and returns the address as well.
func (o *Options) dialAny(ctx context.Context, addrs []string) (*Conn, string, error) {
	if len(addrs) > 1 {
		return o.search(ctx, addrs)
	}
	conn, err := dialOne(ctx, addrs[0], *o)
	return conn, addrs[0], err
}

// dialOne connects to one address.
func dialOne(ctx context.Context, addr string, o Options) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	conn, err := o.connect(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := NewConn(conn, o.ReplyBytesMax)
	if at, ok := conn.RemoteAddr().(*net.TCPAddr); ok && o.Token != "" && o.TLS == nil && !at.IP.IsLoopback() {
		if !o.InsecureToken {
			conn.Close()
			return nil, fmt.Errorf("client: %s: %w", addr, ErrInsecureToken)
		}
		o.Log.Warn("the token is sent over a connection that is not encrypted", "addr", addr)
	}
	if err := c.begin(ctx, &o); err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err() // what ended the wait, not how
		}
		return nil, fmt.Errorf("client: %s: %w", addr, err)
	}
	return c, nil
}

// connect makes the connection under a Conn.
func (o *Options) connect(ctx context.Context, addr string) (net.Conn, error) {
	switch {
	case o.dial != nil:
		return o.dial(ctx, addr)
	case o.TLS != nil:
		d := tls.Dialer{Config: o.TLS}
		return d.DialContext(ctx, "tcp", addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// NewConn returns a Conn on a connection that is there already, such as one that was
// made through a proxy. A reply of more than replyBytesMax bytes is an error. The Conn
// takes conn over.
func NewConn(conn net.Conn, replyBytesMax int) *Conn {
	return &Conn{conn: conn, replies: wire.NewFrameReader(conn, replyBytesMax)}
}

// authorized is the reply to a token that is good.
var authorized = []byte("<results><authorized/></results>")

// begin sends what comes before everything else: the token, and what is to happen when the connection
// ends. ctx ends the wait.
func (c *Conn) begin(ctx context.Context, o *Options) error {
	if o.Token != "" {
		var frame bytes.Buffer
		frame.WriteString(`<auth token="`)
		_ = xml.EscapeText(&frame, []byte(o.Token)) // a buffer takes everything
		frame.WriteString(`"/>`)
		reply, err := c.ask(ctx, frame.Bytes())
		if err == nil && !bytes.Equal(reply, authorized) {
			err = refusedToken(reply)
		}
		if err != nil {
			return fmt.Errorf("prove the token: %w", err)
		}
	}
	if !o.CancelOnDisconnect {
		return nil
	}
	frame := `<session cancel="disconnect"/>`
	if o.SilenceTime > 0 {
		frame = fmt.Sprintf(`<session cancel="disconnect" timeout="%d"/>`, max(o.SilenceTime/time.Second, 1))
	}
	reply, err := c.ask(ctx, []byte(frame))
	if err == nil {
		err = refusedSession(reply)
	}
	if err != nil {
		return fmt.Errorf("ask for a cancel on disconnect: %w", err)
	}
	return nil
}

// ask sends a frame and returns its reply, which is valid until the next is read. ctx ends the wait.
func (c *Conn) ask(ctx context.Context, frame []byte) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c.SendFrame(frame)
	_ = c.Flush() // what the exchange said before, and closed, is the better reason
	reply, err := c.NextReply()
	switch {
	case err != nil:
		return nil, err
	case !stop():
		return nil, ctx.Err() // the deadline is set, or is being set
	}
	return reply, nil
}

// refusedSession is the error for a reply that does not say that the session is one, nil if it does.
func refusedSession(reply []byte) error {
	answers, err := wire.ParseReply(reply)
	if last := lastWords(answers); last != nil {
		return unshown(last)
	}
	if err != nil || len(answers) != 1 || answers[0].Kind != "session" {
		return newProtocolError("it does not answer <session>", reply)
	}
	return nil
}

// refusedToken is the error for a reply other than authorized. It does not repeat more
// of it than the exchange's text: that could be anything, the token among it.
func refusedToken(reply []byte) error {
	answers, err := wire.ParseReply(reply)
	last := lastWords(answers)
	switch {
	case err != nil || last == nil:
		return &ProtocolError{Text: "the answer to a token is not one"}
	case wire.IsUnauthorized(last.Text):
		return &Unauthorized{Text: last.Text}
	}
	return unshown(last)
}

// unshown is the error for last words that take the place of a reply: an *Unauthorized if
// they demand a token, and an ErrNeedsTLS if they demand TLS, which an exchange says before it does anything.
func unshown(last *LastWords) error {
	if strings.HasPrefix(last.Text, wire.TextNeedsTLS) {
		return fmt.Errorf("%w: %w", ErrNeedsTLS, last)
	}
	if wire.IsUnauthorized(last.Text) {
		return &Unauthorized{Text: last.Text, None: true}
	}
	return last
}

// probe sends a frame without effect and reads its answer.
func (c *Conn) probe() error {
	c.SendFrame([]byte("<create/>"))
	_ = c.Flush() // what the exchange said before, and closed, is the better reason
	reply, err := c.NextReply()
	if err != nil {
		return err
	}
	answers, err := wire.ParseReply(reply)
	if err != nil {
		return newProtocolError(err.Error(), reply)
	}
	if last := lastWords(answers); last != nil {
		return unshown(last)
	}
	if len(answers) > 0 {
		return newProtocolError("there are answers to no command", reply)
	}
	return nil
}

// SendFrame adds a frame with that XML to what the next Flush sends. It keeps a copy;
// how much gathers is up to the caller.
func (c *Conn) SendFrame(xml []byte) { c.out = wire.AppendFrame(c.out, xml) }

// Unflushed returns how many bytes the next Flush sends.
func (c *Conn) Unflushed() int { return len(c.out) }

// Flush sends the frames that SendFrame has gathered, with one write. After an error,
// which is the network's, any part of them may have arrived, and the rest is dropped:
// the connection is of no use for sending any more, but may still have replies.
func (c *Conn) Flush() error {
	_, err := c.flush()
	return err
}

// flush is Flush, and tells how many bytes have left.
func (c *Conn) flush() (n int, err error) {
	if len(c.out) > 0 {
		n, err = c.conn.Write(c.out)
		c.out = c.out[:0]
	}
	return n, err
}

// NextReply returns the XML of the next reply, which is valid until the next call. It
// waits for it. The error is io.EOF if the exchange has closed the connection
// between replies, io.ErrUnexpectedEOF where within one, a *ProtocolError where what
// comes is not a frame or is too large, or the network's. Every error is final.
func (c *Conn) NextReply() ([]byte, error) {
	reply, err := c.replies.Next()
	if err != nil {
		var bad *wire.FrameError
		if errors.As(err, &bad) {
			err = &ProtocolError{Text: bad.Text}
		}
		return nil, err
	}
	return reply, nil
}

// Buffered reports whether NextReply would return without waiting for the network.
func (c *Conn) Buffered() bool { return c.replies.Buffered() }

// SetDeadline sets the time at which what sends or reads ends with
// os.ErrDeadlineExceeded; the zero time is never.
func (c *Conn) SetDeadline(t time.Time) error { return c.conn.SetDeadline(t) }

// SetReadDeadline is SetDeadline for NextReply alone.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.conn.SetReadDeadline(t) }

// SetWriteDeadline is SetDeadline for Flush alone.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.conn.SetWriteDeadline(t) }

// Raw returns the connection itself, for what a Conn has no method for, such as ending
// the sending side, or sending what is no frame. Who reads from it takes replies away.
func (c *Conn) Raw() net.Conn { return c.conn }

// Close closes the connection. What waits ends with net.ErrClosed.
func (c *Conn) Close() error { return c.conn.Close() }
