package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
)

// segmentsOf returns the paths of a data directory's segments, oldest first.
func segmentsOf(t *testing.T, data string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(data, "journal", "*.seg"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// damage changes one byte of a data directory's oldest segment, and returns the directory.
func damage(t *testing.T, data string) string {
	t.Helper()
	oldest := segmentsOf(t, data)[0]
	b, err := os.ReadFile(oldest)
	require.NoError(t, err)
	b[200] ^= 1
	require.NoError(t, os.WriteFile(oldest, b, 0o640))
	return data
}

// late removes a data directory's oldest segment, so that the journal begins too late, and returns the directory.
func late(t *testing.T, data string) string {
	t.Helper()
	require.NoError(t, os.Remove(segmentsOf(t, data)[0]))
	return data
}

// files returns the contents of a data directory's journal files by name.
func files(t *testing.T, data string) map[string]string {
	t.Helper()
	all := map[string]string{}
	dir := os.DirFS(data)
	require.NoError(t, fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "LOCK" || path == postgres.DirectoryFile {
			return err
		}
		b, err := fs.ReadFile(dir, path)
		all[path] = string(b)
		return err
	}))
	return all
}

// ahead makes the database claim more records than any journal in these tests. ack says whether answers waited for
// Postgres.
func ahead(t *testing.T, database, ack string) {
	t.Helper()
	query(t, database, `UPDATE exchange_state SET applied_seq = 5000, ack = '`+ack+`'`)
}

// TestARefusedStartHasChangedNothing starts with journals that do not match the database. The database has an older
// schema version, whose upgrade could not be undone.
func TestARefusedStartHasChangedNothing(t *testing.T) {
	t.Parallel()
	g := golden{"testdata/upgrade/schema-3"}
	other, _ := lived(t, 1)
	for name, c := range map[string]struct {
		data, want string
		ahead      string // --ack mode of a database that is ahead of the journal
	}{
		"another's":       {data: other, want: "this data directory belongs to another database"},
		"damaged":         {data: damage(t, g.data(t)), want: "is damaged at offset"},
		"not there":       {data: t.TempDir(), want: "records that were answered may be lost"},
		"begins too late": {data: late(t, g.data(t)), want: "the database is older than the journal's start"},
		"ends too early": {data: g.data(t), want: "records that were answered may be lost",
			ahead: settings.AckJournal},
		"to set aside, damaged": {data: damage(t, g.data(t)), want: "is damaged at offset", ahead: settings.AckPostgres},
	} {
		t.Run(name, func(t *testing.T) {
			database := g.database(t)
			if c.ahead != "" {
				ahead(t, database, c.ahead)
			}
			journal, before := files(t, c.data), query(t, text(t, database), "SELECT * FROM exchange_state")
			require.Contains(t, launch(t, "--data="+c.data, "--database-url="+database).fails(t), c.want)
			require.Equal(t, "3", versionOf(t, database))
			require.Equal(t, before, query(t, text(t, database), "SELECT * FROM exchange_state"), "not even the epoch")
			require.Equal(t, journal, files(t, c.data))
		})
	}
	start(t, "--data="+g.data(t), "--database-url="+g.database(t)).stop(t)
}

// TestAnothersJournalIsLeftAsItIs starts with a journal of version 1 and another exchange's database. An older program
// must still be able to use that journal.
func TestAnothersJournalIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	data := golden{"testdata/upgrade/schema-1"}.data(t)
	_, database := lived(t, 1)
	before := files(t, data)
	refused := func(flags ...string) {
		state := query(t, text(t, database), "SELECT * FROM exchange_state")
		log := launch(t, append(flags, "--data="+data, "--database-url="+database)...).fails(t)
		require.Contains(t, log, "this data directory belongs to another database")
		require.Equal(t, before, files(t, data))
		require.Equal(t, state, query(t, text(t, database), "SELECT * FROM exchange_state"))
	}
	refused()
	ahead(t, database, settings.AckJournal)
	refused("--accept-journal-loss")
	ahead(t, database, settings.AckPostgres)
	refused()
}

// TestAJournalThatEndsTooEarlyIsSetAside starts with an older copy of the journal, and with a newer database whose
// server answered only what Postgres had.
func TestAJournalThatEndsTooEarlyIsSetAside(t *testing.T) {
	t.Parallel()
	data, database := lived(t, 1)
	early := t.TempDir()
	require.NoError(t, os.CopyFS(early, os.DirFS(data)))
	old := segmentsOf(t, early)[0]
	b, err := os.ReadFile(old)
	require.NoError(t, err)
	p := start(t, "--data="+data, "--database-url="+database, "--ack=postgres")
	dial(t, p.xml).must(t, `<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`)
	p.stop(t)
	p = start(t, "--data="+early, "--database-url="+database, "--ack=postgres")
	require.Contains(t, p.log.String(), "was set aside")
	require.Contains(t, dial(t, p.xml).must(t,
		`<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`), `id="4"`)
	p.stop(t)
	aside, err := filepath.Glob(filepath.Join(early, "journal", "aside-*", filepath.Base(old)))
	require.NoError(t, err)
	require.Len(t, aside, 1)
	kept, err := os.ReadFile(aside[0])
	require.NoError(t, err)
	require.Equal(t, b, kept)
}

// TestNoOrderIDIsLeftOutWhereEveryAnswerWaitedForPostgres: if the lost journal had no more records than the
// database, the next start skips no order ids.
func TestNoOrderIDIsLeftOutWhereEveryAnswerWaitedForPostgres(t *testing.T) {
	t.Parallel()
	data, database := lived(t, 1)
	start(t, "--data="+data, "--database-url="+database, "--ack=postgres").stop(t)
	require.NoError(t, os.RemoveAll(filepath.Join(data, "journal")))
	p := start(t, "--data="+data, "--database-url="+database, "--ack=postgres")
	require.Contains(t, dial(t, p.xml).must(t,
		`<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`), `id="3"`)
	p.stop(t)
}

// TestAnswersCountAsInPostgresOnlyOnceTheyAre switches from --ack journal to --ack postgres while the database lags.
func TestAnswersCountAsInPostgresOnlyOnceTheyAre(t *testing.T) {
	t.Parallel()
	g := golden{"testdata/upgrade/schema-6"}
	data, database := g.data(t), g.database(t)
	for _, want := range []string{settings.AckJournal, settings.AckPostgres} {
		p := start(t, "--data="+data, "--database-url="+database, "--ack=postgres")
		require.Equal(t, want, query(t, text(t, database), "SELECT ack FROM exchange_state")[0][0])
		p.stop(t)
	}
}
