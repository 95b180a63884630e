package target

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Values of the first argument that make this program act as a different program.
const (
	asServer = "test-server" // followed by MODE TOKEN: a server
	asKit    = "test-kit"    // followed by COMMAND, or COMPOSE SERVICE ADDR: starts it and waits to be killed
)

const (
	waitMax  = time.Minute
	waitPoll = 5 * time.Millisecond
)

// roomy is a memory limit high enough for the race detector, which reserves much.
const roomy = 1 << 50

// program is the path of a copy of this program that any user can execute.
var program string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case asServer:
			serve(os.Args[2])
		case asKit:
			beKit(os.Args[2:])
		}
	}
	dir, err := os.MkdirTemp("/tmp", "target-test-")
	if err == nil {
		program = filepath.Join(dir, "server")
		err = errors.Join(os.Chmod(dir, 0o755), copyFile(os.Args[0], program))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// serve runs as a server, and never returns.
func serve(mode string) {
	switch mode {
	case "deaf": // ignores all signals that can be ignored
		signal.Ignore()
	case "swift":
		runAway()
	case "lost": // becomes a daemon twice, in new sessions, and keeps only the port of its environment
		next := exec.Command(os.Args[0], asServer, "lost-again", os.Args[3], os.Getenv("PORT"))
		startApart(next)
	case "lost-again":
		startApart(exec.Command(os.Args[0], asServer, "found", os.Args[3], os.Args[4]))
	case "found":
		_ = os.Setenv("PORT", os.Args[4])
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("listens")
	for {
		if c, err := l.Accept(); err == nil {
			go func() {
				if n, _ := io.Copy(c, c); n == 0 && mode == "silence-ends" {
					os.Exit(1)
				}
				_ = c.Close()
			}()
		}
	}
}

// startApart starts a process with no environment in a new session, and ends this one.
func startApart(next *exec.Cmd) {
	next.Env = []string{}
	next.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := next.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// beKit starts a server, prints its address, and waits for the end of its input, which never arrives.
func beKit(arguments []string) {
	var server Target
	var err error
	if len(arguments) == 1 {
		server, err = Command(Options{Command: arguments[0], Limits: Limits{Memory: roomy}})
	} else {
		server, err = Compose(arguments[0], arguments[1], arguments[2])
	}
	if err == nil {
		err = server.Start(context.Background())
	}
	if err != nil {
		fmt.Println("not ready:", err)
		os.Exit(1)
	}
	fmt.Println("ready", server.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// token returns a word by which the processes of a test can be found.
func token(t *testing.T) string {
	name := strings.ReplaceAll(t.Name(), "/", "-")
	return fmt.Sprintf("token-%s-%d-%d", name, os.Getpid(), time.Now().UnixNano())
}

// server returns a command that runs this program as a server.
func server(mode, token string) string {
	return fmt.Sprintf("'%s' %s %s %s", program, asServer, mode, token)
}

// start returns a started server, which is closed when the test ends.
func start(t *testing.T, o Options) Target {
	o.Limits.Memory = cmp.Or(o.Limits.Memory, roomy)
	s, err := Command(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Start(t.Context()))
	return s
}

// freeAddr returns an address at which nothing listens.
func freeAddr(t *testing.T) string {
	c := new(command)
	require.NoError(t, c.choosePort())
	return c.addr
}

// nothingRuns requires that no process has a word in its command line.
func nothingRuns(t *testing.T, word string) { require.Empty(t, running(t, word)) }

// answers requires that the server at addr echoes.
func answers(t *testing.T, addr string) {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(waitMax)))
	_, err = io.WriteString(c, "hello\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
}

// isFree requires that nothing listens at addr.
func isFree(t *testing.T, addr string) {
	_, err := net.Dial("tcp", addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestACommandIsStartedKilledAndStartedAnew(t *testing.T) {
	word := token(t)
	s := start(t, Options{Command: "echo port $PORT; exec " + server("plain", word)})
	require.True(t, s.CanKill())
	require.Contains(t, s.Name(), "echo port")
	_, port, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	answers(t, s.Addr())
	require.ErrorContains(t, s.Start(t.Context()), "runs already")
	require.Eventually(t, func() bool { return strings.Contains(s.Log(), "port "+port+"\nlistens\n") }, waitMax, waitPoll)
	for range 3 {
		require.NoError(t, s.Kill(t.Context()))
		isFree(t, s.Addr())
		nothingRuns(t, word)
		require.NoError(t, s.Start(t.Context()))
		answers(t, s.Addr())
	}
	addr := s.Addr()
	require.NoError(t, s.Close())
	isFree(t, addr)
	nothingRuns(t, word)
	require.Contains(t, s.Log(), "listens", "the log outlives the server")
	require.ErrorIs(t, s.Start(t.Context()), errClosed)
	require.ErrorIs(t, s.Kill(t.Context()), errClosed)
	require.NoError(t, s.Close())
}

func TestAServerThatListensElsewhere(t *testing.T) {
	addr := freeAddr(t)
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	s, err := Command(Options{Command: server("plain", token(t)), Addr: addr, Limits: Limits{Memory: roomy}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.ErrorIs(t, s.Start(t.Context()), errInUse, "that of another program is not graded")
	require.NoError(t, l.Close())
	require.NoError(t, s.Start(t.Context()))
	require.Equal(t, addr, s.Addr())
	answers(t, addr)
}

// A command that ends without serving is an error at once, and leaves nothing running.
func TestACommandThatEndsIsNoServer(t *testing.T) {
	for _, c := range []struct{ command, how string }{
		{"echo no compiler; exit 7", "exit status 7"},
		{"echo no compiler; kill -SEGV $$", "signal segmentation fault"},
	} {
		s, err := Command(Options{Command: c.command})
		require.NoError(t, err)
		err = s.Start(t.Context())
		require.ErrorIs(t, err, errEnded)
		require.ErrorContains(t, err, c.how)
		require.ErrorContains(t, err, "no compiler\n")
		require.Equal(t, "no compiler\n", s.Log())
		require.NoError(t, s.Close())
	}
	word := token(t)
	s, err := Command(Options{Command: "echo waits; exec sleep 1000 # " + word})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !strings.Contains(s.(*guarded).Target.Log(), "waits") && ctx.Err() == nil {
			time.Sleep(waitPoll)
		}
		cancel()
	}()
	require.ErrorContains(t, s.Start(ctx), "does it listen at the port in PORT?")
	nothingRuns(t, word)
	require.NoError(t, s.Close())
}

func TestTheLogIsBounded(t *testing.T) {
	s := start(t, Options{Command: `i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done
printf '\377last\n'; exec ` + server("plain", token(t))})
	ended := func() bool { return strings.HasSuffix(s.Log(), "line 19999\n?last\nlistens\n") }
	require.Eventually(t, ended, waitMax, waitPoll)
	require.Len(t, s.Log(), LogBytesMax)
	log := &tail{max: 4}
	for _, p := range []string{"a", "bc", "", "def", "ghijklmnop", "q"} {
		n, err := io.WriteString(log, p)
		require.NoError(t, err)
		require.Equal(t, len(p), n)
		require.LessOrEqual(t, len(log.kept), 2*log.max)
	}
	require.Equal(t, "nopq", log.String())
}

func TestAnAttachedServerIsLeftAlone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := Attached(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context()))
	addr := l.Addr().String()
	require.Equal(t, []any{addr, addr, false, ""}, []any{s.Name(), s.Addr(), s.CanKill(), s.Log()})
	require.ErrorContains(t, s.Kill(t.Context()), "not started by us")
	require.NoError(t, s.Close())
	require.Nil(t, s.First(), "it was closed")
	require.NoError(t, s.Start(t.Context()))
	require.NoError(t, l.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, s.Start(ctx), "accepts no connection")
}

func TestOptionsThatCannotBe(t *testing.T) {
	for addr, want := range map[string]string{
		"localhost": "not HOST:PORT", "a:b": `"a:b" has no port`, "a:0": "no port", "a:65536": "no port", "": "not HOST:PORT",
	} {
		_, err := Attached(addr)
		require.ErrorContains(t, err, want)
		if addr != "" {
			_, err = Command(Options{Command: "true", Addr: addr})
			require.ErrorContains(t, err, want)
		}
	}
	_, err := Command(Options{})
	require.ErrorContains(t, err, "no command")
	_, err = Command(Options{Command: "true", Dir: "/no/such/folder"})
	require.ErrorContains(t, err, "/no/such/folder")
	_, err = Command(Options{Command: "true", Dir: os.DevNull})
	require.ErrorContains(t, err, "not a folder")
	_, err = Command(Options{Command: "true", User: "no-such-user"})
	require.ErrorContains(t, err, `no user "no-such-user"`)
	if os.Getuid() != 0 {
		_, err = Command(Options{Command: "true", User: "0"})
		require.ErrorContains(t, err, "only root")
	}
	_, err = Command(Options{Command: "true", User: strconv.Itoa(os.Getuid())})
	require.NoError(t, err, "who we are")
}

// The kernel may keep the port of a killed server because of old connections. Here a socket without address
// sharing keeps it, until the restarted server has found the port in use.
func TestAServerIsTriedAgainWhileItsPortIsKept(t *testing.T) {
	s := start(t, Options{Command: "exec " + server("plain", token(t))})
	require.NoError(t, s.Kill(t.Context()))
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	port, err := portOf(s.Addr())
	require.NoError(t, err)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Port: port}))
	go func() {
		defer syscall.Close(fd)
		for !strings.Contains(s.(*guarded).Target.Log(), "address already in use") && t.Context().Err() == nil {
			time.Sleep(waitPoll)
		}
	}()
	require.NoError(t, s.Start(t.Context()))
	answers(t, s.Addr())
	require.NoError(t, s.Kill(t.Context()))
	s.(*guarded).Target.(*command).o.Command = "exit 3"
	require.ErrorContains(t, s.Start(t.Context()), "exit status 3", "nothing keeps its port")
}
