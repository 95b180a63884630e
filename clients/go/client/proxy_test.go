package client_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a client and an exchange, and breaks connections.
type proxy struct {
	addr   string
	open   sync.WaitGroup
	limits limits
	cut    func() // called when a reply has come that is not passed on

	mu    sync.Mutex // guards what follows, and is held while limits is called
	conns []net.Conn
	ended bool
}

// limits says after how many bytes in each direction the n-th connection, counted from
// 1, breaks; below 0 it does not.
type limits func(n int) (up, down int)

func startProxy(t testing.TB, target string, where limits, cut func()) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveProxy(t, l, target, where, cut)
}

// serveProxy is startProxy on a listener, which it closes.
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
			conn.Close() // what is on its way to the client may still arrive
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

// pass copies bytes up to a limit. cut tells that there was one more.
func pass(to io.Writer, from io.Reader, limit int) (cut bool) {
	if limit < 0 {
		_, _ = io.Copy(to, from) // any end will do
		return false
	}
	if n, err := io.CopyN(to, from, int64(limit)); err != nil || n < int64(limit) {
		return false
	}
	n, _ := from.Read(make([]byte, 1))
	return n > 0
}
