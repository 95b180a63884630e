package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/loadtest/life"
	"outcry/loadtest/torture"
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
		{[]string{"torture", "more"}, exitUsage, `"more"`},
		{[]string{"life", "-orders", "5,4"}, exitUsage, `"4"`},
		{[]string{"life", "-clients", "x"}, exitUsage, "clients"},
		{[]string{"planted", "-help"}, exitOK, "answer-before-sync"},
		{[]string{"planted", "none"}, exitUsage, `"none"`},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.status, run(context.Background(), c.args, &stdout, &stderr), "%v: %s", c.args, &stderr)
		require.Contains(t, stderr.String(), c.stderr, "%v", c.args)
	}
}

func TestPlansAreWhole(t *testing.T) {
	for _, name := range []string{"short", "long"} {
		plan, err := parsePlan(name)
		require.NoError(t, err)
		for fault := range torture.Faults() {
			require.Positive(t, plan[fault], "%s leaves out %s", name, fault)
		}
	}
	plan, err := parsePlan("kill=1,stop=2,kill=3")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"kill": 4, "stop": 2}, plan)
}

// TestATortureRun is the whole machinery once, with the real program.
func TestATortureRun(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	var stdout, stderr bytes.Buffer
	status := run(context.Background(), []string{"torture", "-plan", "kill=1,stop=1", "-load", "300ms", "-json", report}, &stdout, &stderr)
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

func TestALifeRun(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	var stdout, stderr bytes.Buffer
	status := run(context.Background(), []string{"life", "-orders", "1000,2000", "-clients", "4", "-json", report}, &stdout, &stderr)
	require.Equal(t, exitOK, status, "%s%s", &stdout, &stderr)
	b, err := os.ReadFile(report)
	require.NoError(t, err)
	var r life.Report
	require.NoError(t, json.Unmarshal(b, &r))
	require.Len(t, r.Marks, 2)
	require.GreaterOrEqual(t, r.Marks[1].Orders, int64(2000))
	require.Positive(t, r.Marks[1].JournalBytes)
	require.Positive(t, r.Marks[1].ServerBytes)
}
