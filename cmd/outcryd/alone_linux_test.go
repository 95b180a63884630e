package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAServerAloneHasNothingOfACluster: a server outside a cluster has no goroutine, file or port of the cluster code.
func TestAServerAloneHasNothingOfACluster(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	require.Equal(t, 2, listening(t, p.cmd.Process.Pid), "XML and HTTP")

	dir := strings.TrimPrefix(flags[0], "--data=")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, []string{"raft", "cluster", "BROKEN"}, e.Name())
	}
	stacks, err := io.ReadAll(get(t, p, "/debug/pprof/goroutine?debug=2").Body)
	require.NoError(t, err)
	require.Contains(t, string(stacks), "outcry/internal/engine")
	require.NotContains(t, string(stacks), "outcry/internal/replica")
	require.NotContains(t, string(stacks), "main.(*member)")
	require.NotContains(t, scrape(t, p), "outcry_cluster_")
	status, _ := askOnce(t, p.http, "/api/v1/cluster")
	require.Equal(t, http.StatusNotFound, status)
	status, body := askOnce(t, p.http, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "ok\n", body)
}

// listening returns the number of listening TCP sockets of a process.
func listening(t *testing.T, pid int) (n int) {
	t.Helper()
	listens := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				listens["socket:["+f[9]+"]"] = true
			}
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, file := range files {
		if name, err := os.Readlink(file); err == nil && listens[name] {
			n++
		}
	}
	return n
}
