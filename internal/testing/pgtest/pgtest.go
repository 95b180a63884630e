// Package pgtest gives tests a real Postgres: one cluster for each test binary, with an empty or prepared database for
// every test that requests one, or a cluster for a single test that stops or kills it. All clusters of a `go test`
// command are copies of one, since initdb takes longer than most tests.
//
// A package's TestMain calls Main, which stops the shared cluster after the tests. If a test binary is
// killed, its clusters end too, and a later test binary removes their files.
package pgtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/postgres/local"
	"outcry/internal/testing/onerun"
)

const (
	// startTimeout bounds a start, which includes the download of Postgres if the machine does not have it.
	startTimeout = 5 * time.Minute

	// stopTimeout bounds an orderly stop.
	stopTimeout = 20 * time.Second

	// statementTimeout bounds operations on databases.
	statementTimeout = time.Minute

	// dirPrefix is the prefix of the names of clusters' directories.
	dirPrefix = "outcry-pgtest-"

	// leftAfter is the age at which an unused directory is removed. A younger one may belong to a cluster
	// that is about to start.
	leftAfter = 10 * time.Minute
)

// fast turns off durability, which most tests do not need.
var fast = map[string]string{"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off",
	"wal_compression": "off", "shared_buffers": "64MB", "max_connections": "100", "autovacuum": "off"}

// shared is the cluster of this test binary. It starts when a test first asks for a database.
var shared struct {
	once    sync.Once
	dir     string
	cluster *local.Cluster
	err     error

	mu   sync.Mutex // guards the fields below
	made int        // number of databases made
	free []string   // databases that no test uses; they are empty

	templates map[string]*template // by name

	adminMu sync.Mutex // guards admin
	admin   *pgx.Conn  // to AdminURL, from the first statement of asAdmin
}

// template is a database that is copied for tests.
type template struct {
	once sync.Once
	err  error // of the first use
}

// Main runs a package's tests, stops the shared cluster and removes it, and returns the exit status. TestMain
// calls it once:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
func Main(m *testing.M) int {
	widen()
	status := m.Run()
	err := onerun.Remove()
	if shared.dir != "" {
		err = errors.Join(err, stop(shared.cluster), local.Remove(shared.dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(status, 1)
	}
	return status
}

// parallelTests is the least number of parallel tests of a package that run at a time. Tests with a Postgres
// mostly wait for processes, disks and each other.
const parallelTests = 6

// widen raises the number of parallel tests to parallelTests, unless the command line sets it.
func widen() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given && runtime.GOMAXPROCS(0) < parallelTests {
		_ = flag.Set("test.parallel", strconv.Itoa(parallelTests)) // every test binary has this flag
	}
}

// NewDatabase returns the URL of an empty database on the shared cluster, for this test alone. As in
// production, its owner is not a superuser. When the test ends, the database is emptied for a later test,
// even if it has open connections: a database has about 300 files, and making and removing them for every
// test would take long. The cluster has no durability. Any number of tests may call NewDatabase at once.
func NewDatabase(t testing.TB) string {
	t.Helper()
	shared.once.Do(startShared)
	require.NoError(t, shared.err)
	name, err := takeDatabase()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, giveBack(name)) })
	return urlOf(shared.cluster.URL(), name)
}

// takeDatabase returns the name of an empty database.
func takeDatabase() (name string, err error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if last := len(shared.free) - 1; last >= 0 {
		name, shared.free = shared.free[last], shared.free[:last]
		return name, nil
	}
	shared.made++
	name = fmt.Sprintf("test_%d", shared.made)
	return name, asAdmin("CREATE DATABASE " + name + " OWNER outcry")
}

