// Package websocket is the server side of WebSocket (RFC 6455, without extensions and subprotocols), as the doors need
// it. Messages are ready-made frames that any number of connections share. Each connection has one bounded queue of
// frames; a reader that is too slow for its queue is cut off, or gets only the newest state. The package does not
// know what messages contain.
//
// An idle connection has one goroutine, which reads, and a buffer of 4 KiB. A second goroutine writes while frames
// wait.
package websocket

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"outcry/internal/process/trywrite"
)

const (
	// drainGrace is how long the server still reads a connection when it stops: long enough for bytes in the kernel.
	drainGrace = 50 * time.Millisecond
	// replyTimeout is the maximum time to send the answer to a handshake.
	replyTimeout = 10 * time.Second

	// Defaults of Options.
	pingEveryUsual    = 20 * time.Second
	closeTimeoutUsual = 10 * time.Second
)

// Options configure a Server. A field with its zero value has the default that its comment names last.
type Options struct {
	// Max returns the maximum number of connections. Default: no bound.
	Max func() int
	// IdleTimeout returns how long a client may be silent, if that is less than the time of two pings. Default: no bound.
	IdleTimeout func() time.Duration
	// PingEvery is the time between pings. A client that is silent from one ping to the next is disconnected.
	// Default: 20 s.
	PingEvery time.Duration
	// CloseTimeout is the time that a client has to read the pending output and to answer a close. Default: 10 s.
	CloseTimeout time.Duration
	// Origins are the origins whose pages may connect in addition to the server's own, exactly as browsers send them.
	// Default: none.
	Origins []string

	Log     *slog.Logger // gets a line for each connection in trouble; nil means no log
	Metrics *Metrics     // nil means no metrics
}

func (o *Options) setDefaults() {
	if o.Max == nil {
		o.Max = func() int { return int(^uint(0) >> 1) }
	}
	if o.IdleTimeout == nil {
		o.IdleTimeout = func() time.Duration { return 0 }
	}
	if o.PingEvery == 0 {
		o.PingEvery = pingEveryUsual
	}
	if o.CloseTimeout == 0 {
		o.CloseTimeout = closeTimeoutUsual
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
}

// Server holds the WebSocket connections of all doors. Its methods may be called from any goroutine.
type Server struct {
	options Options
	pacer   *pacer
	running sync.WaitGroup // counts connections

	mu       sync.Mutex // guards the fields below
	conns    map[*Conn]struct{}
	draining bool
}

// NewServer returns a server without connections. Callers end it with Shutdown.
func NewServer(o Options) *Server {
	o.setDefaults()
	return &Server{options: o, pacer: newPacer(), conns: make(map[*Conn]struct{})}
}

// Serve answers a request to open a WebSocket. If the request is valid, Serve calls open, which decides whether the
// connection is accepted and returns the function that serves it. open may use only Abort, OnSlow and RemoteAddr of
// the connection. Its error is sent to the client with status 503.
//
// If open returns serve, serve is called exactly once, in a goroutine of its own, even if the client has disconnected
// by then (Read returns ErrClosed). It should return once Read has returned an error and all messages that were read
// are answered, and may return earlier. Then the connection ends: with CodeGoingAway if the server stops, else with
// CodeNormal, unless it was closed before.
//
// Serve returns once the request is answered. Callers must not use w and r after that.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, open func(c *Conn) (serve func(), err error)) {
	accept, refused := s.check(r)
	if refused != nil {
		refused.write(w)
		return
	}
	c := newConn(s, r.RemoteAddr)
	if err := s.add(c); err != nil {
		(&refusal{http.StatusServiceUnavailable, err.Error(), nil}).write(w)
		return
	}
	serve, err := open(c)
	if err != nil {
		s.remove(c)
		(&refusal{http.StatusServiceUnavailable, err.Error(), nil}).write(w)
		return
	}
	conn, in, err := takeOver(w, accept)
	if err != nil {
		s.options.Log.Info("a WebSocket connection could not be opened", "client", c.remote, "error", err)
	}
	c.attach(conn, in)
	s.options.Metrics.opened()
	go func() {
		defer s.remove(c)
		defer s.options.Metrics.connections.Dec()
		serve()
		c.finish()
	}()
}

// add registers a connection. The error says that the server is stopping or has too many connections.
func (s *Server) add(c *Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return fmt.Errorf("the server stops")
	}
	if most := s.options.Max(); len(s.conns) >= most {
		s.options.Metrics.full.Inc()
		return fmt.Errorf("the server has %d WebSocket connections and accepts no more; try again later", most)
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return nil
}

// remove unregisters a connection.
func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.running.Done()
}

// takeOver takes a request's connection from the HTTP server, and answers that the connection uses WebSocket from now
// on.
func takeOver(w http.ResponseWriter, accept string) (conn net.Conn, in *bufio.Reader, err error) {
	conn, buffers, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "this connection cannot become a WebSocket", http.StatusInternalServerError)
		return nil, nil, fmt.Errorf("socket: take the connection: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(replyTimeout))
	_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + accept + "\r\n\r\n"))
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("socket: answer the handshake: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	var from io.Reader = conn
	if n := buffers.Reader.Buffered(); n > 0 { // the client did not wait for the answer
		early, _ := buffers.Reader.Peek(n)
		from = io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn)
	}
	return conn, bufio.NewReaderSize(from, readBufferBytes), nil
}

// attach sets the network connection and starts the pings; conn is nil if the client has disconnected.
func (c *Conn) attach(conn net.Conn, in *bufio.Reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn, c.try, c.in = conn, trywrite.New(conn), in
	switch {
	case conn == nil:
		c.in = bufio.NewReader(bytes.NewReader(nil))
		c.abort()
	case c.dead: // aborted before the handshake ended
		_ = rawOf(conn).Close()
	case c.ending: // closed before the handshake ended
		c.timer = time.AfterFunc(c.server.options.CloseTimeout, c.Abort)
		c.setDeadline()
		c.flush()
	default:
		c.timer = time.AfterFunc(c.pingEvery(), c.beat)
		c.setDeadline()
		c.flush()
	}
}

// Count returns the number of connections.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// all returns a copy of the list of connections.
func (s *Server) all() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// End closes all current connections. Each sends its queue before the close.
func (s *Server) End(code int, reason string) {
	for _, c := range s.all() {
		c.Close(code, reason)
	}
}

// Abort ends all connections at once, without a close, and accepts no more. Shutdown waits until they have ended.
func (s *Server) Abort() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for _, c := range s.all() {
		c.Abort()
	}
}

// Shutdown accepts no more connections, lets the present ones answer the messages that have arrived, and waits until
// they have ended with CodeGoingAway. When ctx ends, Shutdown aborts the connections that are left and returns ctx's
// error. No goroutine is left in either case.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for _, c := range s.all() {
		c.drain()
	}
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.Abort()
	<-done
	return fmt.Errorf("socket: connections were cut off: %w", ctx.Err())
}
