package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/lab/demo"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
)

// market is a demo that a test has started.
type market struct {
	t       *testing.T
	end     context.CancelFunc
	report  *report
	done    chan struct{}
	summary demo.Summary
	err     error
}

// report collects the output of a demo.
type report struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *report) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// demoOptions returns the options of a small, fast demo.
func demoOptions(addr string) demo.Options {
	return demo.Options{Addr: addr, Timeout: 30 * time.Second, Symbols: []string{"SPY", "QQQ"}, Seed: 7, Rate: 1000,
		Makers: 2, Takers: 1, Noise: 1, AccountPrefix: "000", ReportEvery: 100 * time.Millisecond}
}

// startDemo starts a demo, which stops at the end of the test.
func startDemo(t *testing.T, o demo.Options) *market {
	t.Helper()
	m := &market{t: t, done: make(chan struct{}), report: &report{}}
	o.Report = m.report
	var ctx context.Context
	ctx, m.end = context.WithCancel(context.Background())
	go func() {
		defer close(m.done)
		m.summary, m.err = demo.Run(ctx, o)
	}()
	t.Cleanup(func() {
		m.end()
		<-m.done
	})
	return m
}

// stop stops the demo gracefully and returns its summary.
func (m *market) stop() demo.Summary {
	m.t.Helper()
	m.end()
	<-m.done
	require.NoError(m.t, m.err, m.report)
	return m.summary
}

// ask returns the rows of a query as text, one row per line.
func ask(t *testing.T, database, sql string, args ...any) string {
	t.Helper()
	db, err := pgx.Connect(context.Background(), database)
	require.NoError(t, err)
	defer db.Close(context.Background())
	rows, err := db.Query(context.Background(), sql, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// eventually waits until a query that returns one boolean returns true.
func eventually(t *testing.T, database, sql string) {
	t.Helper()
	require.Eventually(t, func() bool { return ask(t, database, sql) == "true" }, time.Minute, 20*time.Millisecond, sql)
}

const openShares = "select coalesce(sum(open), 0)::text from orders"

func TestADemoIsALivingMarketThatCleansUp(t *testing.T) {
	t.Parallel()
	data, database := t.TempDir(), exchangetest.NewTables(t)
	p := exchangetest.Start(t, data, database)
	m := startDemo(t, demoOptions(p.Addr))
	eventually(t, database, `select (count(distinct (sym, amount < 0)) = 4)::text from orders where open > 0`)
	eventually(t, database, `select (count(distinct (sym, aggressing_order = buy_order)) = 4)::text from executions`)
	require.Eventually(t, func() bool {
		s := m.report.String()
		return strings.Contains(s, " trades  ") && strings.Contains(s, "SPY ") && !strings.Contains(s, "refused")
	}, time.Minute, 10*time.Millisecond)
	s := m.stop()
	require.Zero(t, s.Left)
	require.Zero(t, s.Refused)
	require.Positive(t, s.Trades)

	// Run it again from the command line. The accounts exist already.
	out, stderr, status := lab("", "--addr="+p.Addr, "demo",
		"--symbols=SPY,DIA", "--rate=500", "--report=100ms", "--duration=1s")
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Regexp(t,
		`(?s)^6 bots for each of 2 symbols trade on .* with seed 1.* orders \(.*`+
			`ended: \d+ orders, 0 refused, \d+ trades, 0 orders left open\n$`, out)

	p.Stop()
	require.Equal(t, "0", ask(t, database, openShares), "whatever they placed is executed or canceled")
	orders := ask(t, database, "select count(*)::text from orders where account like '000%'")
	require.Contains(t, out, fmt.Sprintf("ended: %d orders", count(t, orders)-s.Orders), "they know all their orders")
	exchangetest.Verify(t, "--database-url="+database, data) // checks that the money adds up
}

func count(t *testing.T, s string) (n int) {
	t.Helper()
	_, err := fmt.Sscan(s, &n)
	require.NoError(t, err)
	return n
}

func TestTheSameSeedTradesTheSame(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	t.Parallel()
	const orders = 400
	trade := func(seed uint64) (placed, executed string) {
		database := exchangetest.NewTables(t)
		p := exchangetest.Start(t, t.TempDir(), database)
		o := demoOptions(p.Addr)
		o.Seed = seed
		m := startDemo(t, o)
		eventually(t, database, fmt.Sprintf("select (count(*) >= %d)::text from orders", orders))
		m.stop()
		p.Stop()
		return ask(t, database,
				"select concat_ws(' ', id, account, sym, amount, limit_price) from orders where id <= $1 order by id", orders),
			ask(t, database,
				"select concat_ws(' ', sym, buy_order, sell_order, shares, price) from executions where buy_order <= $1 and "+
					"sell_order <= $1 order by sym, greatest(buy_order, sell_order), n", orders)
	}
	placed, executed := trade(7)
	require.Equal(t, orders-1, strings.Count(placed, "\n"))
	require.NotEmpty(t, executed)
	placedAgain, executedAgain := trade(7)
	require.Equal(t, placed, placedAgain)
	require.Equal(t, executed, executedAgain)
	placedElse, _ := trade(8)
	require.NotEqual(t, placed, placedElse)
}

func TestADemoOutlivesACrashOfTheExchange(t *testing.T) {
	t.Parallel()
	data, database := t.TempDir(), exchangetest.NewTables(t)
	p := exchangetest.Start(t, data, database)
	m := startDemo(t, demoOptions(p.Addr))
	eventually(t, database, "select (count(*) > 500)::text from orders")
	require.NoError(t, p.Cmd.Process.Kill())
	_ = p.Cmd.Wait() // reports only the kill
	before := count(t, ask(t, database, "select coalesce(max(id), 0)::text from orders"))
	p = exchangetest.Start(t, data, database, "--listen="+p.Addr)
	eventually(t, database, fmt.Sprintf("select (max(id) > %d)::text from orders", before+1000))
	require.Contains(t, m.report.String(), "the connection is lost")
	require.Contains(t, m.report.String(), "connected again")
	require.Zero(t, m.stop().Left)
	p.Stop()
	require.Equal(t, "0", ask(t, database, openShares))
}

func TestADemoCancelsOrdersWhoseAnswersWereLost(t *testing.T) {
	database := exchangetest.NewTables(t)
	p := exchangetest.Start(t, t.TempDir(), database)
	m := startDemo(t, demoOptions(forgetful(t, p.Addr)))
	require.Eventually(t, func() bool { return strings.Contains(m.report.String(), "connected again") }, time.Minute,
		5*time.Millisecond)
	report := m.stop()
	p.Stop()
	require.Greater(t, count(t, ask(t, database,
		"select count(*)::text from orders where account like '000%' and limit_price > 1")), report.Orders,
		"some orders are missing in the report")
	require.Equal(t, "0", ask(t, database, openShares))
}

// forgetful returns an address that forwards connections to addr. For the first connection it forwards all
// requests, but only a part of the replies.
func forgetful(t *testing.T, addr string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			client, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			go carry(client, addr, n == 0)
		}
	}()
	return l.Addr().String()
}

