package client_test

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
)

// gate is one of several addresses of an exchange. An open gate forwards connections, a shut one refuses them,
// and a frozen one accepts them but forwards nothing.
type gate struct {
	addr, target string
	serving      sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	frozen   bool
}

// gates returns n gates, all still shut, and their addresses as a list.
func gates(t *testing.T, n int, target string) (all []*gate, list string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		d := &gate{addr: l.Addr().String(), target: target}
		require.NoError(t, l.Close())
		t.Cleanup(d.shut)
		all = append(all, d)
		list += "," + d.addr
	}
	return all, list[1:]
}

func (d *gate) open(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", d.addr)
	require.NoError(t, err)
	d.mu.Lock()
	d.listener, d.frozen = l, false
	d.mu.Unlock()
	d.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.serving.Go(func() { d.serve(conn) })
		}
	})
}

func (d *gate) serve(conn net.Conn) {
	to, err := net.Dial("tcp", d.target)
	if err != nil {
		conn.Close()
		return
	}
	d.mu.Lock()
	d.conns = append(d.conns, conn, to)
	d.mu.Unlock()
	var passing sync.WaitGroup
	passing.Go(func() { d.pass(to, conn) })
	d.pass(conn, to)
	conn.Close()
	to.Close()
	passing.Wait()
}

// pass copies bytes until the gate is frozen.
func (d *gate) pass(to, from net.Conn) {
	part := make([]byte, 512) // small, so that a failover cuts replies in the middle
	for {
		n, err := from.Read(part)
		if err != nil {
			return
		}
		d.mu.Lock()
		frozen := d.frozen
		d.mu.Unlock()
		if frozen {
			continue
		}
		if _, err := to.Write(part[:n]); err != nil {
			return
		}
	}
}

func (d *gate) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = true
}

// shut closes the gate and all connections through it.
func (d *gate) shut() {
	d.mu.Lock()
	if d.listener != nil {
		d.listener.Close()
	}
	for _, c := range d.conns {
		c.Close()
	}
	d.conns = nil
	d.mu.Unlock()
	d.serving.Wait()
}

// TestALeaderThatMovesLosesNothing: the leader dies or hangs while a hundred orders are in flight, and each order is
// executed once.
func TestALeaderThatMovesLosesNothing(t *testing.T) {
	x := startExchange(t)
	direct := dial(t, x.addr, client.Options{})
	market(t, direct)
	placed := 0
	for round, leave := range []func(*gate){(*gate).shut, (*gate).freeze, (*gate).shut, (*gate).freeze} {
		all, list := gates(t, 3, x.addr)
		all[0].open(t)
		c := dial(t, list, client.Options{AutoRef: true, Depth: 100})
		var calls []*client.Call
		for n := range 1000 {
			call, err := c.Send(background, client.Buy("1", "SPY", number("1"), number("0.01")))
			require.NoError(t, err)
			calls = append(calls, call)
			if n == 400 {
				leave(all[0])
				all[1].open(t)
			}
		}
		ids := map[client.OrderID]bool{}
		for _, call := range calls {
			results, err := call.Wait(background)
			require.NoError(t, err, "round %d", round)
			require.NoError(t, results[0].Err())
			ids[results[0].Order] = true
		}
		placed += len(calls)
		require.Len(t, ids, len(calls), "each has a number of its own")
		_, err := direct.Query(background, "1", client.OrderID(placed))
		require.NoError(t, err)
		_, err = direct.Query(background, "1", client.OrderID(placed+1))
		require.ErrorContains(t, err, fmt.Sprintf("there is no order %d", placed+1), "round %d: none twice", round)
	}
}
