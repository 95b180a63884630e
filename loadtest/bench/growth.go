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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/load"
	"outcry/internal/wire"
	"outcry/loadtest/harness"
)

// GrowthOptions say how far history grows.
type GrowthOptions struct {
	Marks   []int64 // numbers of orders at which to look, rising
	Clients int     // connections
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

const (
	growthAccounts = 64
	growthSymbols  = 16
	ordersAtOnce   = 20     // in a frame
	killAfter      = 20_000 // orders that are answered between a mark and the kill
)

// growing is a growth under way.
type growing struct {
	GrowthOptions
	*harness.Exchange
	dir     string
	done    atomic.Int64 // orders answered
	journal atomic.Int64 // bytes, the most seen since the last mark
	lag     atomic.Int64 // records, likewise
}

// RunGrowth trades, with data in dir, until an exchange has had so many orders, and at each
// mark looks at how long a restart takes, how large the journal is, and how much memory the
// server has. All three are to stay flat: they follow what is open and what Postgres does
// not have yet. It writes a line a mark to Out. The error says what could not be done, or
// which order was refused.
func RunGrowth(ctx context.Context, programs Programs, dir string, o GrowthOptions) (marks []Mark, err error) {
	g := &growing{GrowthOptions: o, dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "outcryd.log"))
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer log.Close()
	server := harness.ServerOptions{Program: programs.Server, Log: log, Flags: []string{"--segment=16777216"}}
	if g.Exchange, err = harness.StartExchange(ctx, dir, server); err != nil {
		return nil, err
	}
	defer g.End()
	if err := g.open(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintln(o.Out, "    orders   orders/s   restart: killed (replayed)   stopped   journal MB    most behind   "+
		"server MB   open orders   database MB")
	for _, mark := range o.Marks {
		m := Mark{}
		if err := g.to(ctx, mark, &m); err != nil {
			return marks, err
		}
		if err := g.look(ctx, &m); err != nil {
			return marks, err
		}
		marks = append(marks, m)
		fmt.Fprintf(o.Out, "%10d %10.0f %16.3f s (%8d) %7.3f s %12.0f %14d %11.0f %13d %13.0f\n", m.Orders, m.OrdersPerSecond,
			m.RestartKilled, m.Replayed, m.RestartStopped, mega(m.JournalBytes), m.LagMax, mega(m.ServerBytes), m.OpenOrders,
			mega(m.DatabaseBytes))
	}
	return marks, nil
}

// open opens the market.
func (g *growing) open(ctx context.Context) error {
	c := new(wire.Create)
	var placed []wire.Placement
	for n := range growthAccounts {
		id := fmt.Sprint(n + 1)
		c.Account(wire.Account{ID: id, Balance: "100000000000000"})
		placed = append(placed, wire.Placement{Account: id, Shares: "100000000000000"})
	}
	for n := range growthSymbols {
		c.Symbol(fmt.Sprintf("SYM%d", n), placed...)
	}
	return g.send(ctx, 1, func(int) load.Source {
		return &growthSource{g: g, frames: [][]byte{c.Append(nil)}, once: true}
	})
}

// send runs sources of which nothing may be refused.
func (g *growing) send(ctx context.Context, connections int, source func(n int) load.Source) error {
	result, err := load.Closed(ctx, load.Options{Addrs: []string{g.XML}, Connections: connections, Depth: 2}, source)
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("bench: refused: %s", result.Examples[0])
	}
	return err
}

// growthSource sends some frames in turn until so many orders have been answered to all.
type growthSource struct {
	g      *growing
	frames [][]byte
	orders int64 // of each frame
	until  int64
	once   bool // each frame is sent once
	next   int
}

// Next implements load.Source.
func (s *growthSource) Next() []byte {
	n := s.next % len(s.frames)
	if n == 0 && (s.once && s.next > 0 || !s.once && s.g.done.Load() >= s.until) {
		return nil
	}
	s.next++
	return s.frames[n]
}

// Reply implements load.Source.
func (s *growthSource) Reply(xml []byte) error {
	if strings.Contains(string(xml), "<error") {
		return fmt.Errorf("%.300s", xml)
	}
	s.g.done.Add(s.orders)
	return nil
}

