// Package growth shows what growing history costs: it trades until an exchange has
// had so many million orders, and at each mark looks at how long a restart takes,
// how large the journal is, and how much memory the server has. All three are to
// stay flat: they follow what is open and what Postgres does not have yet.
package growth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"outcry/clients/go/client"
	"outcry/internal/wire"
	"outcry/loadtest/harness"
)

// Options say how far to go.
type Options struct {
	Marks   []int64 // numbers of orders at which to look, rising
	Clients int     // connections
	Dir     string  // for data and logs; "" for a temporary one, removed at the end
	Out     io.Writer
}

// Mark is what is seen at one number of orders.
type Mark struct {
	Orders          int64   `json:"orders"`
	OrdersPerSecond float64 `json:"orders_per_second"` // since the mark before, Postgres caught up at the end
	RestartKilled   float64 `json:"restart_after_kill_seconds"`
	Replayed        int64   `json:"records_replayed"`
	RestartStopped  float64 `json:"restart_after_stop_seconds"`
	JournalBytes    int64   `json:"journal_bytes"`   // the most that was seen while trading
	LagMax          int64   `json:"lag_records_max"` // that Postgres did not have yet, the most that was seen
	ServerBytes     int64   `json:"server_resident_bytes"`
	OpenOrders      int64   `json:"open_orders"`
	DatabaseBytes   int64   `json:"database_bytes"` // this one grows: it is the history
}

// Report is what a run found.
type Report struct {
	Command  string    `json:"command"`
	Began    time.Time `json:"began"`
	Revision string    `json:"revision"`
	Machine  string    `json:"machine"`
	Marks    []Mark    `json:"marks"`
}

const (
	accounts     = 64
	ordersAtOnce = 20 // in a frame
	upTimeout    = 2 * time.Minute
	catchUp      = 10 * time.Minute
	replyTimeout = time.Minute
	killAfter    = 20_000 // orders that are answered between a mark and the kill
)

type run struct {
	Options
	program string
	pg      *harness.Postgres
	server  *harness.Server
	log     *os.File
	done    atomic.Int64 // orders answered
	journal atomic.Int64 // bytes, the most seen since the last mark
	lag     atomic.Int64 // records, likewise
}

// Run trades up to each mark and looks. It writes a line a mark to Out. The error
// says what could not be done, or which order was refused.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &run{Options: o}
	root, err := harness.Root(ctx)
	if err != nil {
		return nil, err
	}
	marks := strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Marks), " ", ","), "[]")
	report := &Report{Began: time.Now().UTC(), Revision: harness.Revision(ctx, root), Machine: harness.Machine(),
		Command: fmt.Sprintf("go run ./loadtest growth -orders %s -clients %d", marks, o.Clients)}
	if o.Dir == "" {
		if r.Dir, err = os.MkdirTemp("", "outcry-growth-"); err != nil {
			return nil, fmt.Errorf("growth: %w", err)
		}
		defer harness.RemoveAll(r.Dir)
	}
	defer r.stop()
	if err := r.prepare(ctx, root); err != nil {
		return nil, err
	}
	fmt.Fprintln(o.Out, "    orders   orders/s   restart: killed (replayed)   stopped   journal MB    most behind   server MB   open orders   database MB")
	for _, mark := range o.Marks {
		m, err := r.to(ctx, mark)
		if err != nil {
			return report, err
		}
		if err := r.agree(ctx); err != nil {
			return report, err
		}
		report.Marks = append(report.Marks, m)
		fmt.Fprintf(o.Out, "%10d %10.0f %16.3f s (%8d) %7.3f s %12.0f %14d %11.0f %13d %13.0f\n", m.Orders, m.OrdersPerSecond,
			m.RestartKilled, m.Replayed, m.RestartStopped, mega(m.JournalBytes), m.LagMax, mega(m.ServerBytes), m.OpenOrders, mega(m.DatabaseBytes))
	}
	return report, nil
}

func mega(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// WriteJSON writes the report. The error is w's.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *run) prepare(ctx context.Context, root string) (err error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return fmt.Errorf("growth: %w", err)
	}
	if r.program, err = harness.Build(ctx, root, "./cmd/outcryd", r.Dir); err != nil {
		return err
	}
	if r.log, err = os.Create(filepath.Join(r.Dir, "outcryd.log")); err != nil {
		return fmt.Errorf("growth: %w", err)
	}
	if r.pg, err = harness.StartPostgres(ctx, r.Dir); err != nil {
		return err
	}
	if _, err = r.start(ctx); err != nil {
		return err
	}
	c := new(wire.Create)
	var placed []wire.Placement
	for n := range accounts {
		id := fmt.Sprint(n + 1)
		c.Account(wire.Account{ID: id, Balance: "100000000000000"})
		placed = append(placed, wire.Placement{Account: id, Shares: "100000000000000"})
	}
	for n := range 16 {
		c.Symbol(fmt.Sprintf("SYM%d", n), placed...)
	}
	conn, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.ask(c.Append(nil))
}

// start starts the server and returns how long that took.
func (r *run) start(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	begun := time.Now()
	r.server, err = harness.Launch(harness.ServerOptions{Program: r.program, Data: filepath.Join(r.Dir, "data"),
		DatabaseURL: r.pg.URL(), Log: r.log, Flags: []string{"--segment=16777216"}})
	if err != nil {
		return 0, err
	}
	if err := r.server.WaitReady(ctx); err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}

