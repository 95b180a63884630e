package client_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy forwards connections from a client to an exchange, and breaks them.
type proxy struct {
	addr   string
	open   sync.WaitGroup
	limits limits
	cut    func() // called when a reply has arrived that is not forwarded

	mu    sync.Mutex // guards the fields below, and is held while limits is called
	conns []net.Conn
	ended bool
}

// limits returns the number of bytes in each direction after which the n-th connection, counted from 1, breaks. A
// negative number means never.
type limits func(n int) (up, down int)

func startProxy(t testing.TB, target string, where limits, cut func()) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveProxy(t, l, target, where, cut)
}

// serveProxy is like startProxy, on a given listener, which it closes.
func serveProxy(t testing.TB, l net.Listener, target string, where limits, cut func()) *proxy {
	p := &proxy{addr: l.Addr().String(), limits: where, cut: cut}
	p.open.Go(func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.open.Go(func() { p.serve(n, conn, target) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.ended = true
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.open.Wait()
	})
	return p
}

func (p *proxy) serve(n int, conn net.Conn, target string) {
	defer conn.Close()
	exchange, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer exchange.Close()
	p.mu.Lock()
	p.conns = append(p.conns, conn, exchange)
	up, down := p.limits(n)
	ended := p.ended
	p.mu.Unlock()
	if ended {
		return
	}
	var passing sync.WaitGroup
	passing.Go(func() {
		if pass(exchange, conn, up) {
			conn.Close() // bytes on their way to the client may still arrive
		}
		exchange.Close()
	})
	passing.Go(func() {
		if pass(conn, exchange, down) {
			p.cut()
		}
		conn.Close()
		exchange.Close()
	})
	passing.Wait()
}

// pass copies bytes up to a limit. cut reports whether at least one more byte arrived.
func pass(to io.Writer, from io.Reader, limit int) (cut bool) {
	if limit < 0 {
		_, _ = io.Copy(to, from) // the reason for the end does not matter
		return false
	}
	if n, err := io.CopyN(to, from, int64(limit)); err != nil || n < int64(limit) {
		return false
	}
	n, _ := from.Read(make([]byte, 1))
	return n > 0
}
