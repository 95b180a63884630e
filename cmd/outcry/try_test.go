package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
	"outcry/internal/operate/trial"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
)

// freeBlock returns a port that is followed by n free ones.
func freeBlock(t *testing.T, n int) int {
	t.Helper()
	for base := 15000 + os.Getpid()%10000; base < 32000; base += n + 1 {
		var open []net.Listener
		for i := range n {
			if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+1+i)); err == nil {
				open = append(open, l)
			}
		}
		for _, l := range open {
			l.Close()
		}
		if len(open) == n {
			return base
		}
	}
	t.Fatal("no block of ports is free")
	return 0
}

// trying is an `outcry cluster try` that a test has started.
type trying struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	said  string
	pids  map[string]int // process ids by node number
}

func startTry(t *testing.T) (x *trying, addrs, https string) {
	t.Helper()
	outcry := exchangetest.Program(t, "outcry")
	base := freeBlock(t, trial.Ports)
	x = &trying{t: t, pids: map[string]int{}}
	x.cmd = exec.Command(outcry, "cluster", "try", "--dir="+t.TempDir(), fmt.Sprintf("--base-port=%d", base))
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stdout, err := x.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, x.cmd.Start())
	t.Cleanup(func() {
		_ = x.cmd.Process.Signal(syscall.SIGTERM)
		_ = x.cmd.Wait()
	})
	x.lines = bufio.NewScanner(stdout)
	at := func(i int) string {
		return fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", base+i, base+3+i, base+6+i)
	}
	return x, at(1), at(2)
}

var startedLine = regexp.MustCompile(`node (\d) is started, with pid (\d+)`)

// until reads lines up to the first that matches pattern, and returns its submatches.
func (x *trying) until(pattern string) []string {
	x.t.Helper()
	want := regexp.MustCompile(pattern)
	for x.lines.Scan() {
		line := x.lines.Text()
		x.said += line + "\n"
		if m := startedLine.FindStringSubmatch(line); m != nil {
			pid, err := strconv.Atoi(m[2])
			require.NoError(x.t, err)
			x.pids[m[1]] = pid
		}
		if m := want.FindStringSubmatch(line); m != nil {
			return m
		}
	}
	x.t.Fatalf("it ended before it said %q:\n%s", pattern, x.said)
	return nil
}

// TestAClusterIsTried follows a user's session: three nodes start, orders are placed, the leader is killed and
// returns, and the leadership is handed over. In the end no process is left.
func TestAClusterIsTried(t *testing.T) {
	budget.SkipUnlessFull(t, "the commands of docs/CLUSTER.md, which try a cluster")
	x, addrs, https := startTry(t)
	leader, ready := "", map[string]bool{}
	for leader == "" || len(ready) < 3 {
		m := x.until(`node (\d) (leads|is ready: standby)`)
		ready[m[1]] = true
		if m[2] == "leads" {
			leader = m[1]
		}
	}
	t.Setenv("OUTCRY_ADDR", addrs)
	t.Setenv("OUTCRY_HTTP_ADDR", https)
	got, said, status := outcry("", "cluster", "status")
	require.Equal(t, cli.ExitOK, status, got+said)
	require.Regexp(t, `(?m)^`+leader+` +leader `, got)
	require.Equal(t, 2, strings.Count(got, "standby"), got)
	got, said, _ = outcry("", "status")
	require.Contains(t, got, "ready     yes", said)

	type answer struct {
		stdout, stderr string
		status         int
	}
	done := make(chan answer, 1)
	lab := exchangetest.Program(t, "outcry-lab")
	go func() {
		var a answer
		bench := exec.Command(lab,
			"bench", "run", "--orders=3000", "--rate=500", "--duration=1m", "--json")
		var out, said strings.Builder
		bench.Stdout, bench.Stderr = &out, &said
		_ = bench.Run() // the exit status is checked below
		a.stdout, a.stderr, a.status = out.String(), said.String(), bench.ProcessState.ExitCode()
		done <- a
	}()
	c, err := api.Dial(t.Context(), addrs, api.Options{})
	require.NoError(t, err)
	for asked := uint64(0); asked < 100; {
		if _, err := c.Query(t.Context(), "0090", api.OrderID(asked+1)); err == nil {
			asked++
		}
	}
	require.NoError(t, syscall.Kill(x.pids[leader], syscall.SIGKILL))
	x.until(`node ` + leader + ` has ended: signal: killed; it is started again`)
	m := x.until(`node (\d) leads, \d+\.\d\d s after node ` + leader + ` ended`)
	require.NotEqual(t, leader, m[1])
	for m := []string{"", ""}; m[1] != leader; {
		m = x.until(`node (\d) is ready: standby`)
	}
	a := <-done
	require.Equal(t, cli.ExitOK, a.status, a.stdout+a.stderr)
	var r struct {
		Refused                         int `json:"rejected"`
		Unanswered                      int `json:"unanswered"`
		Failovers, Asked, Lost, Doubled int
		Others                          int `json:"numbers_of_others"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.stdout), &r))
	require.Zero(t, r.Lost+r.Doubled+r.Unanswered+r.Refused+r.Others, a.stdout)
	require.EqualValues(t, 3000, r.Asked)
	require.Positive(t, r.Failovers)
	require.NoError(t, c.Close())

	got, said, status = outcry("", "cluster", "transfer", leader)
	require.Equal(t, cli.ExitOK, status, got+said)
	require.Regexp(t, `^node `+leader+` leads now, in term \d+\n$`, got)
	for range 2 { // the former leader's process restarts
		x.until(`node (` + leader + `) leads|node (` + m[1] + `) is ready: standby`)
	}

	require.NoError(t, x.cmd.Process.Kill())
	for _, pid := range x.pids {
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, time.Minute, 10*time.Millisecond,
			"process %d outlives outcry", pid)
	}
}

func TestATrialSaysWhatItCannotDo(t *testing.T) {
	_, said, status := outcry("", "cluster", "try", "--base-port=65530")
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, said, "--base-port 65530: must be from 1 to 65526")
	t.Setenv("PATH", t.TempDir())
	_, said, status = outcry("", "cluster", "try", "--dir="+t.TempDir())
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, said, "no outcryd next to this program or in the path: name it with --outcryd")
	ends := filepath.Join(t.TempDir(), "ends")
	require.NoError(t, os.WriteFile(ends, []byte("#!/bin/sh\nprintf 'this\\nthat is why\\n' >&2\nexit 1\n"), 0o755))
	base := freeBlock(t, trial.Ports)
	try := func() {
		_, said, status = outcry("", "cluster", "try", "--dir="+t.TempDir(), "--outcryd="+ends,
			fmt.Sprintf("--base-port=%d", base))
		require.Equal(t, cli.ExitError, status)
	}
	try()
	require.Regexp(t, `node \d has ended 6 times within 1m0s \(exit status 1\), see .*node-\d\.log; `+
		`its last line: that is why\n`, said)
	taken := fmt.Sprintf("127.0.0.1:%d", base+trial.Ports)
	other, err := net.Listen("tcp", taken)
	require.NoError(t, err)
	defer other.Close()
	try()
	require.Contains(t, said, taken)
	require.Contains(t, said, "address already in use: stop what listens there")
}
