package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

var background = context.Background()

// childEnv makes TestInAChild print its cluster and wait to be killed.
const childEnv = "OUTCRY_PGTEST_CHILD"

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(background, url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(background) })
	return conn
}

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	one, other := connect(t, NewDatabase(t)), connect(t, NewDatabase(t))
	_, err := one.Exec(background, "CREATE TABLE here AS SELECT 1")
	require.NoError(t, err)
	var there bool
	require.NoError(t, other.QueryRow(background, "SELECT to_regclass('here') IS NOT NULL").Scan(&there))
	require.False(t, there)
}

func TestWhatATestLeavesIsGone(t *testing.T) {
	var before string
	var left *pgx.Conn
	t.Run("one test", func(t *testing.T) {
		var err error
		before = NewDatabase(t)
		left, err = pgx.Connect(background, before)
		require.NoError(t, err)
		_, err = left.Exec(background,
			`CREATE SCHEMA "else where"; CREATE TABLE "else where".there AS SELECT 1; CREATE TABLE here AS SELECT 1; `+
				`CREATE VIEW seen AS SELECT * FROM here`)
		require.NoError(t, err)
		_, err = left.Exec(background, `BEGIN; LOCK TABLE here`)
		require.NoError(t, err)
	})
	require.Error(t, left.Ping(background), "the connection was ended")
	after := NewDatabase(t)
	require.Equal(t, before, after, "the database is reused")
	var relations, schemas int
	require.NoError(t, connect(t, after).QueryRow(background,
		`SELECT (SELECT count(*) FROM pg_class WHERE oid >= 16384),
			(SELECT count(*) FROM pg_namespace WHERE oid >= 16384)`).Scan(&relations, &schemas))
	require.Zero(t, relations)
	require.Equal(t, 1, schemas, "public")
}

// TestCopiesOfAPreparedDatabaseAreApart checks that a database is prepared once, that a change of one copy is in no
// other, and that a copy is gone after its test, even if a connection to it is open.
func TestCopiesOfAPreparedDatabaseAreApart(t *testing.T) {
	filled := 0
	copied := func(t *testing.T) string {
		return NewCopy(t, "one", func(url string) error {
			filled++
			return execute(url, "CREATE TABLE here AS SELECT 1 AS v")
		})
	}
	var left *pgx.Conn
	t.Run("one test", func(t *testing.T) {
		var err error
		left, err = pgx.Connect(background, copied(t))
		require.NoError(t, err)
		_, err = left.Exec(background, "UPDATE here SET v = 2")
		require.NoError(t, err)
	})
	require.Error(t, left.Ping(background), "the connection was ended")
	other := connect(t, copied(t))
	var v, databases int
	require.NoError(t, other.QueryRow(background,
		"SELECT v, (SELECT count(*) FROM pg_database WHERE datname = $1) FROM here",
		left.Config().Database).Scan(&v, &databases))
	require.Equal(t, 1, v)
	require.Zero(t, databases)
	require.Equal(t, 1, filled)
}

func TestAClusterOfOnesOwnIsNotTheShared(t *testing.T) {
	shared := connect(t, NewDatabase(t))
	c, dir := NewCluster(t)
	require.DirExists(t, dir+"/data")
	require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGKILL))
	require.NoError(t, shared.Ping(background))
	require.NoError(t, stop(c))
	require.NoError(t, shared.Ping(background))
}

// TestInAChild is run by the test below, which kills it. On its own it only checks that the shared cluster
// runs.
func TestInAChild(t *testing.T) {
	connect(t, NewDatabase(t))
	require.NotZero(t, shared.cluster.Pid())
	if os.Getenv(childEnv) != "" {
		fmt.Printf("\nrunning %d %s\n", shared.cluster.Pid(), shared.dir)
		select {}
	}
}

func TestAKilledTestBinaryLeavesNothingForLong(t *testing.T) {
	tmp := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestInAChild$")
	child.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+tmp)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	var pid int
	var dir string
	for buf, read := make([]byte, 1024), ""; dir == ""; {
		n, err := out.Read(buf)
		require.NoError(t, err)
		read += string(buf[:n])
		if _, line, ok := strings.Cut(read, "running "); ok && strings.HasSuffix(line, "\n") {
			before, after, _ := strings.Cut(strings.TrimSpace(line), " ")
			pid, err = strconv.Atoi(before)
			require.NoError(t, err)
			dir = after
		}
	}
	socket, err := os.Readlink(dir + "/socket")
	require.NoError(t, err)
	require.NoError(t, child.Process.Kill())
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, time.Minute,
		time.Millisecond)

	t.Setenv("TMPDIR", tmp)
	removeLeft()
	require.DirExists(t, dir, "a younger directory is kept")
	long := time.Now().Add(-2 * leftAfter)
	require.NoError(t, os.Chtimes(dir, long, long))
	removeLeft()
	require.NoDirExists(t, dir)
	require.NoDirExists(t, socket)
}
