package postgres

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/pgtest"
)

// eight lists the relations that people read.
var eight = []string{"accounts", "candles", "exchange_state", "executions", "market", "orders", "positions", "symbols"}

// column1 returns the rows of a query of one column.
func column1(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(background, sql, args...)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

// withPath returns a database's URL whose sessions start with a search_path.
func withPath(t *testing.T, database, path string) string {
	return with(t, database, "search_path", path)
}

// with returns a database's URL with one more parameter.
func with(t *testing.T, database, name, value string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

// TestPeopleSeeEightRelations queries the catalog as psql's \d does, and uses psql itself if it is installed.
// It does so as the owner, whose name is that of the internal schema, and as a superuser.
func TestPeopleSeeEightRelations(t *testing.T) {
	url := pgtest.NewDatabase(t)
	s := mustOpen(t, url)
	written(t, s, newHistory(7), 50)
	for _, url := range []string{url, asSuperuser(t, url)} {
		require.Equal(t, eight, column1(t, mustConnect(t, url, "people"), `SELECT relname::text FROM pg_class
			WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND pg_table_is_visible(oid)
			  AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) ORDER BY 1`))
		psql, err := exec.LookPath("psql")
		if err != nil {
			t.Log("no psql here: the catalog was asked alone")
			continue
		}
		command := exec.Command(psql, "-XAtF|", "-c", `\d`, strings.Replace(url, "postgres:///", "postgresql:///", 1))
		command.Env = append(os.Environ(), "PGOPTIONS=")
		said, err := command.CombinedOutput()
		require.NoError(t, err, "%s", said)
		var listed []string
		for line := range strings.Lines(string(said)) {
			listed = append(listed, strings.Split(line, "|")[1])
		}
		require.Equal(t, eight, listed)
	}
}

// TestARoleKeepsASearchPathOfItsOwn checks that the exchange sets a search_path only if the role has none.
func TestARoleKeepsASearchPathOfItsOwn(t *testing.T) {
	url := pgtest.NewDatabase(t)
	admin := mustConnect(t, url, "admin")
	setPath := func(sql string) {
		mustExec(t, admin, `DO $$ BEGIN EXECUTE format('ALTER ROLE outcry IN DATABASE %I `+sql+
			`', current_database()); END $$`)
	}
	path := func() string { return column1(t, mustConnect(t, url, "people"), `SHOW search_path`)[0] }
	setPath("SET search_path = one, public")
	t.Cleanup(func() { setPath("RESET search_path") })
	s := mustOpen(t, url)
	require.Equal(t, "one, public", path())
	setPath("RESET search_path")
	database := func(sql string) {
		mustExec(t, admin, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I `+sql+`', current_database()); END $$`)
	}
	database("SET search_path = public, two")
	s = mustReopen(t, s, url)
	require.Equal(t, "public, two", path())
	database("RESET search_path")
	mustReopen(t, s, url)
	require.Equal(t, "public", path())
}

// TestEveryRelationAndColumnHasAComment fails for a migration that adds one without a comment.
func TestEveryRelationAndColumnHasAComment(t *testing.T) {
	url := pgtest.NewDatabase(t)
	mustOpen(t, url)
	conn := mustConnect(t, url, "people")
	const ours = ` FROM pg_class c WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
		AND c.relnamespace IN ('public'::regnamespace, 'outcry'::regnamespace)`
	require.Len(t, column1(t, conn, `SELECT oid::regclass::text`+ours), len(allTables)+len([]string{"orders", "executions",
		"schema_version"}))
	require.Empty(t, column1(t, conn, `SELECT oid::regclass::text`+ours+` AND obj_description(oid, 'pg_class') IS NULL`))
	require.Empty(t, column1(t, conn, `SELECT attrelid::regclass || '.' || attname FROM pg_attribute
		WHERE attrelid IN (SELECT oid`+ours+`) AND attnum > 0 AND NOT attisdropped
		  AND col_description(attrelid, attnum) IS NULL`))
	require.Empty(t, column1(t, conn, `SELECT nspname::text FROM pg_namespace
		WHERE nspname = 'outcry' AND obj_description(oid, 'pg_namespace') IS NULL`))
}

// decoys makes relations in another schema that have the names of the exchange's relations. A statement that
// names no schema could find them instead. Some of them have a row, the others are empty.
func decoys(schema string) (sql string) {
	for _, table := range allTables {
		d, _, _ := table.describe()
		sql += fmt.Sprintf("CREATE %s.%s AS SELECT 'decoy'::text AS decoy;", schema, d.Name)
	}
	return sql
}

// TestAHostileSearchPathChangesNothing sets the role's search_path to a schema with tables, views and
// functions that have the exchange's names, and makes temporary ones with these names in the writing session.
func TestAHostileSearchPathChangesNothing(t *testing.T) {
	url := pgtest.NewDatabase(t)
	s, h := mustOpen(t, url), newHistory(3)
	events := written(t, s, h, 1000)
	admin := mustConnect(t, url, "admin")
	mustExec(t, admin, `CREATE SCHEMA evil;`+decoys("TABLE evil")+
		`CREATE TABLE evil.orders AS SELECT 'decoy'::text AS decoy; CREATE VIEW evil.executions AS SELECT 1 AS decoy;
		CREATE TABLE evil.outcry_schema_version AS SELECT 0 AS version;
		CREATE TABLE evil.schema_version AS SELECT 0 AS version, 'evil' AS people;
		CREATE FUNCTION evil.trim_scale(numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 666::numeric';
		CREATE FUNCTION evil.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT NULL::text'`)
	hostile := withPath(t, url, "evil, pg_catalog")

	s.Close()
	s = mustOpen(t, hostile)
	_, err := s.conn.Exec(background, decoys("TEMP TABLE pg_temp"))
	require.NoError(t, err)
	events = append(events, written(t, s, h, 500)...)
	requireState(t, s, h)
	_, err = s.reconnect(background)
	require.NoError(t, err)
	events = append(events, written(t, s, h, 500)...)
	requireMarket(t, s, events)
	require.NoError(t, s.SetJournal(background, [16]byte{1}, "journal"))
	p, err := s.Position(background)
	require.NoError(t, err)
	require.Equal(t, h.seq, p.Applied)
	_, looked, err := Look(background, mustConnect(t, hostile, "doctor"))
	require.NoError(t, err)
	require.Equal(t, p, looked)

	a := mustOpenArchive(t, hostile)
	state, err := a.State(background)
	require.NoError(t, err)
	require.Equal(t, h.state.Digest(), state.Digest())
	seq := 0
	require.NoError(t, a.History(background, func(uint64, *exchange.Event) error { seq++; return nil }))
	require.Len(t, events, seq)
	require.NoError(t, a.CheckOrders(background))
	require.NoError(t, a.CheckMarket(background))
	refs, err := a.CheckRefs(background)
	require.NoError(t, err)
	require.Positive(t, refs)

	past := mustOpenHistory(t, hostile)
	var keys []exchange.RefKey
	require.NoError(t, past.EachRef(background, func(k exchange.RefKey) bool { keys = append(keys, k); return true }))
	require.Len(t, keys, int(refs))
	uses, err := past.Refs(background, keys)
	require.NoError(t, err)
	require.Len(t, uses, len(keys))
	_, found, err := past.Order(background, 1, 0, 10)
	require.NoError(t, err)
	require.True(t, found)

	for _, table := range Tables() {
		var b bytes.Buffer
		_, err := a.Dump(background, table, &b)
		require.NoError(t, err)
		require.NotContains(t, b.String(), "decoy")
		require.Equal(t, []string{"decoy"}, column1(t, admin, `SELECT decoy FROM evil.`+table.Name))
	}
}

// requireState requires that the tables hold the history's state.
func requireState(t *testing.T, s *Store, h *history) {
	t.Helper()
	snap, err := s.Load(background)
	require.NoError(t, err)
	state, err := snap.Restore()
	require.NoError(t, err)
	require.Equal(t, h.state.Digest(), state.Digest())
}

// TestAnExchangeStaysInTheSchemaItWasMadeIn makes an exchange while search_path begins with an operator's
// schema. The tables that people read stay there when search_path changes.
func TestAnExchangeStaysInTheSchemaItWasMadeIn(t *testing.T) {
	for _, schema := range []string{"desk", `a "strange's" one`} {
		database := pgtest.NewDatabase(t)
		quoted := pgx.Identifier{schema}.Sanitize()
		mustExec(t, mustConnect(t, database, "admin"), `CREATE SCHEMA `+quoted)
		s, h := mustOpen(t, withPath(t, database, quoted+", public")), newHistory(5)
		written(t, s, h, 300)
		s = mustReopen(t, s, database)
		written(t, s, h, 300)
		requireState(t, s, h)
		conn := mustConnect(t, database, "people")
		require.Empty(t, column1(t, conn, `SELECT relname::text FROM pg_class
			WHERE relnamespace = 'public'::regnamespace`))
		require.Equal(t, eight, column1(t, conn, `SELECT relname::text FROM pg_class c JOIN pg_namespace n
			ON n.oid = c.relnamespace WHERE nspname = $1 AND relkind IN ('r', 'v') ORDER BY 1`, schema))
		require.NoError(t, mustOpenArchive(t, database).CheckOrders(background))
	}
}

// TestASchemaThatWasRenamedIsNamed checks that the error names the recorded schema, and that no other schema
// is searched.
func TestASchemaThatWasRenamedIsNamed(t *testing.T) {
	database := pgtest.NewDatabase(t)
	s, h := mustOpen(t, database), newHistory(11)
	written(t, s, h, 50)
	s.Close()
	admin := mustConnect(t, database, "admin")
	mustExec(t, admin, `ALTER SCHEMA public RENAME TO desk; CREATE SCHEMA public; CREATE TABLE public.accounts (id int)`)
	_, err := Open(background, database, slog.New(slog.DiscardHandler))
	require.True(t, Unusable(err), "%v", err)
	require.ErrorContains(t, err, `the schema "public" has no exchange_state, which outcry.schema_version says it has`)
	mustExec(t, admin, `UPDATE outcry.schema_version SET people = 'desk'`)
	requireState(t, mustOpen(t, database), h)
}

// TestWithoutASchemaForPeopleNothingIsMade uses a search_path without an existing schema, or with only the
// internal one.
func TestWithoutASchemaForPeopleNothingIsMade(t *testing.T) {
	database := pgtest.NewDatabase(t)
	admin := mustConnect(t, database, "admin")
	mustExec(t, admin, `CREATE SCHEMA outcry`)
	for _, path := range []string{"nowhere", "outcry", "pg_catalog"} {
		_, err := Open(background, withPath(t, database, path), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "search_path names no schema for the tables")
		require.True(t, Unusable(err))
	}
	require.Empty(t, column1(t, admin, `SELECT relname::text FROM pg_class
		WHERE relnamespace IN ('public'::regnamespace, 'outcry'::regnamespace)`))
	// "$user" is the existing schema outcry, which is not used for the tables that people read
	s, h := mustOpen(t, database), newHistory(8)
	written(t, s, h, 50)
	require.Equal(t, "public", s.conn.people)
}

// TestARoleThatMayMakeNoSchemaIsToldWhatToDo checks that the error gives advice, and that nothing is changed.
func TestARoleThatMayMakeNoSchemaIsToldWhatToDo(t *testing.T) {
	database := pgtest.NewDatabase(t)
	admin := mustConnect(t, asSuperuser(t, database), "admin")
	mustExec(t, admin, `CREATE ROLE "a desk"; GRANT ALL ON SCHEMA public TO "a desk"`)
	t.Cleanup(func() {
		mustExec(t, mustConnect(t, asSuperuser(t, database), "admin"), `DROP OWNED BY "a desk" CASCADE; DROP ROLE "a desk"`)
	})
	url := with(t, asSuperuser(t, database), "role", "a desk")
	open := func() (*Store, error) { return Open(background, url, slog.New(slog.DiscardHandler)) }
	_, err := open()
	require.True(t, Unusable(err), "%v", err)
	require.ErrorContains(t, err, `role "a desk" may not make the schema outcry`)
	require.Empty(t, column1(t, admin, `SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace`))
	advice := regexp.MustCompile(`CREATE SCHEMA .*`).FindString(err.Error())
	// The superuser follows the advice, or grants rights in a schema that another role owns.
	for _, grant := range []string{advice, `DROP SCHEMA outcry CASCADE; DROP OWNED BY "a desk" CASCADE;
		CREATE SCHEMA outcry; GRANT USAGE, CREATE ON SCHEMA outcry TO "a desk"; GRANT ALL ON SCHEMA public TO "a desk"`} {
		mustExec(t, admin, grant)
		s, err := open()
		require.NoError(t, err)
		written(t, s, newHistory(9), 50)
		s.Close()
	}
}

// TestNamesOfPreparedStatementsAreShort: Postgres uses only the first 63 bytes of a name, so that statements with the
// same beginning would have one name.
func TestNamesOfPreparedStatementsAreShort(t *testing.T) {
	s := mustOpen(t, pgtest.NewDatabase(t))
	written(t, s, newHistory(10), 2000)
	for _, last := range []string{"1", "2"} {
		statement, err := s.conn.Prepare(background, "SELECT count(*) FROM "+peopleDot+"accounts, "+peopleDot+
			"positions, "+peopleDot+"symbols WHERE now() IS NOT NULL AND 0 < "+last)
		require.NoError(t, err)
		require.Contains(t, statement.SQL, "< "+last)
	}
	rows, err := s.conn.Query(background, `SELECT name, statement FROM pg_prepared_statements`)
	require.NoError(t, err)
	texts := map[string]bool{}
	var name, text string
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		require.Regexp(t, `^stmt(cache)?_[0-9a-f]{40,50}$`, name, text)
		texts[text] = true
		return nil
	})
	require.NoError(t, err)
	for _, sql := range []string{advance, placeSymbols, changePositions, closeOrders, shrinkOrders} {
		require.True(t, texts[s.conn.in(sql)], sql)
	}
}
