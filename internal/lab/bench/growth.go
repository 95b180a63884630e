package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
	"outcry/internal/lab/load/scenario"
)

// GrowthOptions configure RunGrowth.
type GrowthOptions struct {
	Marks   []int // numbers of orders at which to measure, rising
	Clients int   // number of connections
	Out     io.Writer
}

// Mark is the measurement at one number of orders.
type Mark struct {
	Orders          int64   `json:"orders"`
	OrdersPerSecond float64 `json:"orders_per_second"` // since the previous mark, with Postgres caught up at the end
	RestartKilled   float64 `json:"restart_after_kill_seconds"`
	Replayed        int64   `json:"records_replayed"`
	RestartStopped  float64 `json:"restart_after_stop_seconds"`
	JournalBytes    int64   `json:"journal_bytes"`   // highest size during trading
	LagMax          int64   `json:"lag_records_max"` // largest lag of Postgres, in records
	ServerBytes     int64   `json:"server_resident_bytes"`
	OpenOrders      int64   `json:"open_orders"`
	DatabaseBytes   int64   `json:"database_bytes"` // increases, because the database holds the history
}

const (
	growthSymbols = 16
	ordersAtOnce  = 20     // orders in a frame
	killAfter     = 20_000 // records written under load before the server is killed

	growthWatch = 200 * time.Millisecond
	growthPoll  = time.Millisecond
)

// growing is a growth in progress.
type growing struct {
	*harness.Exchange
	run *scenario.Run
	dir string
}

// RunGrowth trades on an exchange with data in dir until it has as many orders as the last of o.Marks. At each mark
// it measures how long a restart takes, how large the journal is, and how much memory the server uses. All three
// should stay flat, because they depend only on the open orders and on the records that Postgres lacks. It writes a
// line for each mark to Out. It returns an error if an operation fails, an order is rejected, or the exchange's
// tables differ from its answers.
func RunGrowth(ctx context.Context, programs Programs, dir string, o GrowthOptions) (marks []Mark, err error) {
	g := &growing{dir: dir}
	server := harness.ServerOptions{Program: programs.Server, Flags: []string{"--segment=16777216"}}
	if g.Exchange, err = harness.StartExchange(ctx, dir, server); err != nil {
		return nil, err
	}
	defer g.End()
	g.run = &scenario.Run{Addrs: []string{g.XML}, Params: scenario.Params{Clients: o.Clients, Depth: 2,
		Symbols: growthSymbols, PerFrame: ordersAtOnce}}
	if err := scenario.Past.Prepare(ctx, g.run); err != nil {
		return nil, err
	}
	fmt.Fprintln(o.Out, "    orders   orders/s   restart: killed (replayed)   stopped   journal MB    most behind   "+
		"server MB   open orders   database MB")
	for _, mark := range o.Marks {
		m, err := g.to(ctx, mark)
		if err != nil {
			return marks, err
		}
		marks = append(marks, m)
		fmt.Fprintf(o.Out, "%10d %10.0f %16.3f s (%8d) %7.3f s %12.0f %14d %11.0f %13d %13.0f\n", m.Orders, m.OrdersPerSecond,
			m.RestartKilled, m.Replayed, m.RestartStopped, mega(m.JournalBytes), m.LagMax, mega(m.ServerBytes), m.OpenOrders,
			mega(m.DatabaseBytes))
	}
	return marks, nil
}

// to trades up to a mark, kills and restarts the server, stops and restarts it, and compares the tables with the
// answers.
func (g *growing) to(ctx context.Context, mark int) (m Mark, err error) {
	before, begun := int(g.run.Answers().Accepted), time.Now()
	g.run.Params.Requests = max(mark-before, 0)/(g.run.Params.Clients*ordersAtOnce) + 1
	stop := harness.Every(growthWatch, func() { g.watch(ctx, &m) })
	err = g.trade(ctx)
	stop()
	if err = errors.Join(err, g.CatchUp(ctx, catchUpTimeout)); err != nil {
		return m, err
	}
	m.Orders = int64(g.run.Answers().Accepted)
	m.OrdersPerSecond = float64(m.Orders-int64(before)) / time.Since(begun).Seconds()
	used, err := g.Usage()
	if err != nil {
		return m, err
	}
	m.ServerBytes = used.Resident
	if err := g.killUnderLoad(ctx); err != nil {
		return m, err
	}
	if m.RestartKilled, err = g.start(ctx); err != nil {
		return m, err
	}
	replayed, _ := g.LastAttr("replayed")
	m.Replayed, _ = strconv.ParseInt(replayed, 10, 64)
	if err := g.CatchUp(ctx, catchUpTimeout); err != nil {
		return m, err
	}
	open, err := g.Metric(ctx, "outcry_open_orders")
	if err != nil {
		return m, err
	}
	m.OpenOrders = int64(open)
	stopping, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	if err := g.Stop(stopping); err != nil {
		return m, err
	}
	if m.RestartStopped, err = g.start(ctx); err != nil {
		return m, err
	}
	answers := g.run.Answers()
	have, err := audit.ReadTotals(ctx, g.Postgres.DirectURL(), scenario.Asker)
	if err == nil && have.Orders < answers.Accepted { // there may be more orders: those whose answers were lost by a kill
		err = fmt.Errorf("the tables have %d orders, the answers say %d", have.Orders, answers.Accepted)
	}
	m.DatabaseBytes = have.Bytes
	return m, errors.Join(err, answers.Verify(ctx, g.XML))
}

// start starts the server again and returns how many seconds that took.
func (g *growing) start(ctx context.Context) (seconds float64, err error) {
	begun := time.Now()
	err = g.Start(ctx)
	g.run.Addrs = []string{g.XML}
	return time.Since(begun).Seconds(), err
}

// trade sends each client's frames. Every command must succeed.
func (g *growing) trade(ctx context.Context) error {
	result, err := scenario.Past.Measure(ctx, g.run)
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("bench: refused: %s", result.Examples[0])
	}
	return err
}

// killUnderLoad kills the server while all connections trade.
func (g *growing) killUnderLoad(ctx context.Context) error {
	const records = "outcry_journal_batch_records_sum"
	before, err := g.Metric(ctx, records)
	if err != nil {
		return err
	}
	g.run.Params.Requests = math.MaxInt
	ended := make(chan error, 1)
	go func() { ended <- g.trade(ctx) }()
	for now := before; now < before+killAfter; now, err = g.Metric(ctx, records) {
		select {
		case failed := <-ended:
			return errors.Join(failed, err)
		case <-time.After(growthPoll):
		}
	}
	g.Kill()
	<-ended // connections fail now
	return ctx.Err()
}

// watch records the largest size of the journal and the largest lag of Postgres.
func (g *growing) watch(ctx context.Context, m *Mark) {
	files, _ := filepath.Glob(filepath.Join(g.dir, "data", "journal", "*"))
	size := int64(0)
	for _, file := range files {
		if info, err := os.Stat(file); err == nil { // the file may have just been deleted
			size += info.Size()
		}
	}
	m.JournalBytes = max(size, m.JournalBytes)
	if lag, err := g.Metric(ctx, "outcry_postgres_lag_records"); err == nil {
		m.LagMax = max(int64(lag), m.LagMax)
	}
}
