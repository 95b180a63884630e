//go:build python

package main

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPythonWebSocketClient runs the tests of clients/python/outcry_ws.py against an exchange that they can have
// killed and restarted. The client package is installed, with its declared dependencies, into an empty virtual
// environment, as a user would do it.
func TestPythonWebSocketClient(t *testing.T) {
	t.Parallel()
	python := installed(t, "../../clients/python[ws]")
	common, _ := dataFlags(t)
	flags := append(againAt(t, common), "--listen="+peerAddresses(t, 1)[0])
	p := start(t, flags...)
	var killing sync.Mutex // serializes kills
	control := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		killing.Lock()
		defer killing.Unlock()
		p.kill()
		p = start(t, flags...)
	}))
	defer control.Close()
	tests := exec.CommandContext(t.Context(), python, "-B", "-W", "error", "-m", "unittest", "-v", "test_outcry_ws")
	tests.Dir = "../../clients/python"
	tests.Env = append(os.Environ(), "OUTCRY_ADDR="+p.xml, "OUTCRY_HTTP="+p.http, "OUTCRY_TEST_KILL="+control.URL)
	tests.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := tests.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

// installed creates a virtual environment, installs the given pip arguments into it, and returns its interpreter.
func installed(t *testing.T, what ...string) (python string) {
	t.Helper()
	dir := t.TempDir()
	for _, command := range [][]string{
		{cmp.Or(os.Getenv("OUTCRY_PYTHON"), "python3"), "-m", "venv", dir},
		append([]string{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check"}, what...),
	} {
		out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%v: %s", command, out)
	}
	return filepath.Join(dir, "bin", "python")
}

// TestPythonPinsWhatItNeeds: dependencies have exact versions, so that a commit always installs the same packages.
func TestPythonPinsWhatItNeeds(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../clients/python/pyproject.toml")
	require.NoError(t, err)
	for _, needed := range regexp.MustCompile(`(?m)^(?:requires|ws) = \[(.*)\]$`).FindAllSubmatch(b, -1) {
		require.Regexp(t, `^"[a-z-]+ ==[0-9.]+"$`, string(needed[1]))
	}
}
