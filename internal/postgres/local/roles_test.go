package local

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// query returns the only value of a query, run as the user of the URL.
func query(t *testing.T, url, sql string) (text string) {
	t.Helper()
	conn, err := pgx.Connect(background, url)
	require.NoError(t, err)
	defer conn.Close(background)
	require.NoError(t, conn.QueryRow(background, sql).Scan(&text), sql)
	return text
}

// do executes statements as the user of the URL.
func do(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(background, url)
	require.NoError(t, err)
	defer conn.Close(background)
	_, err = conn.Exec(background, sql)
	require.NoError(t, err, sql)
}

// roles lists all roles except Postgres's own, with a star after superusers, and the owner of the database.
const roles = `SELECT (SELECT string_agg(rolname || CASE WHEN rolsuper THEN '*' ELSE '' END, ' ' ORDER BY rolname)
	FROM pg_roles WHERE rolname !~ '^pg_')
	|| ', ' || (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database())`

const settledRoles = "outcry outcry_admin*, outcry"

// things creates an object of each kind that changes owner.
const things = `CREATE TABLE kept AS SELECT 42 AS v;
	CREATE TABLE numbered (id serial PRIMARY KEY, n bigint GENERATED ALWAYS AS IDENTITY, v text);
	CREATE TABLE parted (v int) PARTITION BY RANGE (v); CREATE TABLE part PARTITION OF parted DEFAULT;
	CREATE SCHEMA "other place"; CREATE TABLE "other place"."a table" (v int);
	CREATE SEQUENCE counted;
	CREATE VIEW seen AS SELECT v FROM kept; CREATE MATERIALIZED VIEW stored AS SELECT v FROM kept;
	CREATE FUNCTION twice(v int) RETURNS int LANGUAGE sql AS 'SELECT 2 * v';
	CREATE PROCEDURE done() LANGUAGE sql AS 'SELECT 1';
	CREATE FUNCTION of_plpgsql() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER EXTENSION plpgsql ADD FUNCTION of_plpgsql();
	CREATE AGGREGATE total(int) (SFUNC = int4pl, STYPE = int);
	CREATE TYPE color AS ENUM ('red'); CREATE DOMAIN small AS int; CREATE TYPE pair AS (a int, b int);
	CREATE TYPE span AS RANGE (subtype = int4)`

// foreign counts the objects of the superuser that initdb did not make. The constructor functions of range
// types are left out, as they belong to their type.
const foreign = `SELECT ((SELECT count(*) FROM pg_class
	WHERE relowner = 10 AND oid >= 16384 AND relnamespace <> 'pg_toast'::regnamespace)
	+ (SELECT count(*) FROM pg_namespace WHERE nspowner = 10 AND (oid >= 16384 OR nspname = 'public'))
	+ (SELECT count(*) FROM pg_proc
	WHERE proowner = 10 AND oid >= 16384 AND proname !~ '^span' AND proname <> 'of_plpgsql')
	+ (SELECT count(*) FROM pg_type WHERE typowner = 10 AND oid >= 16384 AND typname !~ 'multirange'))::text`

// former makes a cluster like earlier versions did: its bootstrap superuser is outcry, and everyone who can reach the
// socket may connect.
func former(t *testing.T, dir string) Options {
	t.Helper()
	o := options(dir)
	c := begin(t, o)
	do(t, c.AdminURL(), `ALTER DATABASE postgres OWNER TO outcry_admin; DROP ROLE outcry; CREATE ROLE other SUPERUSER;
		SET SESSION AUTHORIZATION other; ALTER ROLE outcry_admin RENAME TO outcry; RESET SESSION AUTHORIZATION;
		DROP ROLE other; CREATE ROLE reader;
		GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;`+things+`; GRANT SELECT ON kept TO reader`)
	stop(t, c)
	require.NoError(t, os.WriteFile(filepath.Join(c.dataDir(), "pg_hba.conf"), []byte("local all all trust\n"), 0o600))
	return o
}

// requireSettled requires that a cluster made by former has the present roles and owners.
func requireSettled(t *testing.T, c *Cluster) {
	t.Helper()
	require.Equal(t, "outcry outcry_admin* reader, outcry", query(t, c.URL(), roles))
	require.Equal(t, "0", query(t, c.URL(), foreign))
	require.Equal(t, superuser, query(t, c.URL(), "SELECT pg_get_userbyid(proowner)::text FROM pg_proc WHERE proname = "+
		"'of_plpgsql'"),
		"a part of an extension stays with it")
	require.Equal(t, "42", query(t, c.URL(), "SELECT v::text FROM seen"))
	do(t, c.URL(), `ALTER TABLE kept ADD COLUMN more int; DROP VIEW seen; CREATE VIEW seen AS SELECT v FROM kept;
		REFRESH MATERIALIZED VIEW stored;
		INSERT INTO numbered (v) VALUES ('x'); DROP FUNCTION twice; ALTER TYPE color ADD VALUE 'blue';
		CREATE TABLE "other place".another ()`)
	require.Equal(t, "true", query(t, c.URL(), "SELECT has_table_privilege('reader', 'kept', 'SELECT')::text"))
}

