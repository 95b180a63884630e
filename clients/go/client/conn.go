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

// Conn is one connection to an exchange that carries frames of XML in both directions. It does not interpret their
// contents, resend anything, or reconnect. It allocates no memory for a frame that is no larger than those before it.
//
// One goroutine may send while another reads. Deadlines may be set and Close called from any goroutine.
type Conn struct {
	conn    net.Conn
	replies *wire.FrameReader
	out     []byte // frames that the next Flush sends
}

// DialConn connects to the exchange at addr, authenticates with the token if there is one, and returns the
// connection. Of o it uses TLS, Token, InsecureToken, DialTimeout, CancelOnDisconnect, SilenceTime,
// ReplyBytesMax and Log. The error is ctx's, that of the network or of TLS, ErrInsecureToken, an
// *Unauthorized, *LastWords that are not about the token (for example too many connections), or a
// *ProtocolError.
//
// If addr is several addresses separated by commas, DialConn tries all of them repeatedly for up to
// RetryTime, and returns a connection to the first that answers a frame without effect. The error then has
// those of all addresses.
func DialConn(ctx context.Context, addr string, o Options) (*Conn, error) {
	o.setDefaults()
	addrs, err := split(addr)
	if err != nil {
		return nil, err
	}
	conn, _, err := o.dialAny(ctx, addrs)
	return conn, err
}

// dialAny is DialConn for a list of addresses. It also returns the address of the connection.
func (o *Options) dialAny(ctx context.Context, addrs []string) (*Conn, string, error) {
	if len(addrs) > 1 {
		return o.search(ctx, addrs)
	}
	conn, err := dialOne(ctx, addrs[0], *o)
	return conn, addrs[0], err
}

// dialOne connects to one address and starts the session.
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
			err = ctx.Err() // err is only an effect of the end of ctx
		}
		return nil, fmt.Errorf("client: %s: %w", addr, err)
	}
	return c, nil
}

// connect opens the network connection for a Conn.
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

// NewConn returns a Conn on an existing connection, such as one made through a proxy. A reply of more than
// replyBytesMax bytes is an error. The Conn owns conn from then on.
func NewConn(conn net.Conn, replyBytesMax int) *Conn {
	return &Conn{conn: conn, replies: wire.NewFrameReader(conn, replyBytesMax)}
}

// authorized is the reply to a valid token.
var authorized = []byte("<results><authorized/></results>")

// begin sends what must precede all other frames: the token, and the request for cancel on disconnect. It
// returns when they are answered or ctx ends.
func (c *Conn) begin(ctx context.Context, o *Options) error {
	if o.Token != "" {
		var frame bytes.Buffer
		frame.WriteString(`<auth token="`)
		_ = xml.EscapeText(&frame, []byte(o.Token)) // cannot fail: a buffer accepts all writes
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

// ask sends a frame and returns its reply, which is valid until the next reply is read. It returns early if
// ctx ends.
func (c *Conn) ask(ctx context.Context, frame []byte) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c.SendFrame(frame)
	_ = c.Flush() // if this fails, NextReply may return the exchange's reason, which is the better error
	reply, err := c.NextReply()
	switch {
	case err != nil:
		return nil, err
	case !stop():
		return nil, ctx.Err() // the deadline is set or about to be set
	}
	return reply, nil
}

// refusedSession returns the error for a reply that does not accept the session, or nil if the reply
// accepts it.
func refusedSession(reply []byte) error {
	answers, err := wire.ParseReply(reply)
	if last := lastWords(answers); last != nil {
		return unshown(last)
	}
	if err != nil || len(answers) != 1 || answers[0].Kind != "session" {
		return newProtocolError("it is not an answer to <session>", reply)
	}
	return nil
}

// refusedToken returns the error for a reply other than authorized. The error quotes only the exchange's
// text, since the rest of the reply could contain anything, including the token.
func refusedToken(reply []byte) error {
	answers, err := wire.ParseReply(reply)
	last := lastWords(answers)
	switch {
	case err != nil || last == nil:
		return &ProtocolError{Text: "the answer to the token is invalid"}
	case wire.IsUnauthorized(last.Text):
		return &Unauthorized{Text: last.Text}
	}
	return unshown(last)
}

// unshown returns the error for last words that arrive in place of a reply: an *Unauthorized if they require
// a token, or an ErrNeedsTLS if they require TLS, which an exchange does before it executes anything.
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
	_ = c.Flush() // if this fails, NextReply may return the exchange's reason, which is the better error
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
		return newProtocolError("there are more answers than commands", reply)
	}
	return nil
}

// SendFrame adds a frame with the given XML to the output of the next Flush. It copies xml. The output
// grows without limit until the caller flushes it.
func (c *Conn) SendFrame(xml []byte) { c.out = wire.AppendFrame(c.out, xml) }

// Unflushed returns how many bytes the next Flush sends.
func (c *Conn) Unflushed() int { return len(c.out) }

// Flush sends the frames that SendFrame has added, with one write. After an error, which is the network's, some of
// them may have arrived completely or in part, and the rest is dropped. The connection can then no longer send, but
// replies may still be read.
func (c *Conn) Flush() error {
	_, err := c.flush()
	return err
}

// flush is Flush, and also returns how many bytes were sent.
func (c *Conn) flush() (n int, err error) {
	if len(c.out) > 0 {
		n, err = c.conn.Write(c.out)
		c.out = c.out[:0]
	}
	return n, err
}

// NextReply waits for the next reply and returns its XML, which is valid until the next call. The error is
// io.EOF if the exchange closed the connection between replies, io.ErrUnexpectedEOF if it closed it within
// one, a *ProtocolError if the input is not a frame or is too large, or the network's. No reply can be read
// after an error.
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

// SetDeadline sets the time at which sending and reading fail with os.ErrDeadlineExceeded. The zero time
// means never.
func (c *Conn) SetDeadline(t time.Time) error { return c.conn.SetDeadline(t) }

// SetReadDeadline is SetDeadline for NextReply alone.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.conn.SetReadDeadline(t) }

// SetWriteDeadline is SetDeadline for Flush alone.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.conn.SetWriteDeadline(t) }

// Raw returns the underlying connection, for things that Conn has no method for, such as closing the sending side, or
// sending bytes that are not a frame. Reading from it takes bytes away from NextReply.
func (c *Conn) Raw() net.Conn { return c.conn }

// Close closes the connection. Pending reads and writes fail with net.ErrClosed.
func (c *Conn) Close() error { return c.conn.Close() }
