package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/lab/books"
	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
)

// Readers is one server whose readers keep books and private feeds (package books) while clients trade the flow of
// the scenario market. At the end of each round the readers are compared with the tables.
var Readers = &Kind{name: "books", about: described(readerFaults),
	schedule: func(o Options, _ *rand.Rand) []string {
		return append(slices.Repeat([]string{"kill"}, o.Kills), "none")
	},
	command: func(o Options, _ string) string {
		return fmt.Sprintf("books -seed %d -duration %s -kills %d -clients %d -rate %d -symbols %d -watched %d -break %s",
			o.Seed, o.Duration, o.Kills, o.Clients, o.Rate, o.SymbolsTraded, o.Watched, o.Break)
	},
	begin: func(r *run, random *rand.Rand) system {
		r.report.ReadersReport = new(ReadersReport)
		return &reading{run: r, random: random, xml: anyPort, http: anyPort}
	}}

// readerFaults are the faults of Readers. The readers' own connections break all the time.
var readerFaults = []fault[*reading]{
	{name: "none", about: "clients trade, and nothing breaks but the readers' own connections"},
	{name: "kill", about: "the server is killed under load", ends: true, inject: (*reading).kill},
}

// readersCatchUpTimeout is how long Postgres may take to have every record.
const readersCatchUpTimeout = 90 * time.Second

// reading is a server with its readers.
type reading struct {
	*run
	random    *rand.Rand
	program   string
	log       *os.File
	pg        *harness.Postgres
	db        *pgx.Conn // connected directly, without the proxy
	server    *harness.Server
	xml, http string // addresses, kept over restarts

	market  scenario.Scenario
	trading *scenario.Run
	readers *books.Watchers
}

// prepare builds the program and starts everything, including the readers.
func (r *reading) prepare(ctx context.Context, root string) (err error) {
	if r.program, err = harness.Build(ctx, root, "./cmd/outcryd", filepath.Join(r.Dir, "bin"), r.Edits...); err != nil {
		return err
	}
	if r.log, err = os.Create(filepath.Join(r.Dir, "outcryd.log")); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if r.pg, err = harness.StartPostgres(ctx, r.Dir); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	if r.db, err = pgx.Connect(ctx, r.pg.DirectURL()); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	return r.watch(ctx)
}

// watch prepares the market and starts the readers.
func (r *reading) watch(ctx context.Context) error {
	r.market, _ = scenario.Find("market")
	params := r.market.Defaults
	params.Clients, params.Symbols, params.Rate, params.Refs = r.Clients, r.SymbolsTraded, r.Rate, false
	params.Accounts = max(r.Clients, r.Watched)
	params.Duration = r.Duration / time.Duration(r.Kills+1)
	r.trading = &scenario.Run{Addrs: []string{r.xml}, Seed: r.Seed, Params: params}
	if err := r.market.Prepare(ctx, r.trading); err != nil {
		return err
	}
	o := books.Options{HTTP: func() []string { return []string{r.http} }, Seed: r.Seed, Break: r.Break}
	for n := range r.SymbolsTraded {
		o.Symbols = append(o.Symbols, "SYM"+strconv.Itoa(n))
	}
	for n := range r.Watched {
		o.Accounts = append(o.Accounts, strconv.Itoa(n+1))
	}
	r.readers = books.Watch(ctx, o)
	return nil
}

// start starts the server, at the addresses of its previous start if there was one.
func (r *reading) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	r.server, err = harness.Launch(harness.ServerOptions{
		Program: r.program, Data: filepath.Join(r.Dir, "data"), DatabaseURL: r.pg.URL(), Log: r.log,
		Flags: []string{"--listen=" + r.xml, "--http=" + r.http, "--segment=4194304"},
	})
	if err == nil {
		err = r.server.WaitReady(ctx)
	}
	if err == nil {
		r.xml, r.http = r.server.XML, r.server.HTTP
	}
	return err
}

// round trades, injects the fault, and compares the readers with the tables.
func (r *reading) round(ctx context.Context, n int, name string) (summary string, err error) {
	r.trading.Seed = r.Seed + uint64(n) - 1
	if err := r.trade(ctx, find(readerFaults, name)); err != nil {
		return "", incomplete{err}
	}
	if err := r.server.CatchUp(ctx, readersCatchUpTimeout); err != nil {
		return "", incomplete{err}
	}
	err = runChecks(ctx, r.checks())
	r.report.Counts = r.readers.Counts()
	return fmt.Sprintf("%d requests; %s", r.report.Requests, r.report.Counts), err
}

func (r *reading) checks() []check {
	return []check{{"readers", func(ctx context.Context) error { return r.readers.Check(ctx, r.db) }}}
}

// trade trades for the time of a round. A fault that ends the server is injected at a random moment of the second
// half.
func (r *reading) trade(ctx context.Context, f *fault[*reading]) error {
	type outcome struct {
		result *load.Result
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := r.market.Measure(ctx, r.trading)
		done <- outcome{result, err}
	}()
	var over outcome
	if f.ends {
		half := r.trading.Params.Duration / 2
		select {
		case over = <-done:
			if over.err != nil {
				return fmt.Errorf("torture: trading ended before the fault: %w", over.err)
			}
			done <- over // trading ended just before the fault
		case <-time.After(half + time.Duration(r.random.Int64N(int64(half)))):
		}
		if err := f.inject(r, ctx); err != nil {
			return err
		}
		over = <-done // trading ends with an error, since its connections broke
		over.err = r.start(ctx)
	} else if over = <-done; over.err == nil && over.result.Errors > 0 {
		over.err = fmt.Errorf("torture: %d requests had unexpected replies: %v", over.result.Errors, over.result.Examples)
	}
	if over.result != nil {
		r.report.Requests += over.result.Requests
	}
	return over.err
}

func (r *reading) kill(context.Context) error {
	r.server.Kill()
	r.report.Kills++
	return nil
}

// finish does nothing: the readers were compared at the end of the last round.
func (r *reading) finish(context.Context) error { return nil }

// cleanUp ends everything.
func (r *reading) cleanUp() error {
	if r.readers != nil {
		r.readers.Stop()
	}
	if r.db != nil {
		_ = r.db.Close(context.Background())
	}
	if r.server != nil {
		r.server.Kill()
	}
	if r.log != nil {
		_ = r.log.Close()
	}
	if r.pg == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), upTimeout)
	defer cancel()
	return r.pg.Stop(ctx)
}

func (r *reading) remove() error { return harness.RemoveAll(r.Dir) }
