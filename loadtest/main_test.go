package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/bench"
	"outcry/internal/lab/load"
	"outcry/internal/lab/torture"
	"outcry/internal/testing/budget"
)

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		stderr string
	}{
		{nil, exitUsage, "Usage"},
		{[]string{"nothing"}, exitUsage, `unknown command "nothing"`},
		{[]string{"torture", "-help"}, exitOK, "postgres-freeze"},
		{[]string{"torture", "-plan", "kill=x"}, exitUsage, `"kill=x"`},
		{[]string{"torture", "-plan", "flood=1"}, exitUsage, `"flood=1"`},
		{[]string{"torture", "-plan", "kill=-1"}, exitUsage, `"kill=-1"`},
		{[]string{"torture", "-clients", "0"}, exitUsage, "-clients 0"},
		{[]string{"torture", "-resting", "-1"}, exitUsage, "-resting -1"},
		{[]string{"torture", "-down", "x"}, exitUsage, "down"},
		{[]string{"torture", "more"}, exitUsage, `"more"`},
		{[]string{"bench", "growth", "-orders", "5,4"}, exitUsage, `"4"`},
		{[]string{"bench", "growth", "-clients", "x"}, exitUsage, "clients"},
		{[]string{"bench"}, exitOK, "one client; a request is a create"},
		{[]string{"bench", "none"}, exitUsage, `unknown bench "none"`},
		{[]string{"bench", "hot", "-help"}, exitOK, "-per_frame"},
		{[]string{"bench", "hot", "-symbols", "3"}, exitUsage, "-symbols"},
		{[]string{"bench", "cores", "-clients", "0"}, exitUsage, "-clients 0"},
		{[]string{"bench", "query10", "-orders", "0"}, exitUsage, "-orders 0"},
		{[]string{"bench", "burst", "more"}, exitUsage, `"more"`},
		{[]string{"bench", "hot"}, exitUsage, "-requests or -duration is required"},
		{[]string{"bench", "hot", "-duration", "1s", "-html", "x"}, exitUsage, "-html needs -rate"},
		{[]string{"bench", "full", "-procs", "1,0"}, exitUsage, `"0"`},
		{[]string{"bench", "query10", "-pause", "2m"}, exitUsage, "-pause 2m0s: must be from 0 to 1m0s"},
		{[]string{"bench", "quick", "-only", "none"}, exitUsage, `"none"`},
		{[]string{"bench", "quick", "-repeat", "-1"}, exitUsage, "-repeat -1"},
		{[]string{"bench", "full", "-repeat", "0"}, exitUsage, "-repeat 0"},
		{[]string{"bench", "hot", "-duration", "1s", "-idle", "-1"}, exitUsage, "-idle -1"},
		{[]string{"bench", "goals", "-rounds", "0"}, exitUsage, "-rounds 0"},
		{[]string{"bench", "goals", "more"}, exitUsage, `"more"`},
		{[]string{"bench", "soak", "-duration", "1s"}, exitUsage, "-duration 1s"},
		{[]string{"bench", "soak", "-rate", "-1"}, exitUsage, "-rate -1"},
		{[]string{"guard", "-help"}, exitOK, "-base revision"},
		{[]string{"guard", "-n", "0"}, exitUsage, "-n 0"},
		{[]string{"guard", "-d", "1ms"}, exitUsage, "-d 1ms: must be from 100ms to 10m"},
		{[]string{"guard", "-base", "-nothing"}, exitError, "find revision -nothing"},
		{[]string{"guard", "more"}, exitUsage, `"more"`},
		{[]string{"books", "-help"}, exitOK, "-watched"},
		{[]string{"books", "-duration", "2s"}, exitUsage, "-duration 2s"},
		{[]string{"books", "more"}, exitUsage, `"more"`},
		{[]string{"mutation", "-help"}, exitOK, "answer-before-sync"},
		{[]string{"mutation", "none"}, exitUsage, `"none"`},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.status, run(context.Background(), c.args, &stdout, &stderr), "%v: %s", c.args, &stderr)
		require.Contains(t, stderr.String(), c.stderr, "%v", c.args)
	}
}

