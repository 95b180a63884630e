package door

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// With roleEnv set, the test binary runs as a helper process of a test. It prints one line when it is ready,
// and ends when its standard input ends. The roles:
//
//	starved          a server that may have few files open; prints its address, and
//	                 at its end how many errors of accept it counted
//	idle ADDRESS N   a client with N connections that sends nothing
const roleEnv = "OUTCRY_GATEWAY_TEST_ROLE"

// starvedFiles is how many files the starved server may have open.
const starvedFiles = 64

func TestMain(m *testing.M) {
	role := strings.Fields(os.Getenv(roleEnv))
	if len(role) == 0 {
		os.Exit(m.Run())
	}
	err := errors.New("no such role")
	switch role[0] {
	case "starved":
		err = starve()
	case "idle":
		err = idle(role[1], role[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func starve() error {
	limit := syscall.Rlimit{Cur: starvedFiles, Max: starvedFiles}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := New(newFake(), Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, xmlCodec) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = errors.Join(s.Shutdown(ctx), <-served)
	fmt.Println(testutil.ToFloat64(s.options.Metrics.acceptErrors))
	return err
}

func idle(addr, n string) error {
	count, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	conns := make([]net.Conn, count)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", addr); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	fmt.Println("connected")
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(conns)
	return nil
}

// process is a helper process in one of the roles. The kernel kills it when the test's process dies.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
	log strings.Builder // read it only after end
}

// begin starts a helper process. It runs until end is called or the test ends.
func begin(t *testing.T, role ...any) *process {
	t.Helper()
	p := &process{cmd: exec.Command("/proc/self/exe")}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+fmt.Sprintln(role...))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.log
	in, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.in, p.out = in, bufio.NewReader(out)
	runtime.LockOSThread() // the death signal is sent when this thread ends
	t.Cleanup(runtime.UnlockOSThread)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// line waits for a line that the process prints.
func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(t, err, "log: %s", &p.log)
	return strings.TrimSuffix(line, "\n")
}

// end waits for the end of the process.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.in.Close() // it may already be closed
	require.NoError(t, p.cmd.Wait(), "log: %s", &p.log)
}

func TestOverloadAServerWithoutFilesGoesOn(t *testing.T) {
	starved := begin(t, "starved")
	l := address(starved.line(t))
	// More connections than the server has file descriptors: the rest wait in the kernel.
	clients := make([]*client, 3*starvedFiles)
	for i := range clients {
		clients[i] = dial(t, l)
		clients[i].send(query(i + 1))
	}
	for i, c := range clients { // each client that ends makes room for another
		require.Equal(t, answer(i+1), c.reply())
		require.NoError(t, c.Close())
	}
	c := dial(t, l)
	c.send(query(7))
	require.Equal(t, answer(7), c.reply())
	require.NoError(t, c.Close())
	require.NoError(t, starved.in.Close())
	require.NotEqual(t, "0", starved.line(t))
	starved.end(t)
	require.Equal(t, 1, strings.Count(starved.log.String(), "too many open files"), starved.log.String())
}

// address is a listener in another process.
type address string

func (address) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (address) Close() error              { return nil }
func (a address) Addr() net.Addr          { return a }
func (address) Network() string           { return "tcp" }
func (a address) String() string          { return string(a) }

// openFiles returns how many files this process has open.
func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// memoryInUse returns the bytes of live objects and of stacks. It collects twice, because objects in a
// sync.Pool, including those of earlier tests, are freed only by the second collection.
func memoryInUse() uint64 {
	runtime.GC()
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64() + sample[1].Value.Uint64()
}

func TestOverloadIdleConnectionsDoNotStopATrader(t *testing.T) {
	connections := scaled(1000, 10_000)
	l, x := listen(t), realExchange(t)
	s := start(t, l, x, Options{})
	c := openMarket(t, l)
	before := memoryInUse()
	clients := begin(t, "idle", l.Addr(), connections) // in another process, which has its own file descriptors
	require.Equal(t, "connected", clients.line(t))
	eventually(t, func() bool { return s.count() == connections+1 })
	each := (memoryInUse() - before) / uint64(connections)
	t.Logf("%d bytes for each of %d idle connections", each, connections)
	require.Less(t, each, uint64(32<<10))
	for range 100 {
		c.trade()
	}
	clients.end(t)
	eventually(t, func() bool { return s.count() == 1 })
	c.trade()
}

func TestOverloadConnectionsThatOpenAndDropLeaveNothingBehind(t *testing.T) {
	l, x := listen(t), realExchange(t)
	s := start(t, l, x, Options{ConnectionsMax: 100})
	c := openMarket(t, l)
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // also restores it if a check below fails
	var files, goroutines int
	eventually(t, func() bool { // run the condition in another goroutine, like those below
		files, goroutines = openFiles(t), runtime.NumGoroutine()
		return true
	})
	memory := memoryInUse()
	for range scaled(1, 25) {
		// The garbage collector closes connections without references. It must not hide one that the server
		// forgot to close.
		debug.SetGCPercent(-1)
		openAndDrop(t, l, 2000)
		c.trade()
		eventually(t, func() bool { return s.count() == 1 })
		eventually(t, func() bool { return openFiles(t) <= files && runtime.NumGoroutine() <= goroutines })
		debug.SetGCPercent(100)
		eventually(t, func() bool { return memoryInUse() < memory+4<<20 })
	}
	require.Zero(t, s.workingHeld()+s.arrivingHeld())
}

// openAndDrop makes n connections and closes each after sending one of several inputs.
func openAndDrop(t *testing.T, l net.Listener, n int) {
	const workers = 4
	sent := []string{"", "5", "100\n<transactions", query(1), query(1) + query(2), frame("<create"), "nonsense\n",
		"100000\n" + strings.Repeat(" ", 70_000)}
	var dropping sync.WaitGroup
	for worker := range workers {
		dropping.Go(func() {
			for i := worker; i < n; i += workers {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, sent[i%len(sent)]) // a connection over the limit may already be closed
				if i%3 > 0 {
					_ = conn.(*net.TCPConn).SetLinger(0) // sends a reset
				}
				conn.Close()
			}
		})
	}
	dropping.Wait()
}
