package main

import (
	"bytes"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/settings"
)

// TestBoundsOfClientsChangeByReload exceeds each bound of clients, checks the replies, and changes it by a reload.
func TestBoundsOfClientsChangeByReload(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	file := filepath.Join(t.TempDir(), "outcryd.conf")
	require.NoError(t, os.WriteFile(file,
		[]byte("max-accounts = 2\nmax-symbols = 1\nmax-open-orders-account = 2\nmemory-limit = 1073741824\n"), 0o600))
	p := start(t, append(flags, "--config="+file)...)
	require.Contains(t, p.log.String(), `"bytes":1073741824,"of":"--memory-limit"`)
	require.Contains(t, p.log.String(),
		"--max-open-orders 4000000, --max-accounts 2, --max-symbols 1 and twice --max-memory 536870912 "+
			"need 2092 MiB together, and --memory-limit is 1024 MiB")
	c := dial(t, p.xml)
	reply := c.must(t, `<create><account id="1" balance="1000"/><account id="2" balance="1000"/>`+
		`<account id="3" balance="1"/><symbol sym="A"/><symbol sym="B"/></create>`)
	require.Contains(t, reply,
		"account 3 cannot be made: the exchange is at its limit of accounts, 2 (--max-accounts)")
	require.Contains(t, reply, "symbol B cannot be made: the exchange is at its limit of symbols, 1 (--max-symbols)")
	const orders = `<transactions id="1"><order sym="A" amount="1" limit="1"/><order sym="A" amount="1" limit="2"/>` +
		`<order sym="A" amount="1" limit="3"/></transactions>`
	require.Contains(t, c.must(t, orders),
		"account 1 is at its limit of open orders, 2 (--max-open-orders-account); cancel and query still work")

	line := p.reload(t, file,
		"max-accounts = 3\nmax-symbols = 2\nmax-open-orders = 1\nmin-order-value = 2.5\nmemory-limit = off\n", msgReloaded)
	require.Equal(t, []any{"max-accounts: 3, was 2", "max-open-orders: 1, was 4000000",
		"max-open-orders-account: 100000, was 2", "max-symbols: 2, was 1",
		"memory-limit: off, was 1073741824", "min-order-value: 2.5, was 0"}, line["changed"])
	reply = c.must(t, `<create><account id="3" balance="1"/><symbol sym="B"/></create>`)
	require.NotContains(t, reply, "<error")
	reply = c.must(t, orders)
	require.Contains(t, reply, "1 A at 2 is worth 2, and the minimum is 2.5 (--min-order-value)")
	require.Contains(t, reply,
		"the exchange is at its limit of open orders, 1 (--max-open-orders); cancel and query still work")
	require.Contains(t, c.must(t, `<transactions id="1"><query id="1"/><cancel id="2"/></transactions>`),
		`<canceled id="2">`)
	p.stop(t)
	require.Contains(t, p.log.String(), "there is no memory limit")
}

// TestBoundsThatDoNotFitTheMemoryAreSaidBeforeAStart: --check-config warns of bounds that need more memory than
// --memory-limit, and refuses invalid bounds.
func TestBoundsThatDoNotFitTheMemoryAreSaidBeforeAStart(t *testing.T) {
	flags := []string{"--data=" + t.TempDir(), "--database-url="}
	status, out, errs := checked(t, append(flags, "--memory-limit=1000000000")...)
	require.Equal(t, exitOK, status)
	require.Contains(t, errs,
		"outcryd: warning: --max-open-orders 4000000, --max-accounts 1000000, --max-symbols 100000 and twice "+
			"--max-memory 536870912 need 2440 MiB together, and --memory-limit is 953 MiB: lower them, or increase it")
	require.Regexp(t, `(?m)^memory-limit = 1000000000 `, out)
	_, _, errs = checked(t, append(flags, "--memory-limit=off")...)
	require.NotContains(t, errs, "--max-open-orders")
	for flag, want := range map[string]string{
		"--memory-limit=1":           "must be auto, off, or from 67108864",
		"--min-order-value=-1":       `"-1" is negative`,
		"--min-order-value=x":        `"x" is not a decimal number`,
		"--max-open-orders=0":        "--max-open-orders 0: must be from 1",
		"--max-accounts=0":           "--max-accounts 0: must be from 1",
		"--max-open-orders-account=": "must be a whole number",
	} {
		status, _, errs := checked(t, append(flags, flag)...)
		require.Equal(t, exitUsage, status, flag)
		require.Contains(t, errs, want)
	}
}

// TestGOMEMLIMITWins: the variable overrides the flag, in the log and in effect.
func TestGOMEMLIMITWins(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(777 << 20))
	t.Setenv("GOMEMLIMIT", "777MiB")
	c, err := settings.Parse([]string{"--memory-limit=1000000000"}, io.Discard)
	require.NoError(t, err)
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	limitMemory(c, log)
	require.EqualValues(t, 777<<20, debug.SetMemoryLimit(-1))
	require.Contains(t, lines.String(), "777MiB")
	require.Contains(t, lines.String(), "and GOMEMLIMIT is 777 MiB")

	t.Setenv("GOMEMLIMIT", "")
	limitMemory(c, log)
	require.EqualValues(t, 1_000_000_000, debug.SetMemoryLimit(-1))
	require.NoError(t, c.MemoryLimit.UnmarshalText([]byte("off")))
	limitMemory(c, log)
	require.EqualValues(t, int64(math.MaxInt64), debug.SetMemoryLimit(-1))
}
