//go:build python

package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/certtest"
)

// TestPythonClient runs the tests of clients/python against servers in this process. OUTCRY_PYTHON names an
// interpreter other than python3.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	env := os.Environ()
	for name, flags := range map[string][]string{
		"OUTCRY_TEST_ADDR":        nil,
		"OUTCRY_TEST_FRESH_ADDR":  nil,
		"OUTCRY_TEST_BARE_ADDR":   {"--bare-replies"},
		"OUTCRY_TEST_STRICT_ADDR": {"--max-frame=4096", "--idle-timeout=2s"},
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
	for name, pair := range map[string]certtest.Pair{
		"OUTCRY_TEST_ELSEWHERE_ADDR": p.authority.ServerOf("elsewhere", "other.example"),
		"OUTCRY_TEST_EXPIRED_ADDR":   p.authority.Expired("expired", x509.ExtKeyUsageServerAuth),
	} {
		env = append(env, name+"="+refused(t, pair))
	}
	var attributes []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[wire.Order]()) {
		attributes = append(attributes, strings.ToLower(field.Name))
	}
	env = append(env, "OUTCRY_TEST_ORDER="+strings.Join(attributes, " "))
	python := os.Getenv("OUTCRY_PYTHON")
	if python == "" {
		python = "python3"
	}
	// -B: write no bytecode next to the sources.
	tests := exec.CommandContext(t.Context(), python, "-B", "-W", "error", "-m", "unittest", "-v", "test_outcry")
	tests.Dir, tests.Env = "../../clients/python", env
	tests.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := tests.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

// refused listens with a certificate that clients must refuse, and fails the test if a client sends anything over
// TLS. It returns the address.
func refused(t *testing.T, pair certtest.Pair) (addr string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			if n, _ := conn.Read(make([]byte, 1)); n > 0 {
				t.Errorf("a client talks to %s", pair.CertFile)
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		running.Wait()
	})
	return l.Addr().String()
}
