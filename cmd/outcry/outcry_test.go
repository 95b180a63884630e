package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

func TestMain(m *testing.M) {
	beAnother()
	status := pgtest.Main(m)
	exchangetest.RemoveBuilt()
	os.Exit(status)
}

// refs matches the refs that outcry generates.
var refs = regexp.MustCompile(`ref [A-Z2-7]{26}`)

// outcry runs a command line and returns its output, with times replaced by T and generated refs by NEW.
func outcry(stdin string, args ...string) (stdout, stderr string, status int) {
	var out, err strings.Builder
	status = run(args, strings.NewReader(stdin), &out, &err)
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|time="\d+"`)
	return refs.ReplaceAllString(times.ReplaceAllString(out.String(), "T"), "ref NEW"), err.String(), status
}

// TestTheFirstTrade runs the first trade of the README, and mistakes that users make around it.
func TestTheFirstTrade(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := exchangetest.Start(t, data, "")
	t.Setenv("OUTCRY_ADDR", p.Addr)
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
		{"place SPY 2 200", "", "200 SPY placed with account 2\n", 0}, // the word order of earlier versions
		{"place 2 SPY 200", "", "200 SPY placed with account 2\n", 0},
		{"place 2 100 --sym SPY", "", "100 SPY placed with account 2\n", 0},
		{"sell 2 SPY 100 123.45", "", "order 1 sells 100 SPY at 123.45\n", 0},
		{"query 1 1", "", "order 1\n  open      100\n", 0},
		{"buy 1 SPY 100 150", "", "order 2 buys 100 SPY at 150\n", 0},
		{"query 1 2", "", "order 2\n  executed  100 at 123.45  T\n", 0},
		{"cancel 1 2", "", "error: order 2 has nothing open: it is executed\n", 1},
		{"buy 1 SPY 1 1", "", "order 3 buys 1 SPY at 1\n", 0},
		{"cancel 1 3", "", "order 3\n  canceled  1  T\n", 0},
		{"send " + file, "", `<results><status id="1"><executed shares="100" price="123.45" T/></status></results>` + "\n",
			0},
		{"send -", "<nothing/>",
			"<results><error>unknown root element &lt;nothing&gt;, only &lt;create&gt; and &lt;transactions&gt; are " +
				"known</error></results>\n", 1},
	} {
		got, stderr, status := outcry(step.stdin, strings.Fields(step.args)...)
		require.Equal(t, step.want, got, "%s: %s", step.args, stderr)
		require.Equal(t, step.status, status, step.args)
	}
	got, _, status := outcry("", "journal", data)
	require.Equal(t, 0, status)
	require.Equal(t, `1 T account 1 opened with 20000; ref NEW
2 T account 2 opened with 0; ref NEW
3 T symbol QQQ made
4 T symbol SPY made
5 T 200 SPY placed with account 2; ref NEW
6 T 200 SPY placed with account 2; ref NEW
7 T 100 SPY placed with account 2; ref NEW
8 T order 1 of account 2: sell 100 SPY at 123.45; ref NEW
9 T order 2 of account 1: buy 100 SPY at 150; filled 100 at 123.45 with order 1 of account 2; ref NEW
10 T order 3 of account 1: buy 1 SPY at 1; ref NEW
11 T order 3 of account 1 canceled, 1 SPY were open
`, got)

	t.Setenv("DATABASE_URL", "")
	_, stderr, status := outcry("", "verify", data)
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr, "stop the exchange, or use --live")
	last := p.Stop()
	got, stderr, status = outcry("", "verify", data)
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Equal(t, fmt.Sprintf(`journal  1 segment with records 1 to 11, every checksum matches: ok
belongs  the database follows this journal, up to record 11: ok
history  11 records replayed: 3 orders with 1 execution, 1 cancel; open at the end: 0 orders; `+
		`8 refs, each of one record: ok
money    the balances of 2 accounts add up to the 20000 dollars that they were opened with, `+
		`2 positions to the shares placed of 2 symbols; each matches its history: ok
records  11 records of the journal compared with the tables; later ones replayed: 0: ok
state    seq 11, digest %s
`, last.Digest), got)
	require.NoFileExists(t, filepath.Join(data, "postgres", "data", "postmaster.pid"), "the local cluster is stopped")
}

func TestWrongCommandLinesAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"":          "Usage",
		"fly":       `unknown command "fly"`,
		"quary 1 2": `unknown command "quary"; is query meant?`,
		"buy 1": "buy: SYM, SHARES and LIMIT are missing\n" +
			"Usage: outcry buy [flags] ACCOUNT SYM SHARES LIMIT\nExample: outcry buy 1 SPY 100 150\n",
		"buy":                        "buy: ACCOUNT, SYM, SHARES and LIMIT are missing",
		"buy 1 S 1 1 1":              "buy takes 4 arguments, not 5",
		"sell 1 SPY -5 3":            "the number of shares must be positive",
		"--nothing account":          "unknown flag --nothing",
		"--nothing":                  "unknown flag --nothing",
		"--addr":                     "a command is missing",
		"query --ref r 1 2":          "query with --ref takes 1 argument, not 2",
		"query 1 x":                  `"x" is not an order number`,
		"cancel 1 0":                 `"0" is not an order number`,
		"symbol A --timeout 0":       "--timeout 0s: must be more than 0",
		"send --timeout -1s main.go": "--timeout -1s: must be more than 0",
		"- 1":                        "unknown command, not shown",
		"buy --ref= 1 S 1 1":         "--ref is empty",
		"cancel 1 --ref=":            "--ref is empty",
		"symbol --ref r A":           "unknown flag --ref",
		"cancel --rev r 1":           "unknown flag --rev; is --ref meant?",
		"symbol A --timeout":         "--timeout needs a value",
		"symbol A --timeout soon":    `--timeout "soon": must be a duration, such as 30s`,
		"symbol --addr ::1 A":        "--addr: an IPv6 address must be in brackets",
		"status --http 8080":         "--http: that is a port without a host",
		"place 7 8 500":              "which of 7 and 8 is the symbol? Name it with --sym: place ACCOUNT --sym SYM SHARES",
		"place A B 500":              "neither of the first two words is an account",
		"place 2 SPY":                "place: SHARES is missing\nUsage: outcry place",
		"place 2 --sym 7 SPY 5":      "place with --sym takes 2 arguments, not 3",
		"place 2 --sym= 5":           "--sym is empty",
		"status 1":                   "status takes no arguments, not 1",
		"status --sym A":             "unknown flag --sym",
		"token":                      "token takes add, list or revoke",
		"completion tcsh":            "completion needs bash, zsh or fish",
		"help fly":                   `unknown command "fly"`,
		"verify a b":                 "verify takes 1 argument, not 2",
		"restore --segment 1TB x":    `--segment "1TB": must be a number of bytes, or of KiB`,
		"backup --max-bytes 9E9 x":   `--max-bytes "9E9": must be a number of bytes`,
	} {
		_, stderr, status := outcry("", strings.Fields(args)...)
		require.Equal(t, cli.ExitUsage, status, args)
		require.Contains(t, stderr, want, args)
		require.Contains(t, stderr, "Usage: outcry ", args)
	}
	_, stderr, status := outcry("", "--addr=127.0.0.1:1", "symbol", "A")
	require.Equal(t, cli.ExitNoAnswer, status)
	require.Contains(t, stderr, "is the exchange running?")
	_, stderr, status = outcry("", "journal", t.TempDir())
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "there is no journal in")
	_, _, status = outcry("", "send", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, cli.ExitError, status)
	_, _, status = outcry("", "--help")
	require.Equal(t, cli.ExitOK, status)
}
