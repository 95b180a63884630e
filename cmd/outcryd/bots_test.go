//go:build bots

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// TestBots runs ccxt, ccxt.pro and the official Python SDK, unmodified except for addresses, against a server that
// requires keys and is killed during the run. OUTCRY_PYTHON names an interpreter with the packages of
// testdata/bots/requirements.txt.
func TestBots(t *testing.T) {
	t.Parallel()
	python := os.Getenv("OUTCRY_PYTHON")
	require.NotEmpty(t, python, "OUTCRY_PYTHON names no interpreter")
	for _, tests := range []string{"test_ccxt", "test_pro", "test_sdk"} {
		t.Run(tests, func(t *testing.T) { runBots(t, python, tests) })
	}
}

// runBots runs the tests of one Python file, which print the line ASK kill to have the server killed.
func runBots(t *testing.T, python, tests string) {
	t.Helper()
	common, _ := dataFlags(t)
	data := strings.TrimPrefix(common[0], "--data=")
	flags := append(againAt(t, common), "--auth")
	admin, err := auth.ParseScope("admin")
	require.NoError(t, err)
	token, _, err := auth.Add(data, admin, time.Time{}, "")
	require.NoError(t, err)
	var keys []string
	for _, account := range []exchange.AccountID{"7", "8"} {
		secret, e, err := auth.AddKey(data, account, time.Time{}, "")
		require.NoError(t, err)
		keys = append(keys, fmt.Sprintf("%s=%s:%s", account, e.ID, secret))
	}
	p := start(t, flags...)
	c := dial(t, p.xml)
	c.must(t, string(wire.AppendAuth(nil, token)))
	require.NotContains(t, c.must(t, `<create><account id="7" balance="1000000"/><account id="8" balance="500000"/>`+
		`<symbol sym="SPY" tick="0.01" lot="0.001"><account id="7">100000</account><account id="8">100000</account></symbol>`+
		`<symbol sym="QQQ"><account id="7">5</account></symbol></create>`), "<error")

	cmd := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", "-v", tests)
	cmd.Dir = "testdata/bots"
	cmd.Env = append(os.Environ(), "OUTCRY_TEST_HTTP="+p.http, "OUTCRY_TEST_KEYS="+strings.Join(keys, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, in := pipes(t, cmd)
	said := new(logBuffer)
	cmd.Stderr = said
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(said, lines.Text())
		if lines.Text() != "ASK kill" {
			continue
		}
		p.kill()
		p = start(t, flags...)
		fmt.Fprintln(in, "DONE")
	}
	require.NoError(t, cmd.Wait(), "%s\n%s", said, p.log)
	t.Logf("%s", said)
}

func pipes(t *testing.T, cmd *exec.Cmd) (out io.Reader, in io.Writer) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err = cmd.StdinPipe()
	require.NoError(t, err)
	return out, in
}
