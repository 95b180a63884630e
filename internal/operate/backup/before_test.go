package backup

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// The journal must have the record after the backup's last, and must not end before that.
func TestAJournalGoesOnWhereTheBackupEnds(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(dir, journal.Options{Version: exchange.EventVersion, SegmentBytes: 4096})
	require.NoError(t, err)
	for range 200 {
		_, err := j.Append(make([]byte, 90))
		require.NoError(t, err)
	}
	require.NoError(t, j.Wait(context.Background(), 200))
	require.NoError(t, j.RemoveBefore(100))
	id, first := j.ID(), j.First()
	require.Greater(t, first, uint64(2))
	require.NoError(t, j.Close())
	for seq, want := range map[uint64]string{first - 2: "begins at", first - 1: "", first: "", 200: "",
		201: "restore without it"} {
		r := &restoring{o: RestoreOptions{Journal: dir}, header: Header{Journal: hexID(id), Seq: seq}}
		if err := r.checkJournal(context.Background()); want == "" {
			require.NoError(t, err, "a backup that ends at record %d, a journal from %d on", seq, first)
		} else {
			require.ErrorContains(t, err, want, "a backup that ends at record %d", seq)
		}
		r.close()
	}
	other := &restoring{o: RestoreOptions{Journal: dir}, header: Header{Seq: first}}
	require.ErrorContains(t, other.checkJournal(context.Background()), "the backup is of an exchange with the journal")
	other.close()
}

// Clocks differ, so a minimum number of ids is always skipped.
func TestMoreIdsAreLeftOutThanCanHaveBeenGivenOut(t *testing.T) {
	least := uint64(skipTime/time.Second) * orderRateMax
	for since, want := range map[time.Time]uint64{{}: least, time.Now(): least, time.Now().Add(time.Hour): least} {
		require.Equal(t, want, SkipOrders(since))
	}
	require.GreaterOrEqual(t, SkipOrders(time.Now().Add(-time.Hour)), uint64(3600*orderRateMax))
}
