package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestADatabaseIsNotUpgradedForAJournalThatIsNotItsOwn starts on a database of an older
// version with a journal that the start refuses.
func TestADatabaseIsNotUpgradedForAJournalThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	g := golden{"testdata/upgrade/schema-3"}
	other, _ := lived(t, 1)
	damaged := g.data(t)
	segments, err := filepath.Glob(filepath.Join(damaged, "journal", "*.seg"))
	require.NoError(t, err)
	b, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	b[200] ^= 1
	require.NoError(t, os.WriteFile(segments[0], b, 0o640))
	database := g.database(t)
	before := query(t, text(t, database), "SELECT * FROM exchange_state")
	for data, want := range map[string]string{
		other:   "this data directory belongs to another database",
		damaged: "is damaged at offset",
	} {
		require.Contains(t, launch(t, "--data="+data, "--database-url="+database).fails(t), want)
		require.Equal(t, "3", versionOf(t, database))
		require.Equal(t, before, query(t, text(t, database), "SELECT * FROM exchange_state"), "not even the epoch")
	}
	start(t, "--data="+g.data(t), "--database-url="+database).stop(t)
}

// TestNoOrderIDIsLeftOutWhereEveryAnswerWaitedForPostgres loses a journal that had nothing
// more than the database.
func TestNoOrderIDIsLeftOutWhereEveryAnswerWaitedForPostgres(t *testing.T) {
	t.Parallel()
	data, database := lived(t, 1)
	start(t, "--data="+data, "--database-url="+database, "--ack=postgres").stop(t)
	require.NoError(t, os.RemoveAll(filepath.Join(data, "journal")))
	p := start(t, "--data="+data, "--database-url="+database, "--ack=postgres")
	require.Contains(t, dial(t, p.xml).must(t, `<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`), `id="3"`)
	p.stop(t)
}
