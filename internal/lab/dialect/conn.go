package dialect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Options apply to all connections to a server.
type Options struct {
	Habits Habits
	// Remark is called for each deviation in form that Habits does not declare, at most once for each form in each
	// reply. It is called from any goroutine. May be nil.
	Remark func(Remark)
	// ReplyTime limits both how long writing a frame may take and how long a reply may take to arrive. 0 means the
	// constant ReplyTime.
	ReplyTime time.Duration
}

// Dialer makes connections. It is safe for concurrent use.
type Dialer interface {
	// Dial returns a connection, which the caller must close. The error is a *Broken: Refused or TimedOut.
	// If the server closes after each reply, Dial does not connect yet: the first Send does.
	Dial(ctx context.Context) (*Conn, error)
}

// OpenFunc opens a connection to the server. It limits its own duration, since it may have to start
// the server first.
type OpenFunc func(ctx context.Context) (net.Conn, error)

// Connector is the Dialer for a server on TCP. It is safe for concurrent use.
type Connector struct {
	Addr    string   // host and port
	Open    OpenFunc // used instead of Addr; may be nil
	Options Options
}

// Dial is part of Dialer.
func (c *Connector) Dial(ctx context.Context) (*Conn, error) {
	h := c.Options.Habits
	conn := &Conn{connector: c, alone: h.OneFrame, errorEnds: h.ErrorCloses, time: c.Options.ReplyTime}
	if conn.time == 0 {
		conn.time = ReplyTime
	}
	if conn.alone { // a serial server would wait for a frame on an unused connection and serve no other
		return conn, nil
	}
	if err := conn.connect(ctx); err != nil {
		return nil, err
	}
	return conn, nil
}

// open opens a TCP connection: with c.Open if that is set, otherwise to Addr, with within as its time limit.
func (c *Connector) open(ctx context.Context, within time.Duration) (net.Conn, error) {
	if c.Open != nil {
		return c.Open(ctx)
	}
	return (&net.Dialer{Timeout: within}).DialContext(ctx, "tcp", c.Addr)
}

// Conn is a connection that speaks in the server's habits. If the server closes after each reply, each frame is
// sent on a new TCP connection. If it closes after a reply with an error, only the frame after such a reply is. A
// Conn is used by one goroutine, which must close it. Everything that the server sends is read while frames are
// written, up to unreadMax bytes ahead of Receive.
type Conn struct {
	connector *Connector
	time      time.Duration // limit for writing a frame, and for receiving a reply
	alone     bool          // each frame has its own TCP connection
	errorEnds bool          // the frame after a reply with an error has a new TCP connection

	conn  net.Conn // nil while disconnected
	in    *inbox   // reads conn
	chunk []byte   // bytes taken from in, and not yet parsed

	sent []string // documents sent and not yet answered
	held []string // documents to send once earlier ones are answered; only if alone or errorEnds
	raw  []byte   // the first bytes that SendRaw sent; once set, replies are no longer matched to documents
}

// connect makes the TCP connection and starts its inbox. The error is a *Broken: Refused or TimedOut.
func (c *Conn) connect(ctx context.Context) error {
	conn, err := c.connector.open(ctx, c.time)
	switch {
	case err != nil && ctx.Err() != nil:
		return &Broken{Kind: TimedOut, Err: ctx.Err()}
	case err != nil:
		return &Broken{Kind: Refused, Err: err}
	}
	c.conn, c.in, c.chunk = conn, newInbox(conn), nil
	return nil
}

// Strict makes c use exactly one TCP connection, whatever the habits are. It is for cases that test
// the connection itself, and must be called before the first Send.
func (c *Conn) Strict() { c.alone, c.errorEnds = false, false }

// Send sends a document as a frame, with its length in bytes and with the account of <transactions> in
// the attribute that the server knows. If the server has closed the connection, Send returns nil, and
// Receive returns the replies that arrived before and then the error. The error is a *Broken: TimedOut
// if the server does not read, or Refused if Send has to connect first and cannot.
func (c *Conn) Send(ctx context.Context, doc string) error {
	if (c.alone || c.errorEnds) && len(c.sent)+len(c.held) > 0 {
		if len(c.held) == heldMax {
			return &Broken{Kind: TimedOut, Err: fmt.Errorf("more than %d frames wait for a reply", heldMax)}
		}
		c.held = append(c.held, doc)
		return nil
	}
	return c.send(ctx, doc)
}

// send sends a document at once, without holding it back.
func (c *Conn) send(ctx context.Context, doc string) error {
	h := c.connector.Options.Habits
	if h.AccountAttribute {
		doc = withAccount(doc)
	}
	if err := c.write(ctx, Frame(doc, h.CRLF)); err != nil {
		return err
	}
	c.sent = append(c.sent, doc)
	return nil
}

// Frame returns doc after a line with its length in bytes. The line ends with CR LF if crlf, otherwise with LF.
func Frame(doc string, crlf bool) []byte {
	end := "\n"
	if crlf {
		end = "\r\n"
	}
	return fmt.Appendf(nil, "%d%s%s", len(doc), end, doc)
}

