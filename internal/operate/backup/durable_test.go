package backup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
	"outcry/internal/testing/durabletest"
	"outcry/internal/testing/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var background = context.Background()

var errBroken = errors.New("the disk is broken")

// stopped makes an exchange with tokens and without orders, and stops it.
func stopped(t *testing.T) TakeOptions {
	t.Helper()
	o := TakeOptions{Data: t.TempDir(), DatabaseURL: pgtest.NewDatabase(t)}
	j, err := journal.Open(filepath.Join(o.Data, "journal"),
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 16})
	require.NoError(t, err)
	s, err := postgres.Open(background, o.DatabaseURL, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, s.SetJournal(background, j.ID(), "journal"))
	s.Close()
	require.NoError(t, j.Close())
	require.NoError(t, os.WriteFile(filepath.Join(o.Data, tokensName), []byte("# none\n"), 0o600))
	return o
}

// The file is synced completely under its temporary name. Then it is renamed, and the directory is synced.
func TestABackupHasItsNameOnceItIsDurable(t *testing.T) {
	o := stopped(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	w := durabletest.Watch(t, func(s durabletest.Sync) error {
		if s.Path == dir {
			assert.FileExists(t, file)
			return nil
		}
		_, _, err := CheckFile(s.Path)
		assert.NoError(t, err)
		assert.NoFileExists(t, file)
		return nil
	})
	_, err := TakeFile(background, file, o)
	require.NoError(t, err)
	require.Equal(t, []durabletest.Sync{{Path: file + partialSuffix}, {Path: dir}}, w.Seen())

	for _, failing := range []string{file + "2" + partialSuffix, dir} {
		durabletest.Watch(t, func(s durabletest.Sync) error {
			if s.Path == failing {
				return errBroken
			}
			return nil
		})
		_, err := TakeFile(background, file+"2", o)
		require.ErrorIs(t, err, errBroken)
		require.NoFileExists(t, file+"2"+partialSuffix)
		_, err = os.Stat(file + "2")
		require.Equal(t, failing == dir, err == nil, "it succeeds only if just the sync of the directory failed")
	}
}

// The marker RESTORING is durable before anything else that the restore writes. Each file is synced before it gets its
// name. The directory is synced last, after the marker was removed.
func TestARestoreSaysSoBeforeItBeginsAndUntilItsEndIsDurable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "backup")
	_, err := TakeFile(background, file, stopped(t))
	require.NoError(t, err)
	data := filepath.Join(t.TempDir(), "data")
	mark := filepath.Join(data, markerName)
	marked, synced := []bool(nil), map[string]bool{}
	w := durabletest.Watch(t, func(s durabletest.Sync) error {
		_, err := os.Stat(mark)
		if len(marked) == 2 {
			assert.NoDirExists(t, filepath.Join(data, "journal"), "the marker's name is synced first")
		}
		marked, synced[s.Path] = append(marked, err == nil), true
		return nil
	})
	_, err = Restore(background, RestoreOptions{File: file, Data: data, DatabaseURL: pgtest.NewDatabase(t),
		SegmentBytes: 1 << 16})
	require.NoError(t, err)
	paths := w.Paths()
	require.Equal(t, []string{filepath.Dir(data), mark + partialSuffix, data}, paths[:3])
	last := len(paths) - 1
	require.Equal(t, data, paths[last])
	want := slices.Repeat([]bool{true}, len(paths))
	want[0], want[1], want[last] = false, false, false
	require.Equal(t, want, marked)
	require.True(t, synced[filepath.Join(data, tokensName)+partialSuffix])
	require.True(t, synced[filepath.Join(data, "journal")])
	require.True(t, slices.ContainsFunc(paths, func(p string) bool { return strings.HasSuffix(p, ".seg") }))
}

// TestARestoreWhoseSyncFailsHasNotEnded fails each sync in turn. The restore must return the error, the
// marker must keep servers from starting, and the database must be empty, except if only the last sync, that
// of the removed marker, fails.
func TestARestoreWhoseSyncFailsHasNotEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "backup")
	_, err := TakeFile(background, file, stopped(t))
	require.NoError(t, err)
	database := pgtest.NewDatabase(t)
	restore := func(data string, failing int) error {
		syncs := 0
		durabletest.Watch(t, func(s durabletest.Sync) error {
			if strings.HasPrefix(filepath.Base(s.Path), "next-") { // made in advance by another goroutine
				return nil
			}
			if syncs++; syncs == failing {
				return errBroken
			}
			return nil
		})
		o := RestoreOptions{File: file, Data: data, DatabaseURL: database, SegmentBytes: 1 << 16}
		_, err := Restore(background, o)
		return err
	}
	data := ""
	for n := 1; ; n++ {
		before := data
		data = filepath.Join(t.TempDir(), "data")
		err := restore(data, n)
		var occupied *postgres.OccupiedError
		if errors.As(err, &occupied) { // only the very last sync had failed
			data = before
			break
		}
		require.ErrorIs(t, err, errBroken, "sync %d", n)
		if n > 3 && Unfinished(data) == nil {
			require.NoFileExists(t, filepath.Join(data, markerName))
		} else if n > 3 {
			require.ErrorContains(t, Unfinished(data), "has not ended", "sync %d", n)
		}
	}
	require.NoError(t, Unfinished(data))
}

// A trailer that names other files than the backup has is refused, even with valid checksums.
func TestATrailerThatNamesOtherFilesIsRefused(t *testing.T) {
	for _, files := range [][]string{nil, {"tokens", "tokens"}, {"other"}} {
		var file bytes.Buffer
		w, err := NewWriter(&file, sample().header)
		require.NoError(t, err)
		require.NoError(t, w.AddFile(sample().files[0]))
		w.trailer.Files = files
		_, err = w.Close(time.Now())
		require.NoError(t, err)
		_, _, err = Check(&file)
		require.ErrorContains(t, err, "other tables, rows or files than those before it", "%q", files)
	}
}

// The end block of a table must have the table's name and its number of bytes.
func TestATableThatEndsElsewhereIsRefused(t *testing.T) {
	for _, end := range []TableEnd{{"accounts", 0, 1}, {"symbols", 0, 0}} {
		var file bytes.Buffer
		w, err := NewWriter(&file, sample().header)
		require.NoError(t, err)
		require.NoError(t, w.BeginTable(Table{Name: "accounts"}))
		*w.table = end
		require.NoError(t, w.EndTable(0))
		_, err = w.Close(time.Now())
		require.NoError(t, err)
		_, _, err = Check(&file)
		require.ErrorContains(t, err, "and there are 0 bytes of table accounts")
	}
}
