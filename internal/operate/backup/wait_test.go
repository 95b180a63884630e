package backup

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
	"outcry/internal/testing/pgtest"
)

// Without a connected server, lagging tables do not catch up, so the backup ends early however long --wait is.
func TestABackupWaitsForNoServerThatIsNotThere(t *testing.T) {
	was := unservedMax
	unservedMax = time.Millisecond
	t.Cleanup(func() { unservedMax = was })
	data, url := t.TempDir(), pgtest.NewDatabase(t)
	j, err := journal.Open(filepath.Join(data, "journal"),
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 4096})
	require.NoError(t, err)
	seq, err := j.Append([]byte("a record that the tables have not"))
	require.NoError(t, err)
	require.NoError(t, j.Wait(background, seq))
	store, err := postgres.Open(background, url, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, store.SetJournal(background, j.ID(), "journal"))
	store.Close()
	require.NoError(t, j.Close())

	var file bytes.Buffer
	_, err = Take(background, &file, TakeOptions{Data: data, DatabaseURL: url, Wait: time.Hour})
	require.EqualError(t, err, "backup: the database holds records up to 0, and the journal had 1 when the backup began, "+
		"and for 1ms no server was connected to the database to apply more: "+
		"start outcryd, or take what the database has with --without-journal")
	require.Zero(t, file.Len())
}

// The wait ends once no server was connected for unservedMax, and not before.
func TestAWaitEndsOnceNoServerHadTheDatabaseForLong(t *testing.T) {
	begun := time.Now().Add(-time.Minute)
	at := func(served time.Duration) *waiting {
		o := TakeOptions{Wait: time.Hour, Progress: func(string) {}}
		return &waiting{taking: &taking{o: o, begun: begun}, seq: 2, reported: begun, served: time.Now().Add(-served)}
	}
	require.NoError(t, at(unservedMax/2).look(postgres.Position{}, false))
	require.ErrorContains(t, at(unservedMax+time.Second).look(postgres.Position{}, false), "no server was connected")
	w := at(unservedMax + time.Second)
	require.NoError(t, w.look(postgres.Position{}, true))
	require.NoError(t, w.look(postgres.Position{}, false), "the server may come back")
	w.o.Wait = time.Second
	require.ErrorContains(t, w.look(postgres.Position{}, true), "is outcryd running")
	require.ErrorContains(t, w.look(postgres.Position{Journal: [16]byte{1}}, true), "they belong to different exchanges")
}