// giveBack ends a database's connections and removes everything in it.
func giveBack(name string) error {
	if err := execute(urlOf(shared.cluster.AdminURL(), name), endOthers, dropAll); err != nil {
		return err
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.free = append(shared.free, name)
	return nil
}

// NewCopy returns the URL of a copy of a prepared database, for this test alone. The database of that name is
// prepared when a test of this binary first asks for it: fill gets the URL of an empty database, and leaves no
// connection. Roles and settings of roles are not copied. Any number of tests may call NewCopy at once.
func NewCopy(t testing.TB, name string, fill func(url string) error) string {
	t.Helper()
	shared.once.Do(startShared)
	require.NoError(t, shared.err)
	require.NoError(t, prepareTemplate(name, fill))
	shared.mu.Lock()
	shared.made++
	database := fmt.Sprintf("test_%d", shared.made)
	shared.mu.Unlock()
	require.NoError(t, asAdmin("CREATE DATABASE "+database+" OWNER outcry TEMPLATE template_"+name))
	t.Cleanup(func() { require.NoError(t, asAdmin("DROP DATABASE "+database+" WITH (FORCE)")) })
	return urlOf(shared.cluster.URL(), database)
}

// prepareTemplate makes and fills the template of a name, the first time that it is called for the name.
func prepareTemplate(name string, fill func(url string) error) error {
	shared.mu.Lock()
	if shared.templates == nil {
		shared.templates = map[string]*template{}
	}
	one := shared.templates[name]
	if one == nil {
		one = &template{}
		shared.templates[name] = one
	}
	shared.mu.Unlock()
	one.once.Do(func() {
		database := "template_" + name
		one.err = asAdmin("CREATE DATABASE " + database + " OWNER outcry")
		if one.err == nil {
			one.err = fill(urlOf(shared.cluster.URL(), database))
		}
		if one.err == nil { // the end of fill's connections may take Postgres a moment
			one.err = execute(urlOf(shared.cluster.AdminURL(), database), endOthers)
		}
	})
	return one.err
}

const (
	// endOthers ends the other connections to the database, and returns once they have ended.
	endOthers = `DO $$ BEGIN LOOP
		PERFORM pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE datname = current_database()
			AND backend_type = 'client backend' AND pid <> pg_backend_pid();
		EXIT WHEN NOT FOUND;
		PERFORM pg_sleep(0.001), pg_stat_clear_snapshot();
	END LOOP; END $$`

	// dropAll restores the state that CREATE DATABASE leaves.
	dropAll = `DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT nspname FROM pg_catalog.pg_namespace
			WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
			EXECUTE format('DROP SCHEMA %I CASCADE', name);
		END LOOP;
		CREATE SCHEMA public AUTHORIZATION outcry;
		EXECUTE format('ALTER ROLE outcry IN DATABASE %I RESET ALL', current_database());
	END $$`
)

// UndoDoors downgrades an exchange from version 10 of the schema to version 9. It does not restore the views,
// which an upgrade makes. Statements may follow it.
const UndoDoors = `
	DROP VIEW public.orders, public.executions;
	DROP TABLE public.candles, outcry.placed_log;
	ALTER TABLE public.exchange_state DROP COLUMN numbered_after, DROP COLUMN time_ns;
	ALTER TABLE public.accounts DROP COLUMN n;
	ALTER TABLE outcry.order_log DROP COLUMN ref; ALTER TABLE outcry.amend_log DROP COLUMN ref;
	ALTER TABLE outcry.execution_log DROP COLUMN trade, DROP COLUMN taker_fill, DROP COLUMN resting_fill;
	ALTER TABLE outcry.cancel_log DROP COLUMN why;
	UPDATE outcry.resting_orders SET instructions = instructions & ~1024::smallint;
	ALTER TABLE outcry.resting_orders DROP COLUMN reduced, DROP COLUMN reduced_at_ns;
	UPDATE outcry.schema_version SET version = 9;`

// UndoInstructions downgrades an exchange from version 10 of the schema to version 8. Statements may follow
// it.
const UndoInstructions = UndoDoors + `
	ALTER TABLE public.exchange_state DROP COLUMN exact_after;
	ALTER TABLE outcry.order_log DROP COLUMN nanos, DROP COLUMN instructions;
	ALTER TABLE outcry.execution_log DROP COLUMN nanos; ALTER TABLE outcry.part_log DROP COLUMN nanos;
	ALTER TABLE outcry.cancel_log DROP COLUMN nanos; ALTER TABLE outcry.halt_log DROP COLUMN nanos;
	ALTER TABLE outcry.resting_orders DROP COLUMN instructions; ALTER TABLE public.market DROP COLUMN last_nanos;
	ALTER TABLE public.symbols DROP COLUMN halted_nanos, DROP COLUMN tick, DROP COLUMN lot, DROP COLUMN protect,
		DROP COLUMN band;
	ALTER TABLE public.accounts DROP COLUMN fills, DROP COLUMN blocked_at, DROP COLUMN blocked_nanos,
		DROP COLUMN block_reason, DROP COLUMN stp, DROP COLUMN shares_max, DROP COLUMN notional_max, DROP COLUMN open_max,
		DROP COLUMN cancel_at_ns;
	DROP TABLE outcry.fill_log, outcry.amend_log, outcry.hold_log, outcry.cause_log, outcry.account_log,
		outcry.symbol_log, outcry.switch_log;
	CREATE VIEW public.orders AS
	SELECT o.id, o.account, o.sym, trim_scale(o.amount * 0.00000001) AS amount,
	       trim_scale(o.limit_price * 0.00000001) AS limit_price, trim_scale(coalesce(r.open, 0) * 0.00000001) AS open,
	       trim_scale((abs(o.amount) - coalesce(r.open, 0) - coalesce(c.shares, 0)) * 0.00000001) AS executed,
	       trim_scale(coalesce(c.shares, 0) * 0.00000001) AS canceled, o.time, c.time AS canceled_at
	  FROM outcry.order_log o
	  LEFT JOIN outcry.resting_orders r ON r.id = o.id
	  LEFT JOIN outcry.cancel_log c ON c.order_id = o.id;
	CREATE VIEW public.executions AS
	SELECT sym, CASE WHEN buys THEN order_id ELSE resting_id END AS buy_order,
	       CASE WHEN buys THEN resting_id ELSE order_id END AS sell_order, trim_scale(shares * 0.00000001) AS shares,
	       trim_scale(price * 0.00000001) AS price, time, order_id AS aggressing_order, n
	  FROM outcry.execution_log;
	UPDATE outcry.schema_version SET version = 8;`

// UndoSchemas downgrades an exchange from version 10 of the schema to version 7, in which all tables are in
// the schema public. Statements may follow it.
const UndoSchemas = UndoInstructions + `DO $$ DECLARE name text; BEGIN
		DROP TYPE public.outcry_schema_version;
		ALTER TABLE outcry.schema_version DROP COLUMN people;
		UPDATE outcry.schema_version SET version = 7;
		ALTER TABLE outcry.schema_version RENAME TO outcry_schema_version;
		FOR name IN SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relnamespace = 'outcry'::regnamespace LOOP
			EXECUTE format('ALTER TABLE outcry.%I SET SCHEMA public', name);
		END LOOP;
		DROP SCHEMA outcry;
	END $$;`

// urlOf returns the URL of another database on the same cluster.
func urlOf(cluster, name string) string {
	u, err := url.Parse(cluster)
	if err != nil {
		panic(err) // cannot happen: the cluster has made the URL
	}
	u.Path = "/" + name
	return u.String()
}

// NewCluster returns a cluster for this test alone, for tests that stop and kill it, and the cluster's
// directory. It stops when the test ends. It survives a crash of Postgres, but not one of the machine.
func NewCluster(t testing.TB) (c *local.Cluster, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp(parent(), dirPrefix)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Remove(dir)) })
	c, err = start(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop(c)) })
	return c, dir
}

