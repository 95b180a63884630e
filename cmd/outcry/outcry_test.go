package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// exchangeAt builds and starts an exchange with a local cluster, and returns its
// address and data directory. It dies with the test.
func exchangeAt(t *testing.T) (addr, data string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "outcryd")
	out, err := exec.Command("go", "build", "-o", program, "outcry/cmd/outcryd").CombinedOutput()
	require.NoError(t, err, string(out))
	data = filepath.Join(t.TempDir(), "data")
	cmd := exec.Command(program, "--data="+data, "--listen=127.0.0.1:0", "--http=", "--database-url=", "--segment=65536")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct{ Msg, XML string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
			go func() {
				for lines.Scan() {
				}
			}()
			return line.XML, data
		}
	}
	t.Fatal("the exchange ended before it was ready")
	return "", ""
}

// outcry runs a command line and returns what it printed, with times as T.
func outcry(stdin string, args ...string) (stdout, stderr string, status int) {
	var out, err strings.Builder
	status = run(args, strings.NewReader(stdin), &out, &err)
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|time="\d+"`)
	return times.ReplaceAllString(out.String(), "T"), err.String(), status
}

// TestTheFirstTrade is the one of the README, and what goes wrong around it.
func TestTheFirstTrade(t *testing.T) {
	addr, data := exchangeAt(t)
	t.Setenv("OUTCRY_ADDR", addr)
	file := filepath.Join(t.TempDir(), "frame.xml")
	require.NoError(t, os.WriteFile(file, []byte(`<transactions id="1"><query id="1"/></transactions>`), 0o600))
	for _, step := range []struct {
		args   string
		stdin  string
		want   string
		status int
	}{
		{"account 1 20000", "", "account 1 opened\n", 0},
		{"account 2 0", "", "account 2 opened\n", 0},
		{"account 2 0", "", "error: account 2 already exists\n", 1},
		{"symbol QQQ", "", "symbol QQQ made\n", 0},
		{"place SPY 2 500", "", "shares of SPY placed with account 2\n", 0},
		{"sell 2 SPY 100 123.45", "", "order 1 sells 100 SPY at 123.45\n", 0},
		{"query 1 1", "", "order 1\n  open      100\n", 0},
		{"buy 1 SPY 100 150", "", "order 2 buys 100 SPY at 150\n", 0},
		{"query 1 2", "", "order 2\n  executed  100 at 123.45  T\n", 0},
		{"cancel 1 2", "", "error: order 2 has nothing open: it is executed\n", 1},
		{"buy 1 SPY 1 1", "", "order 3 buys 1 SPY at 1\n", 0},
		{"cancel 1 3", "", "order 3\n  canceled  1  T\n", 0},
		{"send " + file, "", `<results><status id="1"><executed shares="100" price="123.45" T/></status></results>` + "\n", 0},
		{"send -", "<nothing/>", "<results><error>unknown root element &lt;nothing&gt;, only &lt;create&gt; and &lt;transactions&gt; are known</error></results>\n", 1},
	} {
		got, stderr, status := outcry(step.stdin, strings.Fields(step.args)...)
		require.Equal(t, step.want, got, "%s: %s", step.args, stderr)
		require.Equal(t, step.status, status, step.args)
	}
	got, _, status := outcry("", "journal", data)
	require.Equal(t, 0, status)
	require.Equal(t, `1 T account 1 opened with 20000
2 T account 2 opened with 0
3 T symbol QQQ made
4 T symbol SPY made
5 T 500 SPY placed with account 2
6 T order 1 of account 2: sell 100 SPY at 123.45
7 T order 2 of account 1: buy 100 SPY at 150; filled 100 at 123.45 with order 1 of account 2
8 T order 3 of account 1: buy 1 SPY at 1
9 T order 3 of account 1 canceled, 1 SPY were open
`, got)
}

func TestWrongCommandLinesAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"":                  "Usage",
		"fly":               `unknown command "fly"`,
		"buy 1":             "buy takes 4 arguments, not 1",
		"sell 1 SPY -5 3":   "the number of shares is positive",
		"--nothing account": "nothing",
	} {
		_, stderr, status := outcry("", strings.Fields(args)...)
		require.Equal(t, exitUsage, status, args)
		require.Contains(t, stderr, want, args)
	}
	_, stderr, status := outcry("", "--addr=127.0.0.1:1", "symbol", "A")
	require.Equal(t, exitError, status)
	require.Contains(t, stderr, "is the exchange running?")
	_, stderr, status = outcry("", "journal", t.TempDir())
	require.Equal(t, exitError, status)
	require.Contains(t, stderr, "there is no journal in")
	_, _, status = outcry("", "send", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exitError, status)
	_, _, status = outcry("", "--help")
	require.Equal(t, exitOK, status)
}
