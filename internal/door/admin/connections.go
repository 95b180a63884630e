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
	// OperatorConnectionsMax is how many connections there may be beyond the bound of
	// Connections, each for one request of operators or of a health check.
	OperatorConnectionsMax = 32

	// Of the bound one part in othersShare, and at least one, is for others than the bearers
	// of any one token.
	othersShare = 8

	// operatorWriteBytes is what the kernel is to take of the answer on such a
	// connection, all of /metrics: a client that reads slowly then holds no place.
	operatorWriteBytes = 1 << 20

	// requestBodyTimeout is how long the body of a request may take other than that of POST
	// /xml, and restTimeout how long one may that was not read: net/http waits for that
	// before it lets go of the connection.
	requestBodyTimeout = 10 * time.Second
	restTimeout        = time.Second
)

// Connections bounds the connections of the HTTP side. One that comes when there are as
// many as there may be takes the place of the one that has waited longest for a request:
// idle clients shut nobody out. While all have a request under way, a few more are taken
// that may only ask what operators and health checks ask. The rest is closed at once. The
// requests of one token hold seven eighths of the connections at most.
// Its methods may be called from any goroutine.
type Connections struct {
	full func(client net.Addr)

	mu        sync.Mutex // guards what follows, and the connections' own
	most      int
	served    int            // without those of operators
	bearers   map[string]int // how many have a request of a token under way, by its ID
	waiting   list.List      // of *connection: those that have no request under way, the longest first
	operators list.List      // of *connection: those beyond the bound, the oldest first
}

// NewConnections returns a bound of most connections, above 0. full is called with the
// address of each client that comes when there are as many.
func NewConnections(most int, full func(client net.Addr)) *Connections {
	return &Connections{full: full, most: most, bearers: make(map[string]int)}
}

// SetMax changes the bound. Connections that there are keep their place.
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

// Count returns how many connections there are.
func (s *Connections) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served + s.operators.Len()
}

// Listener returns l with the bound. It is for a server of NewServer alone, whose options
// have s.
func (s *Connections) Listener(l net.Listener) net.Listener { return &boundedListener{l, s} }

type boundedListener struct {
	net.Listener
	bound *Connections
}

// Accept returns the next connection that has a place.
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
			_ = displaced.Conn.Close() // which ends its goroutine
		}
		if displaced != c {
			return c, nil
		}
	}
}

// connection is one that has a place. Its fields are guarded by bound.mu.
type connection struct {
	net.Conn
	bound    *Connections
	operator bool          // beyond the bound
	gone     bool          // it has no place any more
	place    *list.Element // in waiting or operators; nil while an ordinary one has a request under way
	busy     bool          // it has a request under way
	bearer   string        // the ID of the token of that, among bearers; "" if there is none
}

// add gives c a place. It returns the connection that is to be closed for that, which is
// c itself if there is no place, and nil if none is to be closed; and whether there are as
// many as there may be.
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

// addOperator is add for a connection beyond the bound. Its caller holds mu.
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
		_ = t.SetWriteBuffer(operatorWriteBytes) // else a slow reader holds the place longer
	}
	return displaced
}

// remove takes away the place of a connection, once. Its caller holds mu.
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

// Close gives the place back.
func (c *connection) Close() error {
	c.bound.mu.Lock()
	c.bound.remove(c)
	c.bound.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends the sending side, which net/http does before it closes a connection
// whose request it has not read to its end.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SyscallConn implements syscall.Conn, for what takes the connection over.
func (c *connection) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// watch is http.Server.ConnState: it notes whether a connection waits for a request.
func (s *Connections) watch(conn net.Conn, state http.ConnState) {
	c := connectionOf(conn)
	if c == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateHijacked { // it has a place elsewhere, among --max-connections
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

// connectionOf returns the connection below TLS, if any; nil if it is none of ours.
func connectionOf(conn net.Conn) *connection {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// enter says whose request is under way on a connection, until it is answered to its end.
// It reports false if as many are as one token may have.
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

// leave is the end of what enter began, if it did. Its caller holds mu.
func (s *Connections) leave(c *connection) {
	if c.bearer == "" {
		return
	}
	if s.bearers[c.bearer]--; s.bearers[c.bearer] == 0 {
		delete(s.bearers, c.bearer)
	}
	c.bearer = ""
}

// connectionKey is the key of the context of requests under which their *connection is.
type connectionKey struct{}

// mark is http.Server.ConnContext.
func (s *Connections) mark(ctx context.Context, conn net.Conn) context.Context {
	if c := connectionOf(conn); c != nil {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// withinBound answers on a connection beyond the bound only what operators and health
// checks ask, and one request. It also closes every connection on which something was
// refused, and bounds how long bodies hold one.
func withinBound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = closingWriter{w}
		if len(r.TransferEncoding) > 0 {
			// It may have had a length as well, of which net/http says nothing: where a
			// proxy goes by that, what follows would be somebody else's request.
			w.Header().Set("Connection", "close")
		}
		if r.ContentLength != 0 {
			control := http.NewResponseController(w) // what it cannot set, the server's own limits bound
			if r.URL.Path != "/xml" {
				_ = control.SetReadDeadline(time.Now().Add(requestBodyTimeout))
			}
			defer func() { _ = control.SetReadDeadline(time.Now().Add(restTimeout)) }()
		}
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c.operator { // which never changes
			w.Header().Set("Connection", "close")
			if !ofOperators(r.URL.Path) {
				http.Error(w, "the HTTP side has reached its limit of connections; try again later", http.StatusServiceUnavailable)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// ofOperators reports whether a path is one that operators and health checks need.
func ofOperators(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/metrics" || strings.HasPrefix(path, "/admin/")
}

// closingWriter ends the connection after an answer that refuses the request: a client
// without a right keeps no place.
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
