package books

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
)

// RunOptions configure a run and its faults.
type RunOptions struct {
	Duration time.Duration // total trading time
	Kills    int           // kills of the exchange under load
	Clients  int           // clients that trade
	Rate     int           // frames a second of all clients; 0 means unlimited
	Symbols  int
	Watched  int           // number of accounts whose private events are followed
	Break    time.Duration // mean time after which a watcher reconnects
	Seed     uint64
	Edits    []harness.Edit // changes to the server's source, for mutations
	Dir      string         // for data, logs and programs; "" means a temporary one, removed unless the run fails
	Out      io.Writer      // progress, a line for each phase
}

// Finding is the error of a run that has found a bug: a reader's state differs from the exchange's.
type Finding struct{ Err error }

// Error returns the message of the wrapped error.
func (f *Finding) Error() string { return f.Err.Error() }

// Unwrap returns the wrapped error.
func (f *Finding) Unwrap() error { return f.Err }

// Report is the result of a run.
type Report struct {
	Verdict  string  `json:"verdict"` // "pass" or what is wrong
	Seed     uint64  `json:"seed"`
	Seconds  float64 `json:"seconds"`
	Machine  string  `json:"machine"`
	Revision string  `json:"revision"`
	Requests uint64  `json:"requests"` // answered requests of clients
	Kills    int     `json:"kills"`
	Counts
}

// WriteJSON writes the report. It returns w's error.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Line returns the verdict in a line.
func (r *Report) Line() string {
	word := "PASS"
	if r.Verdict != "pass" {
		word = "FAIL"
	}
	return fmt.Sprintf("%s: %d requests, %d kills; %s; seed %d, %.0f s", word, r.Requests, r.Kills, r.Counts, r.Seed,
		r.Seconds)
}

const (
	// upTimeout is how long a start of the server may take, catchUpTimeout how long Postgres may take to
	// have everything.
	upTimeout      = 90 * time.Second
	catchUpTimeout = 90 * time.Second
	anyPort        = "127.0.0.1:0"
)

// runner is a run in progress.
type runner struct {
	RunOptions
	program   string
	log       *os.File
	pg        *harness.Postgres
	db        *pgx.Conn // connected directly, without the proxy
	server    *harness.Server
	xml, http string // addresses, kept over restarts
	report    *Report
}

// Run trades the flow of the scenario `market` in phases, while watchers read. There is one more phase
// than kills: one phase ends with an orderly stop, the others with a kill. At the end of each phase the
// watchers are compared with the tables. The report is returned even with an error. A *Finding means that
// the exchange is wrong, another error that the run could not be completed.
func Run(ctx context.Context, o RunOptions) (*Report, error) {
	r := &runner{RunOptions: o, xml: anyPort, http: anyPort,
		report: &Report{Seed: o.Seed, Machine: load.Machine()}}
	begun, temporary := time.Now(), o.Dir == ""
	var err error
	if temporary {
		if r.Dir, err = os.MkdirTemp("", "outcry-books-"); err != nil {
			return r.report, fmt.Errorf("books: %w", err)
		}
	}
	if err = r.prepare(ctx); err == nil {
		err = r.phases(ctx)
	}
	err = errors.Join(err, r.cleanUp())
	r.report.Seconds, r.report.Verdict = time.Since(begun).Seconds(), "pass"
	if err == nil && temporary {
		return r.report, harness.RemoveAll(r.Dir)
	}
	if err != nil {
		r.report.Verdict = err.Error()
		err = fmt.Errorf("%w\n(data and logs are in %s; seed %d)", err, r.Dir, o.Seed)
	}
	return r.report, err
}

// prepare builds the program and starts everything.
func (r *runner) prepare(ctx context.Context) error {
	root, err := harness.Root(ctx)
	if err != nil {
		return err
	}
	r.report.Revision = harness.Revision(ctx, root)
	if r.program, err = harness.Build(ctx, root, "./cmd/outcryd", filepath.Join(r.Dir, "bin"), r.Edits...); err != nil {
		return err
	}
	if r.log, err = os.Create(filepath.Join(r.Dir, "outcryd.log")); err != nil {
		return fmt.Errorf("books: %w", err)
	}
	if r.pg, err = harness.StartPostgres(ctx, r.Dir); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	if r.db, err = pgx.Connect(ctx, r.pg.DirectURL()); err != nil {
		return fmt.Errorf("books: %w", err)
	}
	return nil
}

// start starts the server, at the addresses of its previous start if there was one.
func (r *runner) start(ctx context.Context) (err error) {
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

// phases trades, and checks after each phase.
func (r *runner) phases(ctx context.Context) error {
	random := rand.New(rand.NewPCG(r.Seed, 0))
	market, _ := scenario.Find("market")
	params := market.Defaults
	params.Clients, params.Symbols, params.Rate, params.Refs = r.Clients, r.Symbols, r.Rate, false
	params.Accounts = max(r.Clients, r.Watched)
	params.Duration = r.Duration / time.Duration(r.Kills+1)
	trading := &scenario.Run{Addrs: []string{r.xml}, Seed: r.Seed, Params: params}
	if err := market.Prepare(ctx, trading); err != nil {
		return err
	}
	o := Options{HTTP: func() []string { return []string{r.http} }, Seed: r.Seed, Break: r.Break}
	for n := range r.Symbols {
		o.Symbols = append(o.Symbols, "SYM"+strconv.Itoa(n))
	}
	for n := range r.Watched {
		o.Accounts = append(o.Accounts, strconv.Itoa(n+1))
	}
	w := Watch(ctx, o)
	defer w.Stop()
	for n := range r.Kills + 1 {
		trading.Seed = r.Seed + uint64(n)
		kill := time.Duration(-1)
		if n < r.Kills {
			kill = params.Duration/2 + time.Duration(random.Int64N(int64(params.Duration/2)))
		}
		if err := r.phase(ctx, market, trading, kill); err != nil {
			return err
		}
		err := r.server.CatchUp(ctx, catchUpTimeout)
		if err == nil {
			err = w.Check(ctx, r.db)
			if err != nil && ctx.Err() == nil {
				err = &Finding{err}
			}
		}
		r.report.Counts = w.Counts()
		if err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "%4d/%d  %d requests; %s\n", n+1, r.Kills+1, r.report.Requests, r.report.Counts)
	}
	return nil
}

// phase trades for a while. It kills the exchange after kill, unless kill is negative.
func (r *runner) phase(ctx context.Context, market scenario.Scenario, trading *scenario.Run, kill time.Duration) error {
	type outcome struct {
		result *load.Result
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := market.Measure(ctx, trading)
		done <- outcome{result, err}
	}()
	var over outcome
	if kill < 0 {
		over = <-done
		if over.err == nil && over.result.Errors > 0 {
			over.err = fmt.Errorf("books: %d requests had unexpected replies: %v", over.result.Errors, over.result.Examples)
		}
	} else {
		select {
		case over = <-done:
			if over.err != nil {
				return fmt.Errorf("books: trading ended before the kill: %w", over.err)
			}
			done <- over // trading ended just before the kill
		case <-time.After(kill):
		}
		r.server.Kill()
		r.report.Kills++
		over = <-done // with an error, since its connections broke
		over.err = r.start(ctx)
	}
	if over.result != nil {
		r.report.Requests += over.result.Requests
	}
	return over.err
}

// cleanUp ends everything.
func (r *runner) cleanUp() error {
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
