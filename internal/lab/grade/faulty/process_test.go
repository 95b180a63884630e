package faulty

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process starts a server with a shell, and waits until it accepts connections. kill kills it and waits
// for its end.
func process(t *testing.T, o Options, port int) (kill func()) {
	t.Helper()
	command, err := Command(os.Args[0], o)
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = []string{"PORT=" + strconv.Itoa(port)}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", at(port))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, patience, time.Millisecond)
	return kill
}

func at(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePort returns a port on which nothing listened a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// before and after are the documents sent before and after the server is killed.
var (
	before = []string{
		`<create><account id="1" balance="100"/><account id="2" balance="0"/>
		<symbol sym="A"><account id="2">10</account></symbol></create>`,
		`<transactions id="2"><order sym="A" amount="-10" limit="5"/></transactions>`,
		`<transactions id="1"><order sym="A" amount="4" limit="5"/></transactions>`}
	after = []string{
		`<transactions id="1"><query id="1"/><query id="2"/><order sym="A" amount="17" limit="5"/>
		<order sym="A" amount="16" limit="4"/></transactions>`,
		`<create><account id="1" balance="1"/></create>`}
)

// killed returns a server's replies after it was killed and restarted.
func killed(t *testing.T, faults ...string) string {
	port := freePort(t)
	o := Options{Faults: faults, Journal: filepath.Join(t.TempDir(), "journal")}
	kill := process(t, o, port)
	ask(t, at(port), before...)
	kill()
	process(t, o, port)
	return ask(t, at(port), after...)
}

func TestAProcessKeepsWhatItAnswered(t *testing.T) {
	right := killed(t)
	for _, part := range []string{`<open shares="6"/>`, `<executed shares="4" price="5"`, `limit="4" id="3"/>`} {
		require.Contains(t, right, part)
	}
	require.Equal(t, 2, strings.Count(right, "<error"), right)
	for _, f := range Faults {
		if f.Group != "durability" {
			continue
		}
		t.Run(f.Name, func(t *testing.T) { require.NotEqual(t, right, killed(t, f.Name)) })
	}
}

// The test cuts the last entry of a journal in half.
func TestATornJournalIsTakenUpToItsEnd(t *testing.T) {
	o := Options{Journal: filepath.Join(t.TempDir(), "journal")}
	addr, stop, err := Start(o)
	require.NoError(t, err)
	ask(t, addr, before...)
	stop()
	whole, err := os.ReadFile(o.Journal)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(o.Journal, whole[:len(whole)-5], 0o600))
	addr = begin(t, o)
	require.Contains(t, ask(t, addr, `<transactions id="1"><query id="1"/><query id="2"/></transactions>`),
		`<status id="1"><open shares="10"/></status><error id="2">`)
	ask(t, addr, before[2])
	again := begin(t, o)
	require.Contains(t, ask(t, again, `<transactions id="1"><query id="1"/></transactions>`), `<open shares="6"/>`)
}
