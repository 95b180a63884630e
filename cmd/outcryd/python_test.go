//go:build python

package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPythonClient runs the tests of clients/python against servers of this
// process. OUTCRY_PYTHON names another interpreter than python3.
func TestPythonClient(t *testing.T) {
	env := os.Environ()
	for name, flags := range map[string][]string{
		"OUTCRY_TEST_ADDR":        nil,
		"OUTCRY_TEST_FRESH_ADDR":  nil,
		"OUTCRY_TEST_BARE_ADDR":   {"--bare-replies"},
		"OUTCRY_TEST_STRICT_ADDR": {"--max-frame=4096", "--idle-timeout=200ms"},
	} {
		common, _ := dataFlags(t)
		_, addr := inProcess(t, append(common, flags...)...)
		env = append(env, name+"="+addr)
	}
	p := startProtected(t)
	token, _ := p.token(t, "admin", time.Time{})
	client := p.authority.Client("python")
	env = append(env, "OUTCRY_TEST_PROTECTED_ADDR="+p.xml, "OUTCRY_TEST_TOKEN="+token, "OUTCRY_TEST_CA="+p.authority.File,
		"OUTCRY_TEST_CERT="+client.CertFile, "OUTCRY_TEST_KEY="+client.KeyFile)
	python := os.Getenv("OUTCRY_PYTHON")
	if python == "" {
		python = "python3"
	}
	// -B: no bytecode beside the sources.
	tests := exec.CommandContext(t.Context(), python, "-B", "-W", "error", "-m", "unittest", "-v")
	tests.Dir, tests.Env = "../../clients/python", env
	tests.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := tests.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}
