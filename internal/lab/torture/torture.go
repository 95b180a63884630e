// Package torture breaks an exchange in every way that processes, databases and clients break, at random
// moments. After each fault it proves that everything answered is present, that nothing happened twice,
// that nothing exists that was never sent, and that cash and shares add up to the last fraction.
//
// A run is a sequence of rounds of audit.Session. In each round clients trade, one fault is injected
// (faults.go; attacks.go for those of a malicious client), and what has ended is started again. Then the
// clients' knowledge, the tables and the exchange are compared.
package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
)

// Options configure a run.
type Options struct {
	Seed    uint64
	Plan    map[string]int // number of rounds of each fault, as returned by ParsePlan
	Clients int            // connections that trade in each round, in addition to four of the linear symbol
	Load    time.Duration  // longest time from the start of a round to its fault
	Large   bool           // abuse has the size of a real attack instead of a test
	Resting int            // orders that rest in the books from the start, far from the prices traded
	DownMax time.Duration  // longest time without an answer that a restart may cause; 0 means not judged
	Edits   []harness.Edit // changes to the server's source, for mutations
	// for data, logs and programs; "" means a temporary one, removed unless the run fails
	Dir string
	Out io.Writer // progress, a line for each round
}

const (
	// upTimeout is how long a start of the server, including recovery, may take. catchUpTimeout is how
	// long Postgres may take to have everything.
	upTimeout      = 90 * time.Second
	catchUpTimeout = 60 * time.Second

	anyPort = "127.0.0.1:0"
)

// Finding is the error of a run that has found a bug: a guarantee was violated in a round, or the
// exchange did not recover from it.
type Finding struct {
	Round int
	Fault string
	Err   error
}

// Error names the round, its fault and what was found.
func (f *Finding) Error() string { return fmt.Sprintf("round %d (%s): %v", f.Round, f.Fault, f.Err) }

// Unwrap returns what was found.
func (f *Finding) Unwrap() error { return f.Err }

// runner is a run in progress.
type runner struct {
	*audit.Session // of the running exchange
	Options
	plain  string // path of the server
	clock  string // path of the server with a clock that can be stepped
	client string // path of outcry, used to verify
	log    *os.File
	pg     *harness.Postgres
	server *harness.Server
	report *Report
	db     *pgx.Conn // connected directly, without the proxy

	abused *harness.Postgres // of the exchanges under attack; nil before the first
	abuser audit.Target      // how the abuser reaches the exchange
	token  string            // for traders and checks; "" without --auth
	flags  []string          // additional flags of the server
	files  int               // descriptor limit of the server; 0 means that of this process
}

// Run runs the plan in a random order that depends on the seed, and stops at the first violation. The
// report is returned even with an error. A *Finding means that the exchange is wrong, another error that
// the run could not be completed.
func Run(ctx context.Context, o Options) (*Report, error) {
	random := rand.New(rand.NewPCG(o.Seed, 0))
	r := &runner{Session: audit.NewSession(audit.Target{}, random), Options: o, report: newReport(o)}
	var err error
	temporary := o.Dir == ""
	if temporary {
		if r.Dir, err = os.MkdirTemp("", "outcry-torture-"); err != nil {
			return r.report, fmt.Errorf("torture: %w", err)
		}
	}
	err = r.prepare(ctx)
	if err == nil {
		err = r.rounds(ctx, schedule(o.Plan, random))
	}
	err = errors.Join(err, r.cleanUp())
	r.report.finish(r, err)
	if err == nil && temporary {
		if r.abused != nil {
			err = harness.RemoveAll(r.abuseDir())
		}
		err = errors.Join(err, harness.RemoveAll(r.Dir))
	} else if err != nil {
		err = fmt.Errorf("%w\n(data and logs are in %s; seed %d)", err, r.Dir, o.Seed)
	}
	return r.report, err
}

// prepare builds the programs and starts everything.
func (r *runner) prepare(ctx context.Context) error {
	root, err := harness.Root(ctx)
	if err != nil {
		return err
	}
	r.report.Revision = harness.Revision(ctx, root)
	build := func(command, dir string, edits []harness.Edit) (program string) {
		if err == nil {
			program, err = harness.Build(ctx, root, command, filepath.Join(r.Dir, dir), edits...)
		}
		return program
	}
	r.plain, r.client = build("./cmd/outcryd", "plain", r.Edits), build("./cmd/outcry", "plain", r.Edits)
	if r.Plan["clock"] > 0 {
		r.clock = build("./cmd/outcryd", "clock", append(clockEdits, r.Edits...))
	}
	if err != nil {
		return err
	}
	if r.log, err = os.Create(filepath.Join(r.Dir, "outcryd.log")); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if r.pg, err = harness.StartPostgres(ctx, r.Dir); err != nil {
		return err
	}
	fill := func(ctx context.Context) error { return r.FillBooks(ctx, r.Resting) }
	return inTurn(ctx, r.start, r.OpenMarket, fill)
}

// start starts the server and waits until it accepts orders.
func (r *runner) start(ctx context.Context) error {
	err := r.startAt(ctx, r.plain, anyPort)
	r.End = new(audit.Ending)
	return err
}

// startAt starts the server at an address and waits until it accepts orders. It does not reset what
// clients know about the server's end.
func (r *runner) startAt(ctx context.Context, program, listen string) error {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	begun := time.Now()
	if err := r.launch(program, listen); err != nil {
		return err
	}
	if err := r.server.WaitReady(ctx); err != nil {
		return err
	}
	r.At = audit.Target{Addr: r.server.XML, Token: r.token}
	r.report.starts = append(r.report.starts, time.Since(begun))
	return nil
}

