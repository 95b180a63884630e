package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
)

// TestVerifyLiveInFullLoad verifies a running exchange while two clients trade: the printed state is the one
// after the printed record, and trading continues. Then verify finds a row that was changed.
func TestVerifyLiveInFullLoad(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	segments := []string{"268435456", "65536"} // the second deletes segments all the time
	for _, segment := range budget.Sample(seed, segments) {
		data, database := t.TempDir(), exchangetest.NewTables(t)
		p := exchangetest.Start(t, data, database, "--segment="+segment)
		openMarket(t, p)
		answered, stop := load(t, p, seed)
		digests := map[uint64]string{}
		conn := allTables(t, database)
		applied := uint64(0)
		for range 1 + budget.Of(3) {
			then, before := answered.Load(), applied
			require.Eventually(t, func() bool {
				require.NoError(t, conn.QueryRow(background, `SELECT applied_seq FROM exchange_state`).Scan(&applied))
				return answered.Load() > then+20 && applied > before+100
			}, time.Minute, 10*time.Millisecond)
			stdout := must(t, "verify", "--live", "--database-url="+database, data)
			require.Contains(t, stdout, "later ones, which the snapshot does not have: ")
			require.Regexp(t, `(?m)^records  \d+ records? of the journal compared.*: ok$`, stdout)
			said, digest := stateOf(t, stdout)
			seq, err := strconv.ParseUint(said, 10, 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, seq, applied)
			digests[seq], applied = digest, seq
		}
		stop()
		last := p.Stop()
		for seq, digest := range digests {
			require.Less(t, seq, last.Seq)
			if segment == "268435456" {
				require.Equal(t, fmt.Sprintf("%x", replayed(t, data, seq).Digest()), digest)
			}
		}
		p = exchangetest.Start(t, data, database)
		_, err := conn.Exec(background, `UPDATE execution_log SET shares = shares + 1
			WHERE (order_id, n) = (SELECT order_id, n FROM execution_log ORDER BY order_id DESC LIMIT 1)`)
		require.NoError(t, err)
		require.NoError(t, conn.Close(background))
		stdout, stderr, status := outcry("", "verify", "--live", "--database-url="+database, data)
		require.Equal(t, cli.ExitError, status, stdout+stderr)
		require.Contains(t, stdout, "history  not ok")
		p.Stop()
	}
}

// TestVerifyLiveSaysWhatDoesNotRun: verify --live starts no cluster, and reports what is not running.
func TestVerifyLiveSaysWhatDoesNotRun(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(data, "postgres", "data"), 0o700))
	_, stderr, status := outcry("", "verify", "--live", data)
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr, "or verify without --live")
	_, stderr, status = outcry("", "verify", "--live", filepath.Join(data, "none"))
	require.Equal(t, cli.ExitUsage, status)
	require.Contains(t, stderr, "there is no data directory")
}
