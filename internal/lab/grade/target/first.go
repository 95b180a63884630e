package target

import (
	"context"
	"net"
	"sync"
)

// first holds the connection by which Start saw that a server accepts connections. It is safe for concurrent use.
type first struct {
	mu   sync.Mutex
	conn net.Conn // guarded by mu; nil if there is none or First has returned it
}

// First is part of Target.
func (f *first) First() net.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	conn := f.conn
	f.conn = nil
	return conn
}

// keep stores a connection, and closes the previous one.
func (f *first) keep(conn net.Conn) {
	f.drop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn = conn
}

// drop closes the connection, unless First has returned it.
func (f *first) drop() {
	if conn := f.First(); conn != nil {
		_ = conn.Close() // the server may have reset it
	}
}

// dial connects to the first of addrs that accepts, and keeps the connection. The error is that of the last.
func (f *first) dial(ctx context.Context, addrs []string) (addr string, err error) {
	for _, a := range addrs {
		var conn net.Conn
		if conn, err = new(net.Dialer).DialContext(ctx, "tcp", a); err == nil {
			f.keep(conn)
			return a, nil
		}
	}
	return "", err
}
