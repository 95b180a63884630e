package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var background = context.Background()

// options are those of a test: without durability where a test is not about it.
func options(dir string) Options {
	return Options{Dir: dir, Log: slog.New(slog.DiscardHandler),
		Settings: map[string]string{"fsync": "off", "shared_buffers": "32MB"}}
}

func start(t *testing.T, o Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, 2*time.Minute)
	defer cancel()
	c, err := Start(ctx, o)
	require.NoError(t, err)
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, 20*time.Second)
	defer cancel()
	require.NoError(t, c.Stop(ctx))
	require.Zero(t, c.Pid())
	require.NoDirExists(t, c.socket)
}

// run runs a statement, again while the cluster is away.
func run(t *testing.T, c *Cluster, sql string) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		conn, err := pgx.Connect(background, c.URL())
		require.NoError(t, err)
		defer conn.Close(background)
		_, err = conn.Exec(background, sql)
		require.NoError(t, err)
	}, 30*time.Second, 50*time.Millisecond)
}

func value(t *testing.T, c *Cluster) (v int) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		conn, err := pgx.Connect(background, c.URL())
		require.NoError(t, err)
		defer conn.Close(background)
		require.NoError(t, conn.QueryRow(background, "SELECT v FROM kept").Scan(&v))
	}, 30*time.Second, 50*time.Millisecond)
	return v
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestDataOutlivesStops(t *testing.T) {
	o := options(t.TempDir())
	c := start(t, o)
	run(t, c, "CREATE TABLE kept AS SELECT 42 AS v")
	stop(t, c)
	<-c.Done()
	require.Equal(t, 42, value(t, start(t, o)))
}

func TestAKilledPostmasterComesBack(t *testing.T) {
	c := start(t, options(t.TempDir()))
	run(t, c, "CREATE TABLE kept AS SELECT 7 AS v")
	run(t, c, "CHECKPOINT")
	first := c.Pid()
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.Eventually(t, func() bool { p := c.Pid(); return p != 0 && p != first }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, 7, value(t, c))
}

func TestADeepDirectoryWorks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("a-long-name-", 10), strings.Repeat("b", 100))
	run(t, start(t, options(dir)), "SELECT 1")
}

func TestADirectoryBelowAClosedHomeWorks(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	run(t, start(t, options(filepath.Join(home, "data"))), "SELECT 1")
}