// to trades up to a mark, kills the server, and looks.
func (r *run) to(ctx context.Context, mark int64) (m Mark, err error) {
	before, begun := r.done.Load(), time.Now()
	r.journal.Store(0)
	r.lag.Store(0)
	if err := r.trade(ctx, mark); err != nil {
		return m, err
	}
	if err := r.waitCaughtUp(ctx); err != nil {
		return m, err
	}
	m.Orders, m.OrdersPerSecond = r.done.Load(), float64(r.done.Load()-before)/time.Since(begun).Seconds()
	usage, err := r.server.Usage()
	if err != nil {
		return m, err
	}
	m.ServerBytes = usage.Resident
	if err := r.killUnderLoad(ctx); err != nil {
		return m, err
	}
	took, err := r.start(ctx)
	if err != nil {
		return m, err
	}
	replayed, _ := r.server.LastAttr("replayed")
	m.Replayed, _ = strconv.ParseInt(replayed, 10, 64)
	m.RestartKilled = took.Seconds()
	if err := r.waitCaughtUp(ctx); err != nil {
		return m, err
	}
	open, err := r.server.Metric(ctx, "outcry_open_orders")
	if err != nil {
		return m, err
	}
	m.OpenOrders, m.JournalBytes, m.LagMax = int64(open), r.journal.Load(), r.lag.Load()
	stopping, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if err := r.server.Stop(stopping); err != nil {
		return m, err
	}
	if took, err = r.start(ctx); err != nil {
		return m, err
	}
	m.RestartStopped = took.Seconds()
	m.DatabaseBytes, err = r.databaseBytes(ctx)
	return m, err
}

// trade sends orders from all connections until so many have been answered.
func (r *run) trade(ctx context.Context, until int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var clients, watcher sync.WaitGroup
	for n := range r.Clients {
		clients.Go(func() {
			if err := r.client(ctx, n, until); err != nil {
				cancel(err)
			}
		})
	}
	stop := make(chan struct{})
	watcher.Go(func() { r.watch(ctx, stop) })
	clients.Wait()
	close(stop)
	watcher.Wait()
	return context.Cause(ctx)
}

// killUnderLoad kills the server while all connections trade.
func (r *run) killUnderLoad(ctx context.Context) error {
	ended := make(chan error, 1)
	after := r.done.Load() + killAfter
	go func() { ended <- r.trade(ctx, math.MaxInt64) }()
	for r.done.Load() < after {
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Millisecond):
		}
	}
	r.server.Kill()
	<-ended // connections end with errors now
	return ctx.Err()
}

// client places orders that meet each other: little stays open.
func (r *run) client(ctx context.Context, n int, until int64) error {
	conn, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	account, other := fmt.Sprint(n%accounts+1), fmt.Sprint((n+1)%accounts+1)
	sym := fmt.Sprintf("SYM%d", n%16)
	side := func(account, amount string) []byte {
		t := wire.NewTransactions(account)
		for range ordersAtOnce {
			t.Order(sym, amount, "100")
		}
		return t.Append(nil)
	}
	sells, buys := side(account, "-2"), side(other, "2")
	for r.done.Load() < until && ctx.Err() == nil {
		if err := conn.ask(sells, buys); err != nil {
			return err
		}
		r.done.Add(2 * ordersAtOnce)
	}
	return nil
}

// watch notes the largest size of the journal, and the largest lag of Postgres.
func (r *run) watch(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		files, _ := filepath.Glob(filepath.Join(r.Dir, "data", "journal", "*"))
		size := int64(0)
		for _, file := range files {
			if info, err := os.Stat(file); err == nil { // it may just have been deleted
				size += info.Size()
			}
		}
		r.journal.Store(max(size, r.journal.Load()))
		if lag, err := r.server.Metric(ctx, "outcry_postgres_lag_records"); err == nil {
			r.lag.Store(max(int64(lag), r.lag.Load()))
		}
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

func (r *run) waitCaughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for {
		lag, err := r.server.Metric(ctx, "outcry_postgres_lag_records")
		if err == nil && lag == 0 {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("growth: Postgres does not catch up: %v records are missing: %w", lag, ctx.Err())
		}
	}
}

func (r *run) stop() {
	if r.server != nil {
		r.server.Kill()
	}
	if r.log != nil {
		r.log.Close()
	}
	if r.pg != nil {
		ctx, cancel := context.WithTimeout(context.Background(), upTimeout)
		defer cancel()
		_ = r.pg.Stop(ctx) // nothing is kept of it
	}
}

// conn is a connection that sends frames of which nothing may be refused.
type conn struct{ *client.Conn }

func (r *run) dial(ctx context.Context) (*conn, error) {
	c, err := client.DialConn(ctx, r.server.XML, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("growth: %w", err)
	}
	return &conn{c}, nil
}

func (c *conn) ask(frames ...[]byte) error {
	err := c.SetDeadline(time.Now().Add(replyTimeout))
	for _, f := range frames {
		c.SendFrame(f)
	}
	if err == nil {
		err = c.Flush()
	}
	for range frames {
		var reply []byte
		if err == nil {
			reply, err = c.NextReply()
		}
		if err == nil && strings.Contains(string(reply), "<error") {
			err = fmt.Errorf("refused: %.300s", reply)
		}
	}
	if err != nil {
		return fmt.Errorf("growth: %w", err)
	}
	return nil
}
