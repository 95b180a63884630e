// Package pgtest gives tests a real Postgres: one cluster for a test binary, with
// an empty database of its own for every test that asks, or a cluster for a single test
// that wants to stop or kill it.
//
// A package's TestMain calls Main, which stops the shared cluster after the tests.
// If a test binary is killed instead, its clusters end with it, and a later
// binary removes what they leave on disk.
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
)

const (
	// startTimeout bounds a start. A machine without Postgres downloads it.
	startTimeout = 5 * time.Minute

	// stopTimeout bounds a stop in order.
	stopTimeout = 20 * time.Second

	// statementTimeout bounds what is done to databases.
	statementTimeout = time.Minute

	// dirPrefix begins the names of shared clusters' directories.
	dirPrefix = "outcry-pgtest-"

	// leftAfter is the age from which a directory that no process has is removed. A
	// younger one may belong to a cluster that is about to start.
	leftAfter = 10 * time.Minute
)

// fast gives up durability, which tests of other things do not need.
var fast = map[string]string{"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off",
	"wal_compression": "off", "shared_buffers": "64MB", "max_connections": "100", "autovacuum": "off"}

// shared is the cluster of this test binary. It starts with the first test that
// wants a database.
var shared struct {
	once    sync.Once
	dir     string
	cluster *local.Cluster
	err     error

	mu   sync.Mutex // guards what follows
	made int        // databases
	free []string   // those of them that no test has: they are empty
}

// Main runs a package's tests, stops the shared cluster and removes it, and
// returns the exit status. TestMain calls it once:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
func Main(m *testing.M) int {
	widen()
	status := m.Run()
	if shared.dir == "" {
		return status
	}
	if err := errors.Join(stop(shared.cluster), local.Remove(shared.dir)); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(status, 1)
	}
	return status
}

// parallelTests is how many parallel tests of a package run at a time at least: those with a Postgres mostly wait, for
// processes, disks and each other.
const parallelTests = 6

// widen has so many parallel tests run, unless the command line says how many.
func widen() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given && runtime.GOMAXPROCS(0) < parallelTests {
		_ = flag.Set("test.parallel", strconv.Itoa(parallelTests)) // it is a flag of every test
	}
}

// NewDatabase returns the URL of an empty database on the shared cluster, which no other
// test has, and of its owner, who is no superuser, as in real ones. When the
// test ends it is emptied for a later one, connections or not: a
// database is some 300 files, and a file system takes long to make and remove those for
// every test. The cluster is without durability. Any number of tests may call it at
// once.
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
	return name, execute(shared.cluster.AdminURL(), "CREATE DATABASE "+name+" OWNER outcry")
}

// giveBack ends a database's connections and removes all that is in it.
func giveBack(name string) error {
	if err := execute(urlOf(shared.cluster.AdminURL(), name), endOthers, dropAll); err != nil {
		return err
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.free = append(shared.free, name)
	return nil
}

const (
	// endOthers returns once the other connections to the database have ended.
	endOthers = `DO $$ BEGIN LOOP
		PERFORM pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE datname = current_database()
			AND backend_type = 'client backend' AND pid <> pg_backend_pid();
		EXIT WHEN NOT FOUND;
		PERFORM pg_sleep(0.001), pg_stat_clear_snapshot();
	END LOOP; END $$`

	// dropAll leaves the database as CREATE DATABASE makes it.
	dropAll = `DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT nspname FROM pg_catalog.pg_namespace
			WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
			EXECUTE format('DROP SCHEMA %I CASCADE', name);
		END LOOP;
		CREATE SCHEMA public AUTHORIZATION outcry;
		EXECUTE format('ALTER ROLE outcry IN DATABASE %I RESET ALL', current_database());
	END $$`
)

// UndoDoors brings an exchange from version 10 of the schema back to version 9, without its views, which an upgrade
// makes. Statements may follow it.
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

// UndoInstructions brings an exchange from version 10 of the schema back to version 8. Statements may follow it.
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

// UndoSchemas brings an exchange from version 10 of the schema back to version 7, in which all
// tables are in the schema public. Statements may follow it.
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

// urlOf returns the URL of another database on the cluster of a URL.
func urlOf(cluster, name string) string {
	u, err := url.Parse(cluster)
	if err != nil {
		panic(err) // the cluster's own
	}
	u.Path = "/" + name
	return u.String()
}

// NewCluster returns a cluster of the test's own, for tests that stop and kill it,
// and the directory that it lives in. It stops when the test ends. It is without
// durability against a crash of the machine, but not of Postgres.
func NewCluster(t testing.TB) (c *local.Cluster, dir string) {
	t.Helper()
	dir = t.TempDir()
	c, err := start(dir)
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

// memoryDir is a file system in memory. A shared cluster has no durability anyway, and to make and
// remove its thousands of files on a disk takes a quarter of its processor time.
const (
	memoryDir     = "/dev/shm"
	memoryFreeMin = 4 << 30 // bytes: several packages are tested at a time
)

// parent returns the directory that shared clusters are in.
func parent() string {
	var fs syscall.Statfs_t
	if syscall.Statfs(memoryDir, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < memoryFreeMin {
		return os.TempDir()
	}
	return memoryDir
}

// removeLeft removes what test binaries left that were killed. It is a courtesy:
// errors are those of directories that another process has, or removes too.
func removeLeft() {
	left, _ := filepath.Glob(filepath.Join(parent(), dirPrefix+"*"))
	for _, dir := range left {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > leftAfter {
			_ = local.Remove(dir)
		}
	}
}

func start(dir string) (*local.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return local.Start(ctx, local.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Settings: fast})
}

// stop stops a cluster, if there is one.
func stop(c *local.Cluster) error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return c.Stop(ctx)
}

// execute runs statements on one connection, each in a transaction of its own.
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
