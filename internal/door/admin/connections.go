package admin

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// OperatorConnectionsMax is how many connections may exist beyond the bound of Connections, each for one request of
	// an operator or a health check.
	OperatorConnectionsMax = 32

	// One part in othersShare of the bound, and at least one connection, is kept free of the requests of any one token.
	othersShare = 8

	// operatorWriteBytes is the size of the kernel's send buffer on a connection beyond the bound. It holds an
	// answer as large as that of /metrics, so that a client that reads slowly does not keep its place.
	operatorWriteBytes = 1 << 20

	// requestBodyTimeout is how long a request body may take to arrive, except for POST /xml. restTimeout is how long
	// the unread rest of a body may take, which net/http waits for before it releases the connection.
	requestBodyTimeout = 10 * time.Second
	restTimeout        = time.Second
)

// Connections bounds the connections of the HTTP side. When the bound is reached, a new connection replaces the one
// that has waited longest for a request, so that idle clients do not lock others out. If all connections have a request
// in progress, a few more are accepted, which may only request what operators and health checks need. All others are
// closed at once. The requests of one token hold at most seven eighths of the connections.
// Its methods may be called from any goroutine.
type Connections struct {
	full func(client net.Addr)

	mu        sync.Mutex // guards the fields below and the fields of all connections
	most      int
	served    int            // number of connections, except those beyond the bound
	bearers   map[string]int // number of connections with a request in progress, by the ID of its token
	waiting   list.List      // of *connection: connections without a request in progress, longest waiting first
	operators list.List      // of *connection: connections beyond the bound, oldest first
}

// NewConnections returns a bound of most connections, which must be above 0. full is called with the address of each
// client that connects when the bound is reached.
func NewConnections(most int, full func(client net.Addr)) *Connections {
	return &Connections{full: full, most: most, bearers: make(map[string]int)}
}

// SetMax changes the bound. Present connections stay open.
func (s *Connections) SetMax(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// Max returns the bound.
func (s *Connections) Max() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Count returns the number of connections.
func (s *Connections) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served + s.operators.Len()
}

// Listener returns l with the bound. Only a server made by NewServer, with s in its options, may use it.
func (s *Connections) Listener(l net.Listener) net.Listener { return &boundedListener{l, s} }

type boundedListener struct {
	net.Listener
	bound *Connections
}

// Accept returns the next connection that gets a place.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: conn, bound: l.bound}
		displaced, full := l.bound.add(c)
		if full {
			l.bound.full(conn.RemoteAddr())
		}
		if displaced != nil {
			_ = displaced.Conn.Close() // this ends its goroutine
		}
		if displaced != c {
			return c, nil
		}
	}
}

// connection is a connection with a place. bound.mu guards its fields.
type connection struct {
	net.Conn
	bound    *Connections
	operator bool          // the connection is beyond the bound
	gone     bool          // the connection has lost its place
	place    *list.Element // in waiting or operators; nil for an ordinary connection with a request in progress
	busy     bool          // a request is in progress
	bearer   string        // ID of the request's token, counted in bearers; "" without a token
}

// add gives c a place. displaced is the connection that the caller must close: c itself if there is no place, nil if
// none needs to be closed. full reports whether the bound was reached.
func (s *Connections) add(c *connection) (displaced *connection, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full = s.served >= s.most; full {
		oldest := s.waiting.Front()
		if oldest == nil {
			return s.addOperator(c), true
		}
		displaced = oldest.Value.(*connection)
		s.remove(displaced)
	}
	s.served++
	c.place = s.waiting.PushBack(c)
	return displaced, full
}

// addOperator gives c a place beyond the bound. It returns the same as add. Its caller holds mu.
func (s *Connections) addOperator(c *connection) (displaced *connection) {
	if s.operators.Len() >= OperatorConnectionsMax {
		for e := s.operators.Front(); e != nil && displaced == nil; e = e.Next() {
			if o := e.Value.(*connection); !o.busy {
				displaced = o
			}
		}
		if displaced == nil {
			return c
		}
		s.remove(displaced)
	}
	c.operator = true
	c.place = s.operators.PushBack(c)
	if t, ok := c.Conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = t.SetWriteBuffer(operatorWriteBytes) // on failure, a slow reader keeps the place longer
	}
	return displaced
}

