package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/operate/settings"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

var background = context.Background()

// patience is how long tests wait for an expected event. No result depends on its value.
const patience = 60 * time.Second

// lookEvery is the poll interval for conditions whose check costs a request or a connection; it leaves the processors
// to the servers.
const lookEvery = 25 * time.Millisecond

// runVariable makes the test program run as outcryd, so that tests can kill it.
const runVariable = "OUTCRY_TEST_RUN"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(runVariable) != "":
		main()
		return
	case os.Getenv(diskVariable) != "":
		holdDisk(os.Getenv(diskVariable))
		return
	}
	os.Exit(pgtest.Main(m))
}

// racedTests has the names of the tests that called raced.
var racedTests sync.Map

// raced marks a test of servers to also run under the race detector without -tags full. The marked tests together use
// every kind of connection; the other tests start servers in the same way, and are skipped under the race detector.
func raced(t *testing.T) { racedTests.Store(t.Name(), true) }

// skipUnlessRaced skips, under the race detector without -tags full, a test that did not call raced.
func skipUnlessRaced(t testing.TB) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if _, ok := racedTests.Load(name); !ok {
		budget.SkipRaced(t, "other tests of servers are raced")
	}
}

// inProcess starts a server within the test process and stops it when the test ends. The flags are added to the
// flags that keep tests apart.
func inProcess(t testing.TB, flags ...string) (s *server, addr string) {
	t.Helper()
	skipUnlessRaced(t)
	s, addr, err := tryInProcess(flags...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.stop()) })
	return s, addr
}

// tryInProcess is inProcess for starts that may fail; it returns the error of the start.
func tryInProcess(flags ...string) (s *server, addr string, err error) {
	c, err := settings.Parse(append([]string{"--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--segment=1048576"}, flags...),
		io.Discard)
	if err != nil {
		return nil, "", err
	}
	lines, w := io.Pipe()
	found := make(chan string, 1)
	go func() { found <- readyLine(lines)["xml"] }()
	s = newServer(c, slog.New(slog.NewJSONHandler(w, nil)), new(slog.LevelVar))
	s.exit = func(status int) { // show where the stop hangs
		debug.SetTraceback("all")
		panic(fmt.Sprintf("a server in this process ends with status %d: its stop took too long", status))
	}
	s.setNotReady(errStarting)
	if err := s.start(background); err != nil {
		return nil, "", errors.Join(err, s.stop())
	}
	return s, <-found, nil
}

// readyLine reads a log up to the line with the message "ready" and returns that line's text fields. It continues to
// read in the background so that the log never blocks.
func readyLine(r io.Reader) map[string]string {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) != nil || line["msg"] != "ready" {
			continue
		}
		go io.Copy(io.Discard, r)
		texts := map[string]string{}
		for k, v := range line {
			texts[k] = fmt.Sprint(v)
		}
		return texts
	}
	return nil
}

// program is outcryd running as a separate process.
type program struct {
	cmd       *exec.Cmd
	xml, http string
	log       *logBuffer
}

// logBuffer collects the log of a process.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// launch starts outcryd without waiting until it is ready. The process is killed when the test ends.
func launch(t testing.TB, flags ...string) *program {
	t.Helper()
	p := prepare(t, flags...)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		p.kill()
		exchangetest.ReportRaces(t, []byte(p.log.String()))
	})
	return p
}

// prepare sets up the process that launch starts, so that a test can change its command first.
func prepare(t testing.TB, flags ...string) *program {
	t.Helper()
	skipUnlessRaced(t)
	p := &program{log: &logBuffer{}}
	p.cmd = exec.Command(os.Args[0],
		append([]string{"--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--segment=1048576"}, flags...)...)
	p.cmd.Env = append(os.Environ(), runVariable+"=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = p.log
	return p
}

// start starts outcryd and waits until it is ready.
func start(t testing.TB, flags ...string) *program {
	t.Helper()
	p := launch(t, flags...)
	p.waitReady(t)
	return p
}

func (p *program) waitReady(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		if !strings.Contains(p.log.String(), `"msg":"ready"`) { // a cheap check before the lines are parsed
			return false
		}
		line := readyLine(strings.NewReader(p.log.String()))
		p.xml, p.http = line["xml"], line["http"]
		return line != nil
	}, patience, 5*time.Millisecond, "log: %s", p.log)
}

// kill kills the process, as a crash would, and waits for its end.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop stops the process cleanly and requires exit status 0.
func (p *program) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.cmd.Wait(), "log: %s", p.log)
}

// fails waits for the process to end with status 1 and returns its log.
func (p *program) fails(t testing.TB) string {
	t.Helper()
	require.Error(t, p.cmd.Wait(), "it must not start; log: %s", p.log)
	require.Equal(t, exitError, p.cmd.ProcessState.ExitCode(), "log: %s", p.log)
	return p.log.String()
}

// conn is a client that exchanges raw frames.
type conn struct {
	net.Conn
	r *wire.FrameReader
}

func dial(t testing.TB, addr string) *conn {
	t.Helper()
	c, err := dialOnce(addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func dialOnce(addr string) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{c, wire.NewFrameReader(c, 64<<20)}, nil
}

// ask sends one frame and returns its reply.
func (c *conn) ask(xml string) (string, error) {
	if _, err := c.Write(wire.AppendFrame(nil, []byte(xml))); err != nil {
		return "", err
	}
	reply, err := c.r.Next()
	return string(reply), err
}

// must is ask, but an error fails the test.
func (c *conn) must(t testing.TB, xml string) string {
	t.Helper()
	reply, err := c.ask(xml)
	require.NoError(t, err)
	return reply
}

// dataFlags returns flags for a new data directory and a database with the tables of an exchange without records.
func dataFlags(t testing.TB) (flags []string, database string) {
	t.Helper()
	skipUnlessRaced(t)
	database = exchangetest.NewTables(t)
	return []string{"--data=" + t.TempDir(), "--database-url=" + database}, database
}

// query returns the rows of a query, each column as text.
func query(t testing.TB, database, sql string) [][]string {
	t.Helper()
	db := allTables(t, database)
	defer db.Close(background)
	rows, err := db.Query(background, sql)
	require.NoError(t, err)
	var all [][]string
	for rows.Next() {
		var row []string
		for _, v := range rows.RawValues() {
			row = append(row, string(v))
		}
		all = append(all, row)
	}
	require.NoError(t, rows.Err())
	return all
}

// allTables connects to a database with a search path that includes the schema of internal tables.
func allTables(t testing.TB, database string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	if config.RuntimeParams["search_path"] == "" {
		config.RuntimeParams["search_path"] = "public, outcry"
	}
	conn, err := pgx.ConnectConfig(background, config)
	require.NoError(t, err)
	return conn
}

// text returns a connection string for which all results arrive as text.
func text(t testing.TB, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	q := u.Query()
	q.Set("default_query_exec_mode", "simple_protocol")
	u.RawQuery = q.Encode()
	return u.String()
}

// writeFile writes a temporary file that only its owner can read, and returns its path.
func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// checked runs --check-config and returns its exit status and output.
func checked(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), append([]string{"--check-config"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}
