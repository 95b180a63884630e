package postgres

import (
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/pgtest"
)

// atVersion7 returns a database with a history at schema 7, the last version before the schema outcry.
func atVersion7(t *testing.T) (database string, h *history, events []exchange.Event) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	database, h = pgtest.NewDatabase(t), newHistory(seed)
	h.plain = true
	s := mustOpen(t, database)
	events = written(t, s, h, 1000)
	s.Close()
	mustExec(t, mustConnect(t, database, "admin"), pgtest.UndoSchemas)
	return database, h, events
}

// TestTablesMoveWithoutBeingWritten checks that the upgrade does not rewrite tables when it moves them, so
// that it is fast for any size: the files of tables and indexes stay the same.
func TestTablesMoveWithoutBeingWritten(t *testing.T) {
	database, h, events := atVersion7(t)
	conn := mustConnect(t, database, "admin")
	files := func(schemas ...string) []string {
		return column1(t, conn, `SELECT relname || ' ' || pg_relation_filenode(c.oid)
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE nspname = ANY ($1) AND relkind IN ('r', 'i')
			  AND relname NOT IN ('outcry_schema_version', 'schema_version') ORDER BY 1`, schemas)
	}
	before := files("public")
	require.Greater(t, len(before), len(allTables))
	s := mustOpen(t, database)
	require.Subset(t, files("public", "outcry"), before)
	require.Len(t, files("public"), 2*len(readByPeople), "each with the index of its key")

	requireState(t, s, h)
	events = append(events, written(t, s, h, 500)...)
	a := mustOpenArchive(t, database)
	next := 0
	require.NoError(t, a.History(background, func(_ uint64, e *exchange.Event) error {
		require.True(t, e.Same(timeless(events[next])), "record %d", next+1)
		next++
		return nil
	}))
	require.Len(t, events, next)
	require.NoError(t, a.CheckOrders(background))
	require.NoError(t, a.CheckMarket(background))
}

// TestWhoCouldReadStillCan uses roles that may read views, tables, or a single column.
func TestWhoCouldReadStillCan(t *testing.T) {
	database, _, _ := atVersion7(t)
	admin := mustConnect(t, asSuperuser(t, database), "admin")
	drop := func(conn *pgx.Conn) {
		for _, role := range []string{`"a reader"`, "an_auditor", "a_counter", "a_stranger"} {
			mustExec(t, conn, `DROP OWNED BY `+role+`; DROP ROLE `+role)
		}
	}
	mustExec(t, admin, `CREATE ROLE "a reader"; CREATE ROLE an_auditor; CREATE ROLE a_counter; CREATE ROLE a_stranger;
		GRANT USAGE ON SCHEMA public TO PUBLIC;
		GRANT SELECT ON orders, executions, accounts TO "a reader";
		GRANT SELECT ON ALL TABLES IN SCHEMA public TO an_auditor;
		GRANT SELECT (id) ON order_log TO a_counter`)
	t.Cleanup(func() { drop(mustConnect(t, asSuperuser(t, database), "admin")) })
	mustOpen(t, database)
	const denied = "42501" // insufficient_privilege
	for _, test := range []struct{ role, sql, code string }{
		{`"a reader"`, `SELECT count(*) FROM public.orders, public.executions, public.accounts`, ""},
		{`"a reader"`, `SELECT count(*) FROM outcry.order_log`, denied},
		{"an_auditor", `SELECT count(*) FROM public.market, public.candles, outcry.refs, outcry.schema_version`, ""},
		{"a_counter", `SELECT count(id) FROM outcry.order_log`, ""},
		{"a_counter", `SELECT count(account) FROM outcry.order_log`, denied},
		{"a_stranger", `SELECT count(*) FROM public.orders`, denied},
		{"a_stranger", `SELECT count(*) FROM outcry.order_log`, denied},
	} {
		mustExec(t, admin, `SET ROLE `+test.role)
		_, err := admin.Exec(background, test.sql)
		require.Equal(t, test.code != "", err != nil, "%s: %s: %v", test.role, test.sql, err)
		require.True(t, err == nil || hasCode(err, test.code), "%v", err)
		mustExec(t, admin, `RESET ROLE`)
	}
}

// TestAProgramOfBeforeTheSchemasChangesNothing runs the first queries of a program from before the schema
// outcry. It finds a relation with the name of its version table, so it makes nothing, and cannot read that
// relation.
func TestAProgramOfBeforeTheSchemasChangesNothing(t *testing.T) {
	database := pgtest.NewDatabase(t)
	mustOpen(t, database)
	for _, path := range []string{"public", `outcry, public`} {
		former := mustConnect(t, withPath(t, database, path), "outcryd")
		var there bool
		require.NoError(t, former.QueryRow(background, `SELECT to_regclass('outcry_schema_version') IS NOT NULL`).
			Scan(&there))
		require.True(t, there, "or it makes the table and its first migration")
		_, err := former.Exec(background, `SELECT version FROM outcry_schema_version`)
		require.True(t, hasCode(err, "42809"), "%v", err) // wrong_object_type
	}
}

// TestAnUpgradeThatAReaderHoldsUpLeavesTheVersion checks that an upgrade blocked by a reader of a table leaves
// the version unchanged, and that the next try succeeds.
func TestAnUpgradeThatAReaderHoldsUpLeavesTheVersion(t *testing.T) {
	t.Parallel() // the test waits for the lock
	database, h, _ := atVersion7(t)
	reader := mustConnect(t, database, "reader")
	mustExec(t, reader, `BEGIN; LOCK TABLE execution_log IN ACCESS SHARE MODE`)
	_, err := Open(background, database, slog.New(slog.DiscardHandler))
	require.True(t, hasCode(err, lockNotAvailable), "%v", err)
	require.False(t, Unusable(err))
	version, _, err := Look(background, reader)
	require.NoError(t, err)
	require.Equal(t, 7, version)
	mustExec(t, reader, `ROLLBACK`)
	requireState(t, mustOpen(t, database), h)
}

// TestAnExchangeInASchemaNamedOutcryStaysThere has an exchange that was made in that schema because of "$user"
// in the search_path of the role outcry.
func TestAnExchangeInASchemaNamedOutcryStaysThere(t *testing.T) {
	database, h, _ := atVersion7(t)
	mustExec(t, mustConnect(t, database, "admin"), `ALTER SCHEMA public RENAME TO outcry; CREATE SCHEMA public;
		DO $$ BEGIN EXECUTE format('ALTER ROLE outcry IN DATABASE %I RESET search_path', current_database()); END $$`)
	s := mustOpen(t, database)
	requireState(t, s, h)
	written(t, s, h, 300)
	s = mustReopen(t, s, database)
	requireState(t, s, h)
	require.Equal(t, "outcry", s.conn.people)
	require.NoError(t, mustOpenArchive(t, database).CheckOrders(background))
	former := mustConnect(t, database, "outcryd")
	_, err := former.Exec(background, `SELECT version FROM outcry_schema_version`)
	require.True(t, hasCode(err, "42809"), "%v", err) // wrong_object_type
}
