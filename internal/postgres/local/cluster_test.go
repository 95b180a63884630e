package local

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience bounds each wait for something that must happen.
const patience = 60 * time.Second

var background = context.Background()

// options returns the options for a test, without fsync, which most tests do not need.
func options(dir string) Options {
	return Options{Dir: dir, Log: slog.New(slog.DiscardHandler),
		Settings: map[string]string{"fsync": "off", "shared_buffers": "16MB"}}
}

// spare is the path of a data directory that no test is using, below a folder that TestMain removes.
var spare string

// initialized returns options whose directory holds a stopped cluster. It reuses the spare one, with the
// changes of earlier tests, because initdb takes longer than most tests. The test's cleanups must stop the
// clusters that it starts.
func initialized(t *testing.T, dir string) Options {
	t.Helper()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	if err := os.Rename(spare, data); err != nil { // this is the first test, or an earlier one removed spare
		require.ErrorIs(t, err, fs.ErrNotExist)
		stop(t, begin(t, options(dir)))
	}
	t.Cleanup(func() { _ = os.Rename(data, spare) }) // fails if the test has removed the directory
	return options(dir)
}

// thisMachine is the machine that Start uses.
var thisMachine = machine{installed: installed, download: pinned.download, user: asUser}

func begin(t *testing.T, o Options) *Cluster {
	t.Helper()
	return beginOn(t, o, thisMachine)
}

func beginOn(t *testing.T, o Options, m machine) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, patience)
	defer cancel()
	c, err := start(ctx, o, m)
	require.NoError(t, err)
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, patience)
	defer cancel()
	require.NoError(t, c.Stop(ctx))
	require.Zero(t, c.Pid())
	require.NoDirExists(t, c.socket)
}

// keep stores a value in a table.
func keep(t *testing.T, c *Cluster, v int) {
	t.Helper()
	conn, err := pgx.Connect(background, c.URL())
	require.NoError(t, err)
	defer conn.Close(background)
	_, err = conn.Exec(background, "DROP TABLE IF EXISTS kept") // left by another test
	require.NoError(t, err)
	_, err = conn.Exec(background, "CREATE TABLE kept AS SELECT $1::int AS v", v)
	require.NoError(t, err)
}

// requireKept waits until the stored value can be read, as a postmaster may be restarting.
func requireKept(t *testing.T, c *Cluster, want int) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		conn, err := pgx.Connect(background, c.URL())
		require.NoError(t, err)
		defer conn.Close(background)
		var v int
		require.NoError(t, conn.QueryRow(background, "SELECT v FROM kept").Scan(&v))
		require.Equal(t, want, v)
	}, patience, 20*time.Millisecond)
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestDataOutlivesAStop(t *testing.T) {
	o := options(t.TempDir())
	o.Settings["fsync"] = "on"
	c := begin(t, o)
	keep(t, c, 42)
	require.True(t, alive(c.Pid()))
	stop(t, c)
	<-c.Done()
	stop(t, c) // a second stop does nothing
	requireKept(t, begin(t, o), 42)
}

func TestAKilledPostmasterComesBackWithItsData(t *testing.T) {
	c := begin(t, initialized(t, t.TempDir()))
	url := c.URL()
	keep(t, c, 7)
	for range 2 {
		killed := c.Pid()
		require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
		require.Eventually(t, func() bool { p := c.Pid(); return p != 0 && p != killed }, patience, time.Millisecond)
		requireKept(t, c, 7)
	}
	require.Equal(t, url, c.URL())
	select {
	case <-c.Done():
		t.Fatal("done while it runs")
	default:
	}
}

func TestStopEndsTheWaitForARestart(t *testing.T) {
	c := begin(t, initialized(t, t.TempDir()))
	require.NoError(t, os.Rename(c.dataDir(), c.dataDir()+".away")) // so that the cluster cannot be restarted
	require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGKILL))
	require.Eventually(t, func() bool { return c.Pid() == 0 }, patience, time.Millisecond)
	stop(t, c)
	<-c.Done()
	require.NoError(t, os.Rename(c.dataDir()+".away", c.dataDir()))
}

func TestAStartWaitsForWhatAKilledPostmasterHasLeft(t *testing.T) {
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	conn, err := pgx.Connect(background, c.URL())
	require.NoError(t, err)
	backend := int(conn.PgConn().PID())
	require.NoError(t, syscall.Kill(backend, syscall.SIGSTOP)) // so that the backend outlives its postmaster
	t.Cleanup(func() { _ = syscall.Kill(backend, syscall.SIGCONT) })
	require.NoError(t, os.Rename(c.dataDir(), c.dataDir()+".away")) // so that the cluster cannot be restarted
	require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGKILL))
	require.Eventually(t, func() bool { return c.Pid() == 0 }, patience, time.Millisecond)
	stop(t, c)
	<-c.Done()
	require.NoError(t, os.Rename(c.dataDir()+".away", c.dataDir()))
	require.NoError(t, os.Truncate(c.logPath(), 0))
	goesOn := make(chan bool, 1)
	go func() {
		defer close(goesOn)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for begun := time.Now(); time.Since(begun) < patience; <-tick.C {
			if strings.Contains(c.logTail(), orphansText) {
				_ = syscall.Kill(backend, syscall.SIGCONT)
				goesOn <- true
				return
			}
		}
	}()
	begin(t, o)
	require.True(t, <-goesOn, "the start met nothing")
}

