package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	api "outcry/clients/go/client"
)

// TestABenchGoesOnOverACrash: the exchange is killed while orders are under way, and started
// again. All are answered, none is lost or done twice, and the gap is told.
func TestABenchGoesOnOverACrash(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := startExchange(t, data, "")
	type answer struct {
		stdout, stderr string
		status         int
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		a.stdout, a.stderr, a.status = outcry("", "bench", "run", "--addr=127.0.0.1:1,"+p.addr, "--orders=2000",
			"--rate=1000", "--duration=1m", "--json")
		done <- a
	}()
	c, err := api.Dial(t.Context(), p.addr, api.Options{})
	require.NoError(t, err)
	for asked := uint64(0); asked < 300; { // orders that were placed
		if _, err := c.Query(t.Context(), "0090", api.OrderID(asked+1)); err == nil {
			asked++
		}
	}
	require.NoError(t, c.Close())
	require.NoError(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	startExchange(t, data, "", "--listen="+p.addr)
	a := <-done
	require.Equal(t, exitOK, a.status, a.stdout+a.stderr)
	var r benchResult
	require.NoError(t, json.Unmarshal([]byte(a.stdout), &r))
	require.EqualValues(t, 2000, r.Requests)
	require.EqualValues(t, 2000, r.Asked)
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
		_, stderr, status := outcry("", append([]string{"bench", "run"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, status, args)
		require.Contains(t, stderr, "outcry: "+text+"\n", args)
	}
}