func TestTheRoleOfTheExchangeIsNoSuperuser(t *testing.T) {
	for name, way := range ways(t) {
		t.Run(name, func(t *testing.T) {
			o, m := initialized(t, t.TempDir()), thisMachine
			m.user = func(_, _ string) (*syscall.SysProcAttr, error) { return way, nil }
			for range 2 {
				c := beginOn(t, o, m)
				require.Equal(t, settledRoles, query(t, c.URL(), roles))
				require.Equal(t, "outcry", query(t, c.URL(), "SELECT current_user::text"))
				require.Equal(t, "outcry_admin", query(t, c.AdminURL(), "SELECT current_user::text"))
				keep(t, c, 1)
				do(t, c.AdminURL(), "ALTER ROLE outcry SUPERUSER") // the next start reverts it
				stop(t, c)
			}
		})
	}
}

// TestARoleIsMadeAgain: a start creates the role if it is missing, also after a start that was interrupted
// before it created the role.
func TestARoleIsMadeAgain(t *testing.T) {
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	do(t, c.AdminURL(), "ALTER DATABASE postgres OWNER TO outcry_admin; DROP OWNED BY outcry; DROP ROLE outcry")
	stop(t, c)
	c = begin(t, o)
	require.Equal(t, settledRoles, query(t, c.URL(), roles))
	do(t, c.AdminURL(), "ALTER ROLE outcry NOLOGIN")
	stop(t, c)
	require.Equal(t, settledRoles, query(t, begin(t, o).URL(), roles), "it may log in again")
}

// TestTheSuperusersSessionsHaveTheirOwnSettings: the superuser's sessions have their own settings, regardless of those
// of the database. Their lock timeout is settleLockTimeout.
func TestTheSuperusersSessionsHaveTheirOwnSettings(t *testing.T) {
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	want := map[string]string{"search_path": "pg_catalog", "statement_timeout": "0", "lock_timeout": "30s",
		"idle_in_transaction_session_timeout": "0", "default_transaction_read_only": "off"}
	for name := range want {
		value := map[string]string{"search_path": "public", "default_transaction_read_only": "on"}[name]
		if value == "" {
			value = "'1h'"
		}
		do(t, c.AdminURL()+"&default_transaction_read_only=off", "ALTER DATABASE postgres SET "+name+" = "+value)
	}
	conn, err := c.connectAsSuperuser(background)
	require.NoError(t, err)
	defer conn.Close(background)
	for name, value := range want {
		var is string
		require.NoError(t, conn.QueryRow(background, "SHOW "+name).Scan(&is))
		require.Equal(t, value, is, name)
	}
	_, err = conn.Exec(background, "ALTER DATABASE postgres RESET ALL")
	require.NoError(t, err)
	stop(t, c)
}

// TestAnErrorOfAStepIsTheStarts: a failed step fails the start, so that a cluster with unsettled roles is
// never used.
func TestAnErrorOfAStepIsTheStarts(t *testing.T) {
	c := begin(t, initialized(t, t.TempDir()))
	was := settling
	t.Cleanup(func() { settling = was })
	settling = []step{{"fail", "SELECT 1/0"}, was[0]}
	err := c.settleRoles(background)
	require.ErrorContains(t, err, "set up the roles of "+c.options.Dir+": fail: ERROR: division by zero")
}

// TestOnlyARefusalIsOne: refused is true only if Postgres does not let the user connect. Other errors of
// Postgres are temporary, or explain themselves.
func TestOnlyARefusalIsOne(t *testing.T) {
	require.True(t, refused(fmt.Errorf("connect: %w", &pgconn.PgError{Code: notLetIn})))
	require.False(t, refused(&pgconn.PgError{Code: "57P03"}))
	require.False(t, refused(os.ErrNotExist))
}