func TestNothingIsStartedOnceStopIsCalled(t *testing.T) {
	c := begin(t, initialized(t, t.TempDir()))
	stop(t, c)
	_, err := c.launch()
	require.ErrorIs(t, err, errStopping)
	require.Zero(t, c.Pid())
}

func TestStopAtOnceWhereItsTimeIsUp(t *testing.T) {
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	keep(t, c, 13)
	pid := c.Pid()
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, c.Stop(ctx), context.Canceled)
	require.False(t, alive(pid))
	require.NoError(t, c.Stop(ctx), "nothing is left to stop")
	requireKept(t, begin(t, o), 13)
}

func TestASecondClusterInADirectoryIsRefused(t *testing.T) {
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	_, err := Start(background, o)
	require.ErrorIs(t, err, errLocked)
	require.ErrorContains(t, err, o.Dir)
	require.ErrorIs(t, Remove(o.Dir), errLocked)
	keep(t, c, 1) // the first cluster is unaffected
}

func TestRemoveDeletesAClusterAndItsSocket(t *testing.T) {
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	stop(t, c)
	socket, err := os.MkdirTemp(socketParent, socketPrefix) // a killed process leaves such a directory
	require.NoError(t, err)
	require.NoError(t, os.Symlink(socket, filepath.Join(o.Dir, socketLink)))
	require.NoError(t, Remove(o.Dir))
	require.NoDirExists(t, o.Dir)
	require.NoDirExists(t, socket)
}

func TestALinkThatLeadsElsewhereIsNotFollowedToRemove(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), socketPrefix+"1")
	notOurs, err := os.MkdirTemp(socketParent, "outcry-other-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(notOurs) })
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	for _, target := range []string{elsewhere, notOurs} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, socketLink)))
		require.NoError(t, removeSocketDir(dir))
		require.DirExists(t, target)
		require.NoFileExists(t, filepath.Join(dir, socketLink))
	}
}

func TestAFailingPostgresIsExplained(t *testing.T) {
	o := initialized(t, t.TempDir())
	o.Settings["no_such_setting"] = "1"
	_, err := Start(background, o)
	require.ErrorContains(t, err, "no_such_setting")
	require.NoFileExists(t, filepath.Join(o.Dir, socketLink))
	delete(o.Settings, "no_such_setting")
	keep(t, begin(t, o), 1) // the failed start released everything
}

func TestStartEndsWithItsContext(t *testing.T) {
	o := options(t.TempDir())
	begun, cancel := context.WithCancel(background)
	cancel()
	_, err := Start(begun, o)
	require.ErrorIs(t, err, context.Canceled)
	keep(t, begin(t, o), 1)
}

func TestADeepDirectoryWorks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("a-long-name-", 10), strings.Repeat("b", 100))
	c := begin(t, initialized(t, dir))
	keep(t, c, 1)
	require.Contains(t, c.PsqlCommand(), c.socket, "the path through the directory would be too long")
}

func TestARelativeDirectoryWorks(t *testing.T) {
	t.Chdir(t.TempDir())
	c := begin(t, options("here"))
	keep(t, c, 1)
	require.DirExists(t, "here/data")
}

func TestSettingsOfTheEnvironmentDoNotReachTheCluster(t *testing.T) {
	t.Setenv("PGPORT", "1")
	t.Setenv("PGHOST", "elsewhere.invalid")
	t.Setenv("PGDATABASE", "other")
	t.Setenv("PGDATA", "/nowhere")
	t.Setenv("PGSSLMODE", "verify-full")
	t.Setenv("PGCLIENTENCODING", "nonsense")
	keep(t, begin(t, initialized(t, t.TempDir())), 1)
}

func TestTheLogIsEmptiedWhereItHasGrownTooBig(t *testing.T) {
	o := options(t.TempDir())
	c := &Cluster{options: o}
	require.NoError(t, os.WriteFile(c.logPath(), []byte("short\n"), 0o600))
	c.boundLog()
	require.Equal(t, "short", c.logTail())
	require.NoError(t, os.Truncate(c.logPath(), logBytesMax+1))
	c.boundLog()
	require.Empty(t, c.logTail())
}

// TestTheCommandForPeopleWorks runs PsqlCommand in a shell.
func TestTheCommandForPeopleWorks(t *testing.T) {
	o := initialized(t, filepath.Join(t.TempDir(), "with a space"))
	c := begin(t, o)
	command := c.PsqlCommand()
	require.Contains(t, command, filepath.Join(o.Dir, socketLink))
	entries, err := os.ReadDir(filepath.Join(o.Dir, socketLink))
	require.NoError(t, err)
	require.NotEmpty(t, entries, "the link leads to the socket")
	conn, err := pgx.Connect(background, strings.NewReplacer("-h ", "host=", "-p ", "port=", "-U ", "user=", " "+database,
		" dbname="+database).
		Replace(strings.TrimPrefix(command, "psql ")))
	require.NoError(t, err)
	require.NoError(t, conn.Close(background))
	stop(t, c)
	require.Equal(t, command, begin(t, o).PsqlCommand(), "it is the same every time")
}