// SendRaw sends bytes unchanged. Errors are those of Send.
func (c *Conn) SendRaw(ctx context.Context, b []byte) error {
	if err := c.write(ctx, b); err != nil {
		return err
	}
	if c.raw == nil {
		c.raw = []byte{}
	}
	c.raw = append(c.raw, b[:min(len(b), ExcerptMax+1-min(len(c.raw), ExcerptMax+1))]...)
	return nil
}

// write writes b, on a new TCP connection if c is disconnected.
func (c *Conn) write(ctx context.Context, b []byte) error {
	if c.conn == nil {
		if err := c.connect(ctx); err != nil {
			return err
		}
	}
	within, cancel := context.WithTimeout(ctx, c.time)
	c.conn.SetWriteDeadline(time.Time{})
	late := make(chan struct{})
	stop := context.AfterFunc(within, func() {
		c.conn.SetWriteDeadline(time.Unix(1, 0))
		close(late)
	})
	_, err := c.conn.Write(b)
	if !stop() {
		<-late
	}
	cancel()
	if err != nil && within.Err() != nil && isTimeout(err) {
		return &Broken{Kind: TimedOut, Err: ctx.Err()}
	}
	return nil // if the server closed the connection, Receive reports it
}

// Receive returns the next reply, and reports faults of its form as remarks. The error is a *Broken.
func (c *Conn) Receive(ctx context.Context) (*Reply, error) {
	if len(c.sent) == 0 && len(c.held) > 0 {
		next := c.held[0]
		c.held = c.held[1:]
		if err := c.send(ctx, next); err != nil {
			return nil, err
		}
	}
	if c.conn == nil {
		return nil, &Broken{Kind: Closed, Err: errors.New("no frame was sent since its last reply")}
	}
	within, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	o := c.connector.Options
	r := reading{ctx: within, in: c.in, chunk: &c.chunk, habits: o.Habits, faults: map[Form]string{}}
	root, declared, err := r.reply()
	sent := c.answered()
	if c.alone || c.errorEnds && err == nil && hasError(root) {
		c.disconnect()
	}
	if err != nil {
		if b := err.(*Broken); b.Kind == TimedOut {
			b.Err = ctx.Err()
		}
		return nil, err
	}
	reply := &Reply{Root: root, Raw: excerpt(string(r.raw)), Declared: declared, remark: o.Remark}
	if c.raw == nil {
		reply.Sent = sent
	} else {
		sent = string(c.raw)
	}
	reply.report(r.remarks(root, time.Now()), sent)
	return reply, nil
}

// hasError reports whether e or an element in it is an <error>.
func hasError(e *Element) bool { return e.Name == "error" || slices.ContainsFunc(e.Children, hasError) }

// answered removes the oldest unanswered document and returns it, or "" if all are answered.
func (c *Conn) answered() string {
	if len(c.sent) == 0 {
		return ""
	}
	doc := c.sent[0]
	c.sent = c.sent[1:]
	return doc
}

// Do sends a document and returns its reply. The error is a *Broken.
func (c *Conn) Do(ctx context.Context, doc string) (*Reply, error) {
	if err := c.Send(ctx, doc); err != nil {
		return nil, err
	}
	return c.Receive(ctx)
}

// CloseWrite ends the sending side of the connection; replies can still be received. Errors are those of Send.
func (c *Conn) CloseWrite(ctx context.Context) error {
	if c.conn == nil {
		if err := c.connect(ctx); err != nil {
			return err
		}
	}
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite() // if the connection is closed already, Receive reports it
	}
	return nil
}

// WaitClosed waits until the server has closed or reset the connection. It returns the last reply that
// arrived before and that Receive has not returned, or nil if there is none. Bytes that are no reply
// are ignored. The error is a *Broken, TimedOut, if the server leaves the connection open.
func (c *Conn) WaitClosed(ctx context.Context) (last *Reply, err error) {
	within, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	c.errorEnds = false // the server must close the connection here, not this end
	for c.conn != nil && err == nil {
		var r *Reply
		if r, err = c.Receive(within); err == nil {
			last = r
		}
	}
	got := ""
	if b := new(Broken); errors.As(err, &b) {
		got = b.Got
	}
	for c.conn != nil {
		_, err := c.in.next(within)
		if b := new(Broken); errors.As(err, &b) && b.Kind == Closed {
			return last, nil
		} else if err != nil {
			return last, &Broken{Kind: TimedOut, Got: got, Err: errOpen}
		}
	}
	return last, nil
}

// Close closes the connection, and returns when its goroutine has ended. It may be called twice.
func (c *Conn) Close() {
	c.disconnect()
	c.held, c.sent = nil, nil
}

// disconnect closes the TCP connection, if there is one.
func (c *Conn) disconnect() {
	if c.conn != nil {
		c.in.stop()
		c.conn, c.in, c.chunk = nil, nil, nil
	}
}