// launch starts the server at a client address and does not wait.
func (r *runner) launch(program, listen string) (err error) {
	r.server, err = harness.Launch(harness.ServerOptions{
		Program: program, Data: r.data(), DatabaseURL: r.pg.URL(), Log: r.log, Token: r.token, Files: r.files,
		Flags: append([]string{"--listen=" + listen, "--segment=262144", "--closed-orders=1000", "--refs=200",
			"--stop-timeout=60s"}, r.flags...),
		Env: []string{clockVariable + "=" + r.clockFile()},
	})
	return err
}

// data returns the directory of the server's data.
func (r *runner) data() string { return filepath.Join(r.Dir, "data") }

// rounds runs the rounds and stops at the first that finds a violation.
func (r *runner) rounds(ctx context.Context, faults []string) error {
	for n, name := range faults {
		begun, do := time.Now(), r.tradedRound
		if isAbuse(name) {
			do = r.abuseRound
		}
		came, err := do(ctx, n+1, name)
		if ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return &Finding{n + 1, name, err}
		}
		r.report.Rounds[name]++
		fmt.Fprintf(r.Out, "%4d/%d  %-16s  %s; %.1f s\n", n+1, len(faults), name, came, time.Since(begun).Seconds())
	}
	if err := r.stopAndCheck(ctx); err != nil {
		return &Finding{len(faults) + 1, "end", err}
	}
	return nil
}

// tradedRound runs a round and returns a summary.
func (r *runner) tradedRound(ctx context.Context, n int, name string) (came string, err error) {
	before := r.Counts()
	err = r.round(ctx, n, name)
	now := r.Counts()
	happened := now.UnknownHappened - before.UnknownHappened
	return fmt.Sprintf("%6d orders answered, %3d unknown, of which %3d happened; %6d executions checked",
		now.Answered-before.Answered, happened+now.UnknownNever-before.UnknownNever, happened, r.Checked().Executions), err
}

// round trades, injects a fault, repairs it, and checks everything.
func (r *runner) round(ctx context.Context, n int, name string) error {
	if err := r.NewRound(ctx, n); err != nil {
		return err
	}
	if name == "clock" {
		if err := r.changeToSteppableClock(ctx); err != nil {
			return err
		}
	}
	// The number of random draws in a round depends on what happens, so each round has its own generator.
	r.Rand = rand.New(rand.NewPCG(r.Seed, uint64(n)<<32))
	stop := make(chan struct{})
	clients := r.Trade(n, r.Clients, r.Seed, stop)
	var err error
	if !faults[name].early {
		err = r.letTrade(ctx)
	}
	if err == nil {
		err = faults[name].inject(r, ctx)
	}
	close(stop)
	clients.Wait()
	if err != nil {
		return err
	}
	if wrong := r.Complaints(); len(wrong) > 0 {
		return fmt.Errorf("a client saw: %s", wrong[0])
	}
	if faults[name].ends {
		if err := r.start(ctx); err != nil {
			return fmt.Errorf("the exchange does not come back: %w", err)
		}
	}
	return r.check(ctx)
}

// letTrade waits for a random number of answers, or for Load. It returns an error if a client saw a
// violation or the exchange ended by itself.
func (r *runner) letTrade(ctx context.Context) error {
	enough, end := r.Answered()+int64(50+r.Rand.IntN(4000)), time.Now().Add(r.Load)
	return r.await(ctx, "the fault", r.Load, func() (bool, error) {
		return r.Answered() >= enough || time.Now().After(end), nil
	})
}

// await polls until done returns true. It returns done's error, or an error if the exchange ended, a
// trader saw a violation, or the wait exceeded takes by far.
func (r *runner) await(ctx context.Context, what string, takes time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, takes+r.patient(audit.ReplyTimeout))
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		wrong := r.Complaints()
		if len(wrong) > 0 {
			_ = wait(ctx, time.Second) // a client may notice the end of a process before its parent does
		}
		switch {
		case r.server.Gone():
			return fmt.Errorf("the exchange ended by itself before %s; its log ends with:\n%s", what, r.server.LogTail())
		case len(wrong) > 0:
			return fmt.Errorf("before %s, a client saw: %s", what, wrong[0])
		}
		if err := wait(ctx, usagePoll); err != nil {
			return fmt.Errorf("it does not come to this: %s: %w", what, err)
		}
	}
}

// stopServer stops the server in order, and checks that every complete frame is answered, that the exit
// status is 0, and that the tables are complete.
func (r *runner) stopServer(ctx context.Context) error {
	r.End.MayBeGone.Store(true)
	r.End.InOrder.Store(true)
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	return r.server.Stop(ctx)
}

// end ends the server and the connection to its tables.
func (r *runner) end() {
	if r.db != nil {
		r.db.Close(context.Background())
	}
	if r.server != nil {
		r.server.Kill()
	}
}

func (r *runner) cleanUp() error {
	r.end()
	if r.log != nil {
		r.log.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), upTimeout)
	defer cancel()
	var err error
	for _, pg := range []*harness.Postgres{r.pg, r.abused} {
		if pg != nil {
			err = errors.Join(err, pg.Stop(ctx))
		}
	}
	return err
}