// remove takes a connection's place away, if it still has it. Its caller holds mu.
func (s *Connections) remove(c *connection) {
	if c.gone {
		return
	}
	c.gone = true
	s.leave(c)
	if c.operator {
		s.operators.Remove(c.place)
		return
	}
	s.served--
	if c.place != nil {
		s.waiting.Remove(c.place)
	}
}

// Close closes the connection and frees its place.
func (c *connection) Close() error {
	c.bound.mu.Lock()
	c.bound.remove(c)
	c.bound.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the sending side. net/http does so before it closes a connection whose request it has not read
// completely.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SyscallConn implements syscall.Conn, for code that takes over the connection.
func (c *connection) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// watch is http.Server.ConnState. It records whether a connection waits for a request.
func (s *Connections) watch(conn net.Conn, state http.ConnState) {
	c := connectionOf(conn)
	if c == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateHijacked { // the connection is counted elsewhere, under --max-connections
		s.remove(c)
		return
	}
	if c.busy = state == http.StateActive; !c.busy {
		s.leave(c)
	}
	if c.operator || c.gone {
		return
	}
	switch {
	case c.busy && c.place != nil:
		s.waiting.Remove(c.place)
		c.place = nil
	case state == http.StateIdle && c.place == nil:
		c.place = s.waiting.PushBack(c)
	}
}

// connectionOf returns the *connection that conn is or wraps in TLS; nil if conn is neither.
func connectionOf(conn net.Conn) *connection {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// enter records the token of the request in progress on a connection, until it is answered. It returns false if the
// token already has the maximum number of requests in progress.
func (s *Connections) enter(c *connection, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(c)
	if c.operator || c.gone {
		return true
	}
	if s.bearers[id] >= max(1, s.most-max(1, s.most/othersShare)) {
		return false
	}
	s.bearers[id]++
	c.bearer = id
	return true
}

// leave undoes enter, if it was called. Its caller holds mu.
func (s *Connections) leave(c *connection) {
	if c.bearer == "" {
		return
	}
	if s.bearers[c.bearer]--; s.bearers[c.bearer] == 0 {
		delete(s.bearers, c.bearer)
	}
	c.bearer = ""
}

// connectionKey is the context key of a request's *connection.
type connectionKey struct{}

// mark is http.Server.ConnContext. It adds the connection to the context of its requests.
func (s *Connections) mark(ctx context.Context, conn net.Conn) context.Context {
	if c := connectionOf(conn); c != nil {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// withinBound lets a connection beyond the bound make one request, of the kind that operators and health checks make.
// It also closes every connection after a refused request, and bounds the time for reading bodies.
func withinBound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = closingWriter{w}
		if len(r.TransferEncoding) > 0 {
			// The request may also have had a Content-Length, which net/http hides. A proxy that uses that length
			// would treat the bytes that follow as another client's request.
			w.Header().Set("Connection", "close")
		}
		if r.ContentLength != 0 {
			control := http.NewResponseController(w) // if a deadline cannot be set, the server's own limits apply
			if r.URL.Path != "/xml" {
				_ = control.SetReadDeadline(time.Now().Add(requestBodyTimeout))
			}
			defer func() { _ = control.SetReadDeadline(time.Now().Add(restTimeout)) }()
		}
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c.operator { // operator never changes
			w.Header().Set("Connection", "close")
			if !ofOperators(r.URL.Path) {
				http.Error(w, "the HTTP side has reached its limit of connections; try again later", http.StatusServiceUnavailable)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// ofOperators reports whether operators and health checks need a path.
func ofOperators(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/metrics" || strings.HasPrefix(path, "/admin/")
}

// closingWriter closes the connection after an answer that refuses the request, so that a client without rights does
// not keep a place.
type closingWriter struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w closingWriter) WriteHeader(status int) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusMisdirectedRequest,
		http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w closingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