func TestAnInterruptedInitdbIsDoneAgain(t *testing.T) {
	o := options(t.TempDir())
	require.NoError(t, os.Mkdir(filepath.Join(o.Dir, "data.making"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(o.Dir, "data.making", "PG_VERSION"), []byte("15\n"), 0o600))
	run(t, start(t, o), "SELECT 1")
}

func TestAnotherMajorVersionIsRefused(t *testing.T) {
	o := options(t.TempDir())
	require.NoError(t, os.Mkdir(filepath.Join(o.Dir, "data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(o.Dir, "data", "PG_VERSION"), []byte("9\n"), 0o600))
	there := installed()
	replaceLookup(t, installed, func(Options) (string, error) { return there[0], nil })
	_, err := Start(background, o)
	require.ErrorContains(t, err, "was made with Postgres 9, and there is only version")
	require.ErrorContains(t, err, strconv.Itoa(major(there[0])))
}

func TestWithoutBinariesThePackageIsNamed(t *testing.T) {
	replaceLookup(t, func() []string { return []string{t.TempDir()} },
		func(Options) (string, error) { return "", errors.New("no network") })
	_, err := Start(background, options(t.TempDir()))
	require.ErrorContains(t, err, "apt install postgresql")
	require.ErrorContains(t, err, "--database-url")
	require.ErrorContains(t, err, "no network")
}

func replaceLookup(t *testing.T, installed func() []string, download func(Options) (string, error)) {
	before := lookup
	lookup.installed, lookup.download = installed, download
	t.Cleanup(func() { lookup = before })
}

func TestAFailingPostgresIsExplained(t *testing.T) {
	o := options(t.TempDir())
	o.Settings["no_such_setting"] = "1"
	_, err := Start(background, o)
	require.ErrorContains(t, err, "no_such_setting")
}

// TestHelperOwns is another process that owns a cluster, when it is given a
// directory; it reports the postmaster and waits to be killed.
func TestHelperOwns(t *testing.T) {
	dir := os.Getenv("CLUSTER_TEST_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	c := start(t, options(dir))
	fmt.Printf("postmaster %d\n", c.Pid())
	if os.Getenv("CLUSTER_TEST_DIR") != "" {
		select {}
	}
}

// owner starts this test program again as the owner of a cluster in dir.
func owner(t *testing.T, dir string, attr *syscall.SysProcAttr) (process *exec.Cmd, postmaster int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperOwns$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), "CLUSTER_TEST_DIR="+dir, "TMPDIR=/tmp")
	cmd.Dir = dir
	cmd.SysProcAttr = attr
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if n, err := fmt.Sscanf(lines.Text(), "postmaster %d", &postmaster); n == 1 && err == nil {
			return cmd, postmaster
		}
	}
	t.Fatal("the owner ended early")
	return nil, 0
}

func TestPostgresEndsWithAKilledOwner(t *testing.T) {
	dir := t.TempDir()
	cmd, postmaster := owner(t, dir, &syscall.SysProcAttr{})
	require.True(t, alive(postmaster))
	require.NoError(t, cmd.Process.Kill())
	run(t, start(t, options(dir)), "SELECT 1") // waits for the former one
	require.Eventually(t, func() bool { return !alive(postmaster) }, 20*time.Second, 20*time.Millisecond)
}

func TestAnOrdinaryUserCanRunIt(t *testing.T) {
	dir := t.TempDir()
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		// Below a directory that the other user can pass, unlike the test's own.
		var err error
		dir, err = os.MkdirTemp("/tmp", "outcry-ordinary-")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		uid, gid, err := unprivileged()
		require.NoError(t, err)
		require.NoError(t, os.Chown(dir, uid, gid))
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		copied := filepath.Join(dir, "test")
		program, err := os.ReadFile(os.Args[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(copied, program, 0o755))
		before := os.Args[0]
		os.Args[0] = copied
		t.Cleanup(func() { os.Args[0] = before })
	}
	cmd, postmaster := owner(t, dir, attr)
	info, err := os.Stat(filepath.Join(dir, "data"))
	require.NoError(t, err)
	if attr.Credential != nil {
		require.Equal(t, attr.Credential.Uid, info.Sys().(*syscall.Stat_t).Uid)
	}
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { return !alive(postmaster) }, 20*time.Second, 20*time.Millisecond)
}

func TestWithoutUserNamespacesAnotherUserIsTaken(t *testing.T) {
	if os.Geteuid() != 0 {
		attr, err := asUser(t.TempDir(), "")
		require.NoError(t, err)
		require.Nil(t, attr.Credential, "whoever is not root runs Postgres directly")
		return
	}
	dir, err := os.MkdirTemp("/tmp", "outcry-other-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	uid, gid, err := unprivileged()
	require.NoError(t, err)
	bin, err := findBinaries(options(dir))
	require.NoError(t, err)
	attr, err := asOther(dir, bin, uid, gid)
	require.NoError(t, err)
	require.Equal(t, uint32(uid), attr.Credential.Uid)
	// A cluster whose files are that user's is run as that user from then on.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	require.NoError(t, os.Chown(filepath.Join(dir, "data"), uid, gid))
	attr, err = asUser(dir, bin)
	require.NoError(t, err)
	require.NotNil(t, attr.Credential)
	require.NoError(t, os.Remove(filepath.Join(dir, "data")))
	closed := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.MkdirAll(closed, 0o700))
	require.NoError(t, os.Chmod(filepath.Dir(closed), 0o700))
	_, err = asOther(closed, bin, uid, gid)
	require.ErrorContains(t, err, "user namespaces")
}
