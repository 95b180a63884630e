package recovery

import (
	"bufio"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// TestAReplaySaysHowFarItIs holds a replay at a record in the middle and expects a progress line.
func TestAReplaySaysHowFarItIs(t *testing.T) {
	before := progressInterval
	t.Cleanup(func() { progressInterval = before })
	progressInterval = time.Millisecond
	j, err := journal.Open(t.TempDir(), journal.Options{
		Version: exchange.EventVersion, SegmentBytes: 1 << 16, FirstSeq: 1})
	require.NoError(t, err)
	defer j.Close()
	add := func(id string) {
		e := exchange.Event{Kind: exchange.AccountOpened, Account: exchange.AccountID(id)}
		seq, err := j.Append(exchange.AppendEvent(nil, &e))
		require.NoError(t, err)
		require.NoError(t, j.Wait(t.Context(), seq))
	}
	add("1")
	lines, w := io.Pipe()
	state, err := (&exchange.Snapshot{}).Restore()
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		done <- replay(t.Context(), state, j, 1, 2, slog.New(slog.NewTextHandler(w, nil)))
		w.Close()
	}()
	text := bufio.NewScanner(lines)
	for text.Scan() && !strings.Contains(text.Text(), `msg="replaying the journal" seq=1 of=2`) {
	}
	require.NoError(t, text.Err())
	go io.Copy(io.Discard, lines)
	add("2")
	require.NoError(t, <-done)
	require.Equal(t, 2, state.Ledger.Accounts())
}
