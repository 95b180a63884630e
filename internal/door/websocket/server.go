// Package websocket is the server's half of WebSocket (RFC 6455, without extensions and subprotocols), as doors need
// it: messages are ready-made frames that any number of connections share, each connection has one bounded queue
// of them, and what is too slow for it is cut, or gets the newest only. It knows nothing of what messages say.
//
// An idle connection has one goroutine, which reads, and 4 KiB for that. A second one writes while something waits.
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
	// drainGrace is how long a connection of a server that stops is still read: long enough for what its kernel has.
	drainGrace = 50 * time.Millisecond
	// replyTimeout is how long the answer to a handshake may take.
	replyTimeout = 10 * time.Second

	// Of Options that are not set.
	pingEveryUsual    = 20 * time.Second
	closeTimeoutUsual = 10 * time.Second
)

// Options are the habits of a Server. The zero value of each field means its default.
type Options struct {
	// Max returns how many connections there may be; no bound.
	Max func() int
	// IdleTimeout returns how long a client may show no life, if that is less than two pings take; none.
	IdleTimeout func() time.Duration
	// PingEvery is how often a client is asked whether it lives. One that is silent up to the next time is closed; 20 s.
	PingEvery time.Duration
	// CloseTimeout is what a client has to take what waits for it, and to answer a close; 10 s.
	CloseTimeout time.Duration
	// Origins are those whose pages may connect besides the server's own, exactly as browsers send them; none.
	Origins []string

	Log     *slog.Logger // a line for each connection in trouble; nil means no log
	Metrics *Metrics     // nil means that nobody reads them
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

// Server has the WebSocket connections of all doors. Its methods may be called from any goroutine.
type Server struct {
	options Options
	pacer   *pacer
	running sync.WaitGroup // of connections

	mu       sync.Mutex // guards what follows
	conns    map[*Conn]struct{}
	draining bool
}

// NewServer returns a server without connections. Shutdown ends it.
func NewServer(o Options) *Server {
	o.setDefaults()
	return &Server{options: o, pacer: newPacer(), conns: make(map[*Conn]struct{})}
}

// Serve answers a request to open a WebSocket. If it is one, open is called, which says whether there is a place for
// the connection, of which nothing but Abort, OnSlow and RemoteAddr may be used yet, and returns what serves it; its
// error is told to the client, with status 503. What serves is called in a goroutine of its own exactly once if open
// returned it, also if the client is gone by then (Read returns ErrClosed). It returns once Read has returned an error
// and all that was read is answered, or when it likes; then the connection ends, with CodeNormal if it was not closed
// before, or with CodeGoingAway if the server stops.
//
// Serve returns once the request is answered; w and r must not be used any more.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, open func(c *Conn) (serve func(), err error)) {
	accept, refused := s.check(r)
	if refused != nil {
		refused.tell(w)
		return
	}
	c := newConn(s, r.RemoteAddr)
	if err := s.add(c); err != nil {
		(&refusal{http.StatusServiceUnavailable, err.Error(), nil}).tell(w)
		return
	}
	serve, err := open(c)
	if err != nil {
		s.remove(c)
		(&refusal{http.StatusServiceUnavailable, err.Error(), nil}).tell(w)
		return
	}
	conn, in, err := takeOver(w, accept)
	if err != nil {
		s.options.Log.Info("a WebSocket connection is not opened", "client", c.remote, "error", err)
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

// add gives a connection a place.
func (s *Server) add(c *Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return fmt.Errorf("the server stops")
	}
	if most := s.options.Max(); len(s.conns) >= most {
		s.options.Metrics.full.Inc()
		return fmt.Errorf("the server has %d WebSocket connections and takes no more; try again later", most)
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return nil
}

// remove takes the place of a connection back.
func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.running.Done()
}

// takeOver takes the connection of a request from the HTTP server, and says that it speaks WebSocket from here on.
func takeOver(w http.ResponseWriter, accept string) (conn net.Conn, in *bufio.Reader, err error) {
	conn, buffers, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "this connection cannot be one of WebSocket", http.StatusInternalServerError)
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

// attach begins the life of a connection; conn is nil if the client is gone.
func (c *Conn) attach(conn net.Conn, in *bufio.Reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn, c.try, c.in = conn, trywrite.New(conn), in
	switch {
	case conn == nil:
		c.in = bufio.NewReader(bytes.NewReader(nil))
		c.abort()
	case c.dead: // it was aborted before
		_ = rawOf(conn).Close()
	case c.ending: // likewise closed
		c.timer = time.AfterFunc(c.server.options.CloseTimeout, c.Abort)
		c.setDeadline()
		c.flush()
	default:
		c.timer = time.AfterFunc(c.pingEvery(), c.beat)
		c.setDeadline()
		c.flush()
	}
}

// Count returns how many connections there are.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// all returns the connections that there are.
func (s *Server) all() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// End closes all connections that there are, each behind what waits.
func (s *Server) End(code int, reason string) {
	for _, c := range s.all() {
		c.Close(code, reason)
	}
}

// Abort ends all connections at once and without a word, and lets no more in. Shutdown waits for them.
func (s *Server) Abort() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for _, c := range s.all() {
		c.Abort()
	}
}

// Shutdown lets no more connections in, has those that there are answer what has arrived, and waits until they have
// ended with CodeGoingAway. Once ctx ends, those that are left are aborted, and ctx's error is returned. No goroutine
// is left in either case.
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