// carry forwards a connection until one side closes it. If cut is true, it forwards only the first bytes of the
// replies, and closes the connection when the exchange has sent one more byte.
func carry(client net.Conn, addr string, cut bool) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	if !cut {
		_, _ = io.Copy(client, server)
		return
	}
	const passed, more = 40_000, 1
	_, _ = io.CopyN(client, server, passed)
	_, _ = io.CopyN(io.Discard, server, more)
}

func TestADemoRefusesWhatItCannotDo(t *testing.T) {
	for args, want := range map[string]string{
		"--rate=0":                "a rate of 0 orders a second: a demo accepts 1 to 10000",
		"--symbols=":              `symbol "" is not 1 to 32 characters`,
		"--symbols=SPY,SPY":       "symbol SPY is given twice",
		"--makers=-1":             "-1 makers",
		"--accounts=me":           `with the prefix "me"`,
		"--duration=-1s":          "--duration -1s: must not be negative",
		"--report=0s":             "a report every 0s",
		"--timeout=0s":            "a timeout of 0s",
		"now":                     "demo takes no arguments, not 1",
		"--makers=3000 --noise=1": "a demo accepts 1 to 5000 bots",
	} {
		_, stderr, status := lab("", append([]string{"demo"}, strings.Fields(args)...)...)
		require.Equal(t, cli.ExitUsage, status, args)
		require.Contains(t, stderr, want, args)
	}
	out, stderr, status := lab("", "--addr=127.0.0.1:1", "demo")
	require.Empty(t, out, "nothing traded")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "is the exchange running?")
	_, _, status = lab("", "demo", "--help")
	require.Equal(t, cli.ExitOK, status)
}