func startShared() {
	removeLeft()
	if shared.dir, shared.err = os.MkdirTemp(parent(), dirPrefix); shared.err == nil {
		shared.cluster, shared.err = start(shared.dir)
	}
}

// memoryDir is a file system in memory. The clusters have no durability anyway. On a disk, making and removing
// their thousands of files would take a quarter of the tests' processor time.
const (
	memoryDir     = "/dev/shm"
	memoryFreeMin = 4 << 30 // bytes: several packages are tested at a time
)

// parent returns the directory that contains the directories of clusters.
func parent() string {
	var fs syscall.Statfs_t
	if syscall.Statfs(memoryDir, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < memoryFreeMin {
		return os.TempDir()
	}
	return memoryDir
}

// removeLeft removes the files that killed test binaries have left. It ignores errors: the directory may be
// in use by another process, or be removed by it.
func removeLeft() {
	left, _ := filepath.Glob(filepath.Join(parent(), dirPrefix+"*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > leftAfter {
			_ = local.Remove(dir)
		}
	}
}

// start starts a cluster in a directory. It is a copy of the cluster that tests of this `go test` command share.
func start(dir string) (*local.Cluster, error) {
	first, err := onerun.Make("cluster", makeFirst)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.CopyFS(data, os.DirFS(filepath.Join(first, "data"))); err != nil {
		return nil, err
	}
	if err := os.Chmod(data, 0o700); err != nil { // Postgres accepts no other mode
		return nil, err
	}
	return startIn(dir)
}

// makeFirst makes a stopped cluster in a directory.
func makeFirst(dir string) error {
	c, err := startIn(dir)
	if err != nil {
		return err
	}
	return stop(c)
}

// startIn starts the cluster in a directory, which is made if it does not exist.
func startIn(dir string) (*local.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return local.Start(ctx, local.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Settings: fast})
}

// stop stops a cluster; it does nothing for nil.
func stop(c *local.Cluster) error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return c.Stop(ctx)
}

// asAdmin runs a statement as a superuser of the shared cluster. All calls use one connection, because a new one costs
// Postgres as much as a small database.
func asAdmin(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	shared.adminMu.Lock()
	defer shared.adminMu.Unlock()
	if shared.admin == nil {
		conn, err := pgx.Connect(ctx, shared.cluster.AdminURL())
		if err != nil {
			return err
		}
		shared.admin = conn // Postgres ends it when it stops
	}
	_, err := shared.admin.Exec(ctx, sql)
	return err
}

// execute runs statements on one connection, each in its own transaction.
func execute(database string, statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