// TestSettingsOfTheDatabaseDoNotReachTheSuperuser: the database's owner may change any of its settings. They
// must neither make every start fail nor make a start run the owner's functions.
func TestSettingsOfTheDatabaseDoNotReachTheSuperuser(t *testing.T) {
	const without = "&search_path=pg_catalog&statement_timeout=0&default_transaction_read_only=off"
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	do(t, c.AdminURL(), "ALTER ROLE outcry SUPERUSER") // the next start reverts it
	do(t, c.URL(), `CREATE SCHEMA mine; CREATE FUNCTION mine.pg_get_userbyid(oid) RETURNS name LANGUAGE plpgsql AS
		$$ BEGIN ALTER ROLE outcry SUPERUSER; RETURN 'outcry'; END $$`)
	for _, setting := range []string{"search_path = mine, pg_catalog", "statement_timeout = 1", "lock_timeout = 1",
		"idle_in_transaction_session_timeout = 1", "default_transaction_read_only = on"} {
		do(t, c.URL()+without, "ALTER DATABASE postgres SET "+setting)
	}
	stop(t, c)
	c = begin(t, o)
	require.Equal(t, settledRoles, query(t, c.URL()+without, roles))
	do(t, c.URL()+without, "ALTER DATABASE postgres RESET ALL; DROP SCHEMA mine CASCADE") // other tests reuse it
	stop(t, c)
}

func TestAClusterOfAFormerVersionIsBroughtHere(t *testing.T) {
	for name, way := range ways(t) {
		t.Run(name, func(t *testing.T) {
			o, m := former(t, t.TempDir()), thisMachine
			m.user = func(_, _ string) (*syscall.SysProcAttr, error) { return way, nil }
			c := beginOn(t, o, m)
			requireSettled(t, c)
			stop(t, c)
			m.stepped = func(_ *Cluster, does string) { require.NotEqual(t, rename.does, does) }
			require.Equal(t, "0", query(t, beginOn(t, o, m).URL(), foreign))
		})
	}
}

// TestItIsBroughtHereAlsoIfKilledInTheMiddle kills Postgres after each step of settleRoles in turn. A later
// start must complete the change of roles.
func TestItIsBroughtHereAlsoIfKilledInTheMiddle(t *testing.T) {
	o := former(t, t.TempDir())
	var steps int
	for cut := 1; ; cut++ {
		m, done := thisMachine, 0
		m.stepped = func(c *Cluster, does string) {
			if done++; done == cut {
				t.Logf("killed after: %s", does)
				require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGKILL))
				require.Eventually(t, func() bool { return c.ping(background) == nil }, patience, readyPoll, "it comes back")
			}
		}
		c, err := start(background, o, m)
		if done < cut { // there were fewer steps, and all were completed
			require.NoError(t, err)
			t.Cleanup(func() { stop(t, c) })
			require.Equal(t, steps, done)
			requireSettled(t, c)
			break
		}
		require.Error(t, err)
		steps = done
	}
	require.Equal(t, 1+len(settling)+len(handing), steps)
}

// TestOnlyThoseOfTheMapGetIn checks the access files and the mode of the socket's folder, which closes it to
// other users.
func TestOnlyThoseOfTheMapGetIn(t *testing.T) {
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	hba, err := os.ReadFile(filepath.Join(c.dataDir(), "pg_hba.conf"))
	require.NoError(t, err)
	require.Equal(t, "# outcry writes this file at each start.\nlocal all all peer map=outcry\n", string(hba))
	for _, sql := range []string{
		"SELECT 'lines ' || count(*) FROM pg_hba_file_rules WHERE auth_method <> 'peer' OR error IS NOT NULL HAVING " +
			"count(*) = 0",
		"SELECT 'lines ' || 0",
	} {
		require.Equal(t, "lines 0", query(t, c.AdminURL(), sql))
	}
	ident, err := os.ReadFile(filepath.Join(c.dataDir(), "pg_ident.conf"))
	require.NoError(t, err)
	for _, id := range []int{0, os.Geteuid()} {
		require.Contains(t, string(ident), fmt.Sprintf("outcry \"%s\" outcry\n", userName(id)))
	}
	info, err := os.Stat(c.socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	// Without this user in the map, the reloading postmaster no longer lets it connect.
	require.NoError(t, os.WriteFile(filepath.Join(c.dataDir(), "pg_ident.conf"), []byte("outcry somebody outcry\n"),
		0o600))
	require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGHUP))
	require.Eventually(t, func() bool { return refused(c.ping(background)) }, patience, readyPoll)
	stop(t, c)
	keep(t, begin(t, o), 1) // the next start rewrites the map
}

func TestAnEnvironmentHasNothingOfOurs(t *testing.T) {
	t.Setenv("LD_PRELOAD", "")
	t.Setenv("OUTCRY_SECRET", "hidden")
	t.Setenv("PGDATA", "/nowhere")
	c := begin(t, initialized(t, t.TempDir()))
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.Pid()))
	require.NoError(t, err)
	for _, name := range []string{"LD_PRELOAD", "OUTCRY_SECRET", "PGDATA", "HOME"} {
		require.NotContains(t, string(env), name+"=")
	}
}
