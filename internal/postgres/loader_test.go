package postgres

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
	"outcry/internal/testing/pgtest"
)

func mustLoader(t *testing.T, url string) *Loader {
	t.Helper()
	l, err := OpenLoader(background, url)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

// TestABackupKeepsEveryTableAndColumn fails for a migration whose tables or columns are not in the
// descriptions: backups would lack them.
func TestABackupKeepsEveryTableAndColumn(t *testing.T) {
	l := mustLoader(t, pgtest.NewDatabase(t))
	newest := SchemaVersion()
	require.NoError(t, l.MakeSchema(background, newest))
	require.NoError(t, l.CheckTables(background, Tables()))
}

// TestTablesOfAnotherLayoutAreNamed removes, adds and changes tables of a backup.
func TestTablesOfAnotherLayoutAreNamed(t *testing.T) {
	l := mustLoader(t, pgtest.NewDatabase(t))
	newest := SchemaVersion()
	require.NoError(t, l.MakeSchema(background, newest))
	all := Tables()
	for want, tables := range map[string][]Table{
		"table accounts is missing in the backup":        all[2:],
		`the backup has an unknown table "orders; DROP"`: append([]Table{{"orders; DROP", nil}}, all...),
		`the backup has an unknown table "symbols"`:      append(all[:len(all):len(all)], all[2]),
		"table accounts has the columns [id] in the backup": append([]Table{{"accounts", []string{"id"}}, all[0]},
			all[2:]...),
	} {
		require.ErrorContains(t, l.CheckTables(background, tables), want)
	}
}

// TestTablesOfEveryVersionAreBroughtUpToDate makes each version of the schema in one transaction and upgrades
// it to the newest.
func TestTablesOfEveryVersionAreBroughtUpToDate(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	url := pgtest.NewDatabase(t)
	newest := SchemaVersion()
	for version := 1; version <= newest; version++ {
		l := mustLoader(t, url)
		require.NoError(t, l.CheckEmpty(background), "what was not committed is undone")
		require.NoError(t, l.MakeSchema(background, version))
		_, err := l.Load(background, Table{"exchange_state", []string{"applied_seq", "epoch"}}, strings.NewReader("0\t7\n"))
		require.NoError(t, err)
		require.NoError(t, l.Upgrade(background, version))
		require.NoError(t, l.CheckTables(background, Tables()))
		after, err := l.SetIdentity(background, Identity{Journal: [16]byte{1}, Epoch: 41, SkipOrders: 5})
		require.NoError(t, err)
		require.Equal(t, uint64(5), after)
		_, p, err := l.State(background)
		require.NoError(t, err)
		require.Equal(t, Position{Journal: [16]byte{1}, Ack: "journal", OrdersAfter: 5}, p)
		if version == newest {
			require.NoError(t, l.Commit(background))
		}
		l.Close()
	}
	s := mustOpen(t, url)
	require.Equal(t, int64(42), s.epoch)
	for _, version := range []int{0, newest + 1} {
		require.ErrorContains(t, mustLoader(t, pgtest.NewDatabase(t)).MakeSchema(background, version),
			"this program knows 1 to")
	}
}

// TestADatabaseThatIsNotEmptyIsNamed checks each kind of relation.
func TestADatabaseThatIsNotEmptyIsNamed(t *testing.T) {
	for sql, want := range map[string]string{
		`CREATE TABLE public.cats (id int)`:                 "the table cats",
		`CREATE VIEW public.one AS SELECT 1`:                "the view one",
		`CREATE SEQUENCE public.ids`:                        "the sequence ids",
		`CREATE SCHEMA other; CREATE TABLE other.t (a int)`: "the table other.t",
	} {
		l := mustLoader(t, pgtest.NewDatabase(t))
		require.NoError(t, l.CheckEmpty(background))
		_, err := l.tx.Exec(background, sql)
		require.NoError(t, err)
		var occupied *OccupiedError
		require.ErrorAs(t, l.CheckEmpty(background), &occupied)
		require.Equal(t, want, occupied.Found)
	}
}

// TestADatabaseInUseIsNotLoaded opens a loader while a server uses the database.
func TestADatabaseInUseIsNotLoaded(t *testing.T) {
	t.Parallel() // the test waits for the lock
	url := pgtest.NewDatabase(t)
	mustOpen(t, url)
	_, err := OpenLoader(background, url)
	require.ErrorIs(t, err, ErrTaken)
}

// TestWhatIsDumpedIsLoaded copies a history from one database to another. Dumps of both must be equal, byte by
// byte.
func TestWhatIsDumpedIsLoaded(t *testing.T) {
	from, to := pgtest.NewDatabase(t), pgtest.NewDatabase(t)
	s, h := mustOpen(t, from), newHistory(3)
	written(t, s, h, 1000)
	_, err := s.conn.Exec(background, `UPDATE people.accounts SET id = E'a\tb\\ü\n' WHERE id = '9'`)
	require.NoError(t, err)
	a := mustOpenArchive(t, from)
	l := mustLoader(t, to)
	newest := SchemaVersion()
	require.NoError(t, l.MakeSchema(background, newest))
	dumps := map[string]string{}
	for _, table := range Tables() {
		var b bytes.Buffer
		rows, err := a.Dump(background, table, &b)
		require.NoError(t, err)
		dumps[table.Name] = b.String()
		loaded, err := l.Load(background, table, &b)
		require.NoError(t, err)
		require.Equal(t, rows, loaded)
	}
	require.NoError(t, l.Commit(background))
	copied := mustOpenArchive(t, to)
	for _, table := range Tables() {
		var b bytes.Buffer
		_, err := copied.Dump(background, table, &b)
		require.NoError(t, err)
		require.Equal(t, dumps[table.Name], b.String(), table.Name)
	}
	_, err = copied.Dump(background, Table{"nothing", []string{"a"}}, io.Discard)
	require.ErrorContains(t, err, "postgres: copy nothing")
}

// TestRefsAreComparedWithoutReadingATableForEach checks that the planner, without statistics, does not read
// all accounts for each ref.
func TestRefsAreComparedWithoutReadingATableForEach(t *testing.T) {
	l := mustLoader(t, pgtest.NewDatabase(t))
	require.NoError(t, l.MakeSchema(background, SchemaVersion()))
	const refs = 75_000
	_, err := l.tx.Exec(background, l.store.conn.in(fmt.Sprintf(`
		INSERT INTO people.accounts (id, opened, balance, held, seq) SELECT n, 0, 0, 0, n FROM generate_series(1, 12000) n;
		INSERT INTO outcry.placement_log SELECT n, 'SPY', n %% 12000, 1 FROM generate_series(200001, 210000) n;
		INSERT INTO outcry.order_log (id, seq, time, account, sym, amount, limit_price)
			SELECT n, n, 0, n %% 12000, 'SPY', 1, 1 FROM generate_series(1, 200000) n;
		INSERT INTO outcry.refs SELECT account, id, seq, id FROM outcry.order_log LIMIT %d`, refs)))
	require.NoError(t, err)
	for range 2 { // without and with statistics
		rows, err := l.tx.Query(background, "EXPLAIN (FORMAT TEXT, COSTS off) "+wrongRefs)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.NotContains(t, strings.Join(plan, "\n"), "Nested Loop")
		require.Contains(t, strings.Join(plan, "\n"), "Scan on accounts")
		require.NoError(t, l.Analyze(background))
	}
	compared, err := l.CheckRefs(background)
	require.NoError(t, err)
	require.EqualValues(t, refs, compared)
}