// TestAGuardWithoutHistoryIsSkipped runs the guard in a repository that does not have the recorded revision.
func TestAGuardWithoutHistoryIsSkipped(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org/copy\n"), 0o600))
	t.Chdir(dir)
	skipped := func() string {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitOK, run(context.Background(), []string{"guard"}, &stdout, &stderr), "%s%s", &stdout, &stderr)
		require.Contains(t, stdout.String(), "SKIPPED, nothing was measured: git does not have the recorded revision")
		return stdout.String()
	}
	require.Contains(t, skipped(), "not a git repository")
	require.NoError(t, exec.Command("git", "init", "--quiet").Run())
	skipped()
	t.Setenv("PATH", filepath.Dir(goCommand(t))) // without git, unless it is beside go
	skipped()
}

// goCommand returns the path of the go command.
func goCommand(t *testing.T) string {
	path, err := exec.LookPath("go")
	require.NoError(t, err)
	return path
}

// TestATortureRun runs all parts of a torture run once, with the real program.
func TestATortureRun(t *testing.T) {
	budget.SkipUnlessFull(t, "a torture run in a step of its own")
	report := filepath.Join(t.TempDir(), "report.json")
	var stdout, stderr bytes.Buffer
	status := run(context.Background(), []string{"torture", "-plan", "kill=1,stop=1", "-load", "300ms", "-json", report},
		&stdout, &stderr)
	require.Equal(t, exitOK, status, "%s%s", &stdout, &stderr)
	require.Contains(t, stdout.String(), "PASS: 2 faults")
	b, err := os.ReadFile(report)
	require.NoError(t, err)
	var r torture.Report
	require.NoError(t, json.Unmarshal(b, &r))
	require.Equal(t, "pass", r.Verdict)
	require.Equal(t, map[string]int{"kill": 1, "stop": 1}, r.Rounds)
	require.Positive(t, r.Orders.Answered)
	require.Positive(t, r.LinearOps)
	require.Contains(t, r.Command, "-plan kill=1,stop=1")
}

// The limit is so low that every restart takes longer.
func TestARestartThatTakesTooLongIsAFinding(t *testing.T) {
	var stdout, stderr bytes.Buffer
	status := run(context.Background(), []string{"torture", "-plan", "restart=1", "-load", "100ms", "-down", "1ns",
		"-resting", "100", "-dir", t.TempDir()}, &stdout, &stderr)
	require.Equal(t, exitError, status, "%s%s", &stdout, &stderr)
	require.Contains(t, stderr.String(), "round 1 (restart): a restart took too long")
	require.Contains(t, stdout.String(), "FAIL: 0 faults")
}

// TestAScenario sends frames at a rate and plots the latencies.
func TestAScenario(t *testing.T) {
	dir := t.TempDir()
	report, page := filepath.Join(dir, "point.json"), filepath.Join(dir, "page.html")
	var stdout, stderr bytes.Buffer
	status := run(context.Background(), []string{"bench", "hot", "-clients", "4", "-accounts", "4", "-rate", "200",
		"-duration", "1s",
		"-procs", "1", "-seed", "3", "-data", report, "-html", page}, &stdout, &stderr)
	require.Equal(t, exitOK, status, "%s%s", &stdout, &stderr)
	require.Contains(t, stdout.String(), "the exchange and its tables agree with the answers")
	b, err := os.ReadFile(report)
	require.NoError(t, err)
	var d bench.Data
	require.NoError(t, json.Unmarshal(b, &d))
	require.Len(t, d.Points, 1)
	p := d.Points[0]
	require.EqualValues(t, 200, p.Requests)
	require.Zero(t, p.Errors)
	require.True(t, p.Agrees)
	require.Positive(t, p.EchoRate)
	require.Len(t, p.Curve, len(load.Quantiles))
	require.GreaterOrEqual(t, p.Max, p.P99)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "outcry hot")
}

func TestAGrowthRun(t *testing.T) {
	budget.SkipUnlessFull(t, "a run of another scenario")
	report := filepath.Join(t.TempDir(), "report.json")
	var stdout, stderr bytes.Buffer
	status := run(context.Background(), []string{"bench", "growth", "-orders", "1000,2000", "-clients", "4", "-data",
		report}, &stdout, &stderr)
	require.Equal(t, exitOK, status, "%s%s", &stdout, &stderr)
	b, err := os.ReadFile(report)
	require.NoError(t, err)
	var r bench.Data
	require.NoError(t, json.Unmarshal(b, &r))
	require.Len(t, r.Marks, 2)
	require.GreaterOrEqual(t, r.Marks[1].Orders, int64(2000))
	require.Positive(t, r.Marks[1].JournalBytes)
	require.Positive(t, r.Marks[1].ServerBytes)
}
