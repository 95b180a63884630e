package exchangetest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/onerun"
)

// replyBytesMax is the longest reply that a Conn reads.
const replyBytesMax = 64 << 20

// built has the programs that a test of this binary has requested.
var built struct {
	mu    sync.Mutex
	files map[string]string // by name within the directory of onerun
}

// Process is an outcryd that a test has started. It ends with the test.
type Process struct {
	T      *testing.T
	Cmd    *exec.Cmd
	Addr   string
	Http   string
	log    *json.Decoder
	output *output
	ended  <-chan struct{} // closed once output is complete
	Loaded LogLine         // the state with which the process started
}

// RemoveBuilt removes programs that only this test binary uses. TestMain calls it at the end.
func RemoveBuilt() { _ = onerun.Remove() }

// Server returns the file of outcryd.
func Server(t testing.TB) string {
	t.Helper()
	return Program(t, "outcryd")
}

// PlainServer returns the file of outcryd without the race detector, for tests that are about another program.
func PlainServer(t testing.TB) string {
	t.Helper()
	return program(t, "outcryd", false)
}

// Program returns the file of a program of cmd, outcry or outcry-lab, beside outcryd, since the programs look for each
// other in their own directory. They have the race detector if this test binary has it. They are built once for all
// test binaries of a `go test` command.
func Program(t testing.TB, name string) string {
	t.Helper()
	program(t, "outcryd", raced())
	return program(t, name, raced())
}

// program returns the file of a program with or without the race detector.
func program(t testing.TB, name string, race bool) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	shared := "programs/" + name
	if race {
		shared = "raced/" + name
	}
	if built.files[shared] == "" {
		noteSources(t)
		file, err := onerun.Make(shared, func(path string) error { return build(name, path, race) })
		require.NoError(t, err)
		if built.files == nil {
			built.files = map[string]string{}
		}
		built.files[shared] = file
	}
	return built.files[shared]
}

// build builds a program.
func build(program, path string, race bool) error {
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path)
	if race {
		build.Args = append(build.Args, "-race")
		build.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	build.Args = append(build.Args, "outcry/cmd/"+program)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", program, err, out)
	}
	return nil
}

// raced reports whether this test program was built with the race detector. If so, the programs are, too.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// noteSources reads the status of each source file of the programs, so that Go knows that the test depends on them,
// and does not use a cached result after a file has changed.
func noteSources(t testing.TB) {
	t.Helper()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	require.NoError(t, err)
	for _, top := range []string{"cmd", "internal", "migrations"} {
		dir := filepath.Join(strings.TrimSpace(string(root)), top)
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasSuffix(path, "_test.go") {
				_, err = os.Stat(path)
			}
			return err
		}))
	}
}

// Start starts outcryd on a data directory and waits until it is ready. flags override the flags that Start sets
// itself.
func Start(t *testing.T, data, database string, flags ...string) *Process {
	t.Helper()
	p := &Process{T: t}
	p.Cmd = exec.Command(Server(t),
		append([]string{"--data=" + data, "--listen=127.0.0.1:0", "--http=",
			"--database-url=" + database, "--segment=65536"}, flags...)...)
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.Cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.Cmd.Start())
	t.Cleanup(p.Kill)
	p.output, p.ended = newOutput(stderr)
	p.log = json.NewDecoder(p.output)
	p.Loaded = p.waitFor("state loaded")
	ready := p.waitFor("ready")
	p.Addr, p.Http = ready.XML, ready.HTTP
	return p
}

// LogLine has the attributes of a log line that tests use.
type LogLine struct {
	Msg, XML, HTTP, Digest string
	Seq                    uint64
}

// waitFor reads the log up to the line with a message.
func (p *Process) waitFor(msg string) (line LogLine) {
	p.T.Helper()
	for line.Msg != msg {
		line = LogLine{}
		require.NoError(p.T, p.log.Decode(&line), "the exchange ended before it said %q", msg)
	}
	return line
}

// Kill kills the process, as in a crash, and waits until it has ended. It fails the test if the process had a data
// race.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.ended // Wait closes the pipe, so all output must have been read
	_ = p.Cmd.Wait()
	ReportRaces(p.T, p.output.all)
}

// Conn is a connection to the XML port on which a test exchanges raw frames.
type Conn struct {
	net.Conn
	r *wire.FrameReader
}

// Dial opens a connection to the XML port, which is closed when the test ends.
func (p *Process) Dial(t testing.TB) *Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &Conn{c, wire.NewFrameReader(c, replyBytesMax)}
}

// Must sends one frame and returns its reply.
func (c *Conn) Must(t testing.TB, xml string) string {
	t.Helper()
	_, err := c.Write(wire.AppendFrame(nil, []byte(xml)))
	require.NoError(t, err)
	reply, err := c.r.Next()
	require.NoError(t, err)
	return string(reply)
}

// Stop stops the process in order and returns its last log line.
func (p *Process) Stop() LogLine {
	p.T.Helper()
	require.NoError(p.T, p.Cmd.Process.Signal(syscall.SIGTERM))
	line := p.waitFor("stopped")
	<-p.ended
	require.NoError(p.T, p.Cmd.Wait())
	return line
}

// Verify runs `outcry verify` with arguments and requires that it finds nothing wrong.
func Verify(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(Program(t, "outcry"), append([]string{"verify"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "outcry verify: %s", out)
}