// to trades up to a mark, kills the server, starts it, stops it, and starts it again.
func (g *growing) to(ctx context.Context, mark int64, m *Mark) error {
	before, begun := g.done.Load(), time.Now()
	g.journal.Store(0)
	g.lag.Store(0)
	if err := errors.Join(g.trade(ctx, mark), g.CatchUp(ctx, catchUpTimeout)); err != nil {
		return err
	}
	m.Orders, m.OrdersPerSecond = g.done.Load(), float64(g.done.Load()-before)/time.Since(begun).Seconds()
	used, err := g.Usage()
	if err != nil {
		return err
	}
	m.ServerBytes = used.Resident
	if err := g.killUnderLoad(ctx); err != nil {
		return err
	}
	begun = time.Now()
	if err := g.Start(ctx); err != nil {
		return err
	}
	m.RestartKilled = time.Since(begun).Seconds()
	replayed, _ := g.LastAttr("replayed")
	m.Replayed, _ = strconv.ParseInt(replayed, 10, 64)
	if err := g.CatchUp(ctx, catchUpTimeout); err != nil {
		return err
	}
	open, err := g.Metric(ctx, "outcry_open_orders")
	if err != nil {
		return err
	}
	m.OpenOrders, m.JournalBytes, m.LagMax = int64(open), g.journal.Load(), g.lag.Load()
	stopping, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	if err := g.Stop(stopping); err != nil {
		return err
	}
	begun = time.Now()
	err = g.Start(ctx)
	m.RestartStopped = time.Since(begun).Seconds()
	return err
}

// trade sends orders that meet each other from all connections until so many have been
// answered: little stays open.
func (g *growing) trade(ctx context.Context, until int64) error {
	stop := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { g.watch(ctx, stop) })
	err := g.send(ctx, g.Clients, func(n int) load.Source {
		side := func(account int, amount string) []byte {
			t := wire.NewTransactions(fmt.Sprint(account%growthAccounts + 1))
			for range ordersAtOnce {
				t.Order(fmt.Sprintf("SYM%d", n%growthSymbols), amount, "100")
			}
			return t.Append(nil)
		}
		return &growthSource{g: g, frames: [][]byte{side(n, "-2"), side(n+1, "2")}, orders: ordersAtOnce, until: until}
	})
	close(stop)
	watcher.Wait()
	return err
}

// killUnderLoad kills the server while all connections trade.
func (g *growing) killUnderLoad(ctx context.Context) error {
	ended := make(chan error, 1)
	after := g.done.Load() + killAfter
	go func() { ended <- g.trade(ctx, math.MaxInt64) }()
	for g.done.Load() < after {
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Millisecond):
		}
	}
	g.Kill()
	<-ended // connections end with errors now
	return ctx.Err()
}

// watch notes the largest size of the journal, and the largest lag of Postgres.
func (g *growing) watch(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		files, _ := filepath.Glob(filepath.Join(g.dir, "data", "journal", "*"))
		size := int64(0)
		for _, file := range files {
			if info, err := os.Stat(file); err == nil { // it may just have been deleted
				size += info.Size()
			}
		}
		g.journal.Store(max(size, g.journal.Load()))
		if lag, err := g.Metric(ctx, "outcry_postgres_lag_records"); err == nil {
			g.lag.Store(max(int64(lag), g.lag.Load()))
		}
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// look demands that the tables have every order that was answered, and that cash and
// shares add up, and notes how large they are.
func (g *growing) look(ctx context.Context, m *Mark) error {
	db, err := pgx.Connect(ctx, g.Postgres.DirectURL())
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer db.Close(ctx)
	var orders int64
	var cash, shares bool
	err = db.QueryRow(ctx, `SELECT (SELECT count(*) FROM outcry.order_log),
		(SELECT sum(balance + held) = sum(opened) FROM public.accounts),
		(SELECT sum(shares + held) FROM public.positions) = (SELECT sum(placed) FROM public.symbols),
		pg_database_size(current_database())`).Scan(&orders, &cash, &shares, &m.DatabaseBytes)
	switch {
	case err != nil:
		return fmt.Errorf("bench: %w", err)
	case orders < g.done.Load():
		return fmt.Errorf("the tables have %d orders, clients were told of %d", orders, g.done.Load())
	case !cash || !shares:
		return fmt.Errorf("cash adds up: %t, shares: %t", cash, shares)
	}
	return nil
}
