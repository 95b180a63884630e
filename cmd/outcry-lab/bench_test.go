package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/measure"
	"outcry/internal/testing/exchangetest"
)

// doomed forwards connections to an exchange. After a given number of replies it closes its port and kills the
// exchange, without forwarding the next reply.
type doomed struct {
	net.Listener
	kill   func()
	left   atomic.Int64  // replies left to forward
	killed chan struct{} // closed after kill
	open   sync.WaitGroup
}

// startDoomed starts a doomed forwarder, which ends when the exchange has been killed.
func startDoomed(t *testing.T, p *exchangetest.Process, answers int64) *doomed {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &doomed{Listener: l, killed: make(chan struct{}),
		kill: func() { _ = p.Cmd.Process.Kill(); _ = p.Cmd.Wait() }}
	d.left.Store(answers)
	d.open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.open.Go(func() { d.serve(conn, p.Addr) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		d.kill() // also ends the open connections
		d.open.Wait()
	})
	return d
}

func (d *doomed) serve(conn net.Conn, to string) {
	defer conn.Close()
	exchange, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	d.open.Go(func() {
		defer exchange.Close()
		_, _ = io.Copy(exchange, conn)
	})
	for replies := wire.NewFrameReader(exchange, 1<<20); ; {
		reply, err := replies.Next()
		if err != nil {
			return
		}
		switch left := d.left.Add(-1); {
		case left == -1:
			d.Close()
			d.kill()
			close(d.killed)
			return
		case left < 0:
			return
		}
		if _, err := conn.Write(wire.AppendFrame(nil, reply)); err != nil {
			return
		}
	}
}

// TestABenchGoesOnOverACrash kills the exchange while orders are in flight, and restarts it. All orders are answered,
// none is lost or executed twice, and the result shows the gap.
func TestABenchGoesOnOverACrash(t *testing.T) {
	t.Parallel()
	const orders = 2000
	data, database := t.TempDir(), exchangetest.NewTables(t)
	p := exchangetest.Start(t, data, database)
	d := startDoomed(t, p, orders/2)
	addr := d.Addr().String()
	type answer struct {
		stdout, stderr string
		status         int
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		a.stdout, a.stderr, a.status = lab("", "bench", "run", "--addr=127.0.0.1:1,"+addr, fmt.Sprint("--orders=", orders),
			"--duration=10m", "--json")
		done <- a
	}()
	select {
	case a := <-done:
		require.FailNow(t, "it ended before the crash", a.stdout+a.stderr)
	case <-d.killed:
	}
	exchangetest.Start(t, data, database, "--listen="+addr)
	a := <-done
	require.Equal(t, cli.ExitOK, a.status, a.stdout+a.stderr)
	var r measure.Result
	require.NoError(t, json.Unmarshal([]byte(a.stdout), &r))
	require.EqualValues(t, orders, r.Requests)
	require.EqualValues(t, orders, r.Asked)
	require.Zero(t, r.Lost+r.Doubled+r.Unanswered+r.Refused+r.Others, a.stdout)
	require.EqualValues(t, 1, r.Failovers, "each connection broke once")
	require.EqualValues(t, 4, r.Reconnects)
	require.Greater(t, r.GapMS, r.P50)
	require.Greater(t, r.GapAtMS, 0.0)
}

func TestWhatABenchIsToldIsChecked(t *testing.T) {
	for args, text := range map[string]string{
		"--connections 0":   "--connections 0: must be from 1 to 1000",
		"--rate -1":         "--rate -1: must be from 0 to 1000000",
		"--orders 99999999": "--orders 99999999: must be from 1 to 10000000",
		"--duration 2h":     "--duration 2h0m0s: must be more than 0, and at most 1h0m0s",
		"--accounts x":      `--accounts "x": must be 1 to 50 digits`,
		"--addr a,,b":       "--addr: address 2 of 3: must be HOST or HOST:PORT",
	} {
		_, stderr, status := lab("", append([]string{"bench", "run"}, strings.Fields(args)...)...)
		require.Equal(t, cli.ExitUsage, status, args)
		require.Contains(t, stderr, "outcry-lab: "+text+"\n", args)
	}
}
