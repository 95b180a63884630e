package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// If ownerEnv names a directory, the test program runs no tests. It starts a cluster there, prints its
// postmaster's process id, and waits to be killed.
const ownerEnv = "OUTCRY_CLUSTER_TEST_OWNER"

func TestMain(m *testing.M) {
	dir := os.Getenv(ownerEnv)
	if dir == "" {
		os.Exit(runTests(m))
	}
	o := options(dir)
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := Start(background, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.Pid())
	select {}
}

// runTests runs the tests with a temporary folder for spare.
func runTests(m *testing.M) int {
	folder, err := os.MkdirTemp("", "outcry-cluster-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	spare = filepath.Join(folder, "data")
	return m.Run()
}

// owner is another process that runs a cluster. It ends with the test process.
type owner struct {
	cmd        *exec.Cmd
	postmaster int // 0 until started is called
	out        *bufio.Reader
}

// newOwner starts program, a copy of this test binary, as the owner of a cluster in dir.
func newOwner(t *testing.T, program, dir string, as *syscall.SysProcAttr) *owner {
	t.Helper()
	o := &owner{cmd: exec.Command(program)}
	o.cmd.Env = append(os.Environ(), ownerEnv+"="+dir)
	o.cmd.Dir = "/"
	o.cmd.Stderr = t.Output()
	as.Pdeathsig = syscall.SIGKILL
	o.cmd.SysProcAttr = as
	out, err := o.cmd.StdoutPipe()
	require.NoError(t, err)
	o.out = bufio.NewReader(out)
	require.NoError(t, o.cmd.Start())
	t.Cleanup(func() { o.kill() })
	return o
}

// started waits until the cluster is running.
func (o *owner) started(t *testing.T) *owner {
	t.Helper()
	line, err := o.out.ReadString('\n')
	require.NoError(t, err, "the owner ended early")
	o.postmaster, err = strconv.Atoi(line[:len(line)-1])
	require.NoError(t, err)
	require.True(t, alive(o.postmaster))
	return o
}

// kill ends the process with SIGKILL.
func (o *owner) kill() {
	_ = o.cmd.Process.Kill() // fails if the process has ended
	_ = o.cmd.Wait()
}

func TestPostgresEndsWithAKilledOwner(t *testing.T) {
	dir := initialized(t, t.TempDir()).Dir
	o := newOwner(t, os.Args[0], dir, &syscall.SysProcAttr{}).started(t)
	socket, err := os.Readlink(filepath.Join(dir, socketLink))
	require.NoError(t, err)
	o.kill()
	require.Eventually(t, func() bool { return !alive(o.postmaster) }, patience, time.Millisecond)
	keep(t, begin(t, options(dir)), 1)
	require.NoDirExists(t, socket, "the next start removes what the killed one left")
}

func TestAStartWaitsForAPostgresThatIsStillEnding(t *testing.T) {
	dir := initialized(t, t.TempDir()).Dir
	for range 3 {
		o := newOwner(t, os.Args[0], dir, &syscall.SysProcAttr{}).started(t)
		o.kill()
		stop(t, begin(t, options(dir))) // without the wait, the former lock file would fail this start
	}
}

// said is called with each logged line.
type said func(line string)

// Write implements io.Writer.
func (s said) Write(b []byte) (int, error) {
	s(string(b))
	return len(b), nil
}

func TestAForeignPostmasterIsLeftAlone(t *testing.T) {
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	pid := c.Pid()
	require.NoError(t, unlock(c.lock)) // as if the postmaster had been started by hand
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	o.Log = slog.New(slog.NewTextHandler(said(func(line string) {
		if strings.Contains(line, "waiting for an earlier Postgres to end") {
			cancel()
		}
	}), nil))
	_, err := Start(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, fmt.Sprintf("process %d", pid))
	require.Equal(t, pid, c.Pid())
	keep(t, c, 1)
}

func TestAProcessIDThatIsUsedAgainDoesNotBlockTheStart(t *testing.T) {
	o := initialized(t, t.TempDir())
	c := begin(t, o)
	lockFile := filepath.Join(c.dataDir(), "postmaster.pid")
	content, err := os.ReadFile(lockFile)
	require.NoError(t, err)
	stop(t, c)

	// Another program of the same user gets the process id in the lock file.
	other := exec.Command("sleep", "1000")
	attr := *c.as
	attr.Pdeathsig = syscall.SIGKILL
	other.SysProcAttr = &attr
	require.NoError(t, other.Start())
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })
	rest := content[len(strconv.Itoa(mustAtoiLine(t, content))):]
	require.NoError(t, os.WriteFile(lockFile, append([]byte(strconv.Itoa(other.Process.Pid)), rest...), 0o600))
	if uid, gid, other := c.owner(); other {
		require.NoError(t, os.Chown(lockFile, uid, gid))
	}
	keep(t, begin(t, o), 1)
	require.True(t, alive(other.Process.Pid))
}

// mustAtoiLine parses the number on the first line.
func mustAtoiLine(t *testing.T, b []byte) (n int) {
	t.Helper()
	_, err := fmt.Sscanf(string(b), "%d\n", &n)
	require.NoError(t, err)
	return n
}

func TestAnInterruptedInitdbIsDoneAgain(t *testing.T) {
	dir := t.TempDir()
	o := newOwner(t, os.Args[0], dir, &syscall.SysProcAttr{})
	require.Eventually(t, func() bool { // kill the owner in the middle of initdb
		made, err := filepath.Glob(filepath.Join(dir, makingPrefix+"*", "PG_VERSION"))
		return err == nil && len(made) == 1
	}, patience, time.Millisecond)
	o.kill()
	require.NoDirExists(t, filepath.Join(dir, "data"))
	keep(t, begin(t, options(dir)), 1)
	left, err := filepath.Glob(filepath.Join(dir, makingPrefix+"*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestTheEndOfAClusterEndsNoOtherProcess: stopping a cluster does not end a process that the thread of
// supervise had started before.
func TestTheEndOfAClusterEndsNoOtherProcess(t *testing.T) {
	const rounds = 10 // a thread may end a little late
	var alive []func() error
	for range rounds {
		other := exec.Command("cat")
		other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		in, err := other.StdinPipe()
		require.NoError(t, err)
		out, err := other.StdoutPipe()
		require.NoError(t, err)
		c := &Cluster{options: options(t.TempDir()), stop: make(chan struct{}), done: make(chan struct{})}
		close(c.stop)
		started := make(chan error)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started <- other.Start()
			c.supervise(nil)
		}()
		require.NoError(t, <-started)
		<-c.Done()
		alive = append(alive, func() error {
			_, err := in.Write([]byte{1})
			_, readErr := out.Read(make([]byte, 1))
			return errors.Join(err, readErr, in.Close(), other.Wait())
		})
	}
	for _, f := range alive {
		require.NoError(t, f())
	}
}
