package dialect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Options are for all connections to a server.
type Options struct {
	Habits Habits
	// Remark is called for each fault of form that Habits does not have, at most once a form and
	// reply; from any goroutine. May be nil.
	Remark func(Remark)
	// ReplyTime is how long a frame may take to be taken, and a reply to arrive; 0 is ReplyTime.
	ReplyTime time.Duration
}

// Dialer makes connections. It is safe for concurrent use.
type Dialer interface {
	// Dial returns a connection, which the caller closes. The error is a *Broken: Refused or TimedOut.
	// If the server closes after each reply, the connection is made by the first Send.
	Dial(ctx context.Context) (*Conn, error)
}

// OpenFunc opens a connection to the server. It bounds how long that takes: the server may have to
// be started first.
type OpenFunc func(ctx context.Context) (net.Conn, error)

// Connector is the Dialer of a server on TCP. It is safe for concurrent use.
type Connector struct {
	Addr    string   // host and port
	Open    OpenFunc // instead of Addr; may be nil
	Options Options
}

// Dial connects to the server.
func (c *Connector) Dial(ctx context.Context) (*Conn, error) {
	h := c.Options.Habits
	conn := &Conn{connector: c, alone: h.OneFrame, errorEnds: h.ErrorCloses, time: c.Options.ReplyTime}
	if conn.time == 0 {
		conn.time = ReplyTime
	}
	if conn.alone { // a server that is serial would wait for a frame on it, and serve nobody else
		return conn, nil
	}
	if err := conn.connect(ctx); err != nil {
		return nil, err
	}
	return conn, nil
}

// open opens a connection of TCP, to Addr within a time.
func (c *Connector) open(ctx context.Context, within time.Duration) (net.Conn, error) {
	if c.Open != nil {
		return c.Open(ctx)
	}
	return (&net.Dialer{Timeout: within}).DialContext(ctx, "tcp", c.Addr)
}

// Conn is a connection to a server, in the server's habits. If they are to close after each reply,
// each frame gets a connection of its own; if after an error, the frame behind one gets a new one. It is used
// by one goroutine, which closes it. Everything that the server sends is read while frames are written, up to
// unreadMax bytes ahead of Receive.
type Conn struct {
	connector *Connector
	time      time.Duration // for a frame, and for a reply
	alone     bool          // each frame has a connection of its own
	errorEnds bool          // so has the frame behind a reply that has an error

	conn  net.Conn // nil if there is none
	in    *inbox   // of conn
	chunk []byte   // taken from in, and not yet read

	sent []string // documents without a reply so far
	held []string // documents that wait for the replies to those before; only if alone, or errorEnds
	raw  []byte   // the beginning of what SendRaw sent; from then on no reply is the one to a document
}

// connect makes the connection.
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

// Strict makes c one connection of TCP, whatever the habits are: for what is about the connection
// itself. It is called before the first Send.
func (c *Conn) Strict() { c.alone, c.errorEnds = false, false }

// Send sends a document as a frame: with its length in bytes, and the account of <transactions> in
// the attribute that the server knows. A server that has closed the connection is no error: Receive
// reports that, behind the replies that came before. The error is a *Broken: TimedOut (the server
// does not read), or Refused if a connection has to be made first.
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

// send sends a document now.
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

// Frame returns a document with its length in bytes before it, on a line that ends with LF, or CR LF.
func Frame(doc string, crlf bool) []byte {
	end := "\n"
	if crlf {
		end = "\r\n"
	}
	return fmt.Appendf(nil, "%d%s%s", len(doc), end, doc)
}

// SendRaw sends bytes as they are. Errors are those of Send.
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

// write writes b, on a new connection if there is none.
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
	return nil // a connection that was closed is Receive's to report
}

// Receive returns the next reply, and remarks what is wrong in its form. The error is a *Broken.
func (c *Conn) Receive(ctx context.Context) (*Reply, error) {
	if len(c.sent) == 0 && len(c.held) > 0 {
		next := c.held[0]
		c.held = c.held[1:]
		if err := c.send(ctx, next); err != nil {
			return nil, err
		}
	}
	if c.conn == nil {
		return nil, &Broken{Kind: Closed, Err: errors.New("nothing was sent since its last reply")}
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

// hasError reports whether an element is an error, or has one in it.
func hasError(e *Element) bool { return e.Name == "error" || slices.ContainsFunc(e.Children, hasError) }

// answered returns the oldest document without a reply, which has one now.
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

// CloseWrite says that nothing more will be sent; replies can still be received. Errors are those of Send.
func (c *Conn) CloseWrite(ctx context.Context) error {
	if c.conn == nil {
		if err := c.connect(ctx); err != nil {
			return err
		}
	}
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite() // of a connection that was closed is Receive's to report
	}
	return nil
}

// WaitClosed returns when the server has closed, or reset, the connection, with the last reply that
// came before; nil if none came that Receive has not returned. What came and is no reply does not
// matter. The error is a *Broken, TimedOut: the server leaves the connection open.
func (c *Conn) WaitClosed(ctx context.Context) (last *Reply, err error) {
	within, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	c.errorEnds = false // whether the server closes is what is asked for
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
		_, err := c.in.take(within)
		if b := new(Broken); errors.As(err, &b) && b.Kind == Closed {
			return last, nil
		} else if err != nil {
			return last, &Broken{Kind: TimedOut, Got: got, Err: errOpen}
		}
	}
	return last, nil
}

// Close closes the connection, and returns when nothing of it runs. It may be called twice.
func (c *Conn) Close() {
	c.disconnect()
	c.held, c.sent = nil, nil
}

// disconnect closes the connection of TCP, if there is one.
func (c *Conn) disconnect() {
	if c.conn != nil {
		c.in.stop()
		c.conn, c.in, c.chunk = nil, nil, nil
	}
}
