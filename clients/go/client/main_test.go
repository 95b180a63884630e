package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
	"outcry/internal/door"
	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

var background = context.Background()

// patience bounds each wait for something that must happen. No result depends on its value.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	stop, err := startForExamples()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := pgtest.Main(m)
	stop()
	os.Exit(status)
}

// startForExamples starts an exchange in this process, without a database, because examples have no test that
// could clean up after them.
func startForExamples() (stop func(), err error) {
	dir, err := os.MkdirTemp("", "outcry-examples-")
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(dir, journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	exchangeAddr = l.Addr().String()
	e := engine.New(engine.Options{Journal: j, State: exchange.NewState()})
	s := door.New(e, door.Options{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, door.Adapt(wire.XML{})) }()
	return func() {
		ctx, cancel := context.WithTimeout(background, patience)
		defer cancel()
		_ = s.Shutdown(ctx)
		<-served
		e.Close()
		j.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// program is an outcryd that a test has started. It ends with the test.
type program struct {
	flags []string
	addr  string
	cmd   *exec.Cmd
}

// startExchange starts outcryd on new data and waits until it is ready.
func startExchange(t testing.TB, flags ...string) *program {
	t.Helper()
	x := &program{addr: "127.0.0.1:0", flags: append([]string{"--data=" + t.TempDir(), "--database-url=" +
		exchangetest.NewTables(t), "--http=", "--segment=1048576"}, flags...)}
	t.Cleanup(x.kill)
	x.start(t)
	return x
}

// start starts the program, and after a kill restarts it at the same address.
func (x *program) start(t testing.TB) {
	t.Helper()
	x.cmd = exec.Command(exchangetest.PlainServer(t), append([]string{"--listen=" + x.addr}, x.flags...)...)
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := x.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, x.cmd.Start())
	lines, said := bufio.NewScanner(stderr), ""
	for lines.Scan() {
		said += lines.Text() + "\n"
		var line struct{ Msg, XML string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
			x.addr = line.XML
			go func() { // read the log, as a full pipe would block the program
				for lines.Scan() {
				}
			}()
			return
		}
	}
	t.Fatalf("the exchange has ended: %s", said)
}

// kill kills the program, and waits until it has ended.
func (x *program) kill() {
	_ = x.cmd.Process.Kill()
	_ = x.cmd.Wait()
}

// dial connects a client that is closed when the test ends.
func dial(t testing.TB, addr string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(background, addr, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// market opens account 1, which has money, and account 2, which has shares of SPY.
func market(t testing.TB, c *client.Client) {
	t.Helper()
	results, err := c.Do(background, client.OpenAccount("1", number("1e9")), client.OpenAccount("2", client.Decimal{}),
		client.Place("SPY", "2", number("1e9")), client.MakeSymbol("QQQ"))
	require.NoError(t, err)
	for i := range results {
		require.NoError(t, results[i].Err())
	}
}

// number parses a decimal, in which "e9" means nine zeros.
func number(s string) client.Decimal {
	var whole, zeros int64
	if n, _ := fmt.Sscanf(s, "%de%d", &whole, &zeros); n == 2 {
		for range zeros {
			whole *= 10
		}
		return client.Whole(whole)
	}
	return client.MustDecimal(s)
}
