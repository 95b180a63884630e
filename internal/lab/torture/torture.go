// Package torture breaks an exchange in every way that processes, databases and
// clients break, at random moments, and proves after each that everything that
// was answered is there, that nothing happened twice, that nothing exists that was
// never sent, and that cash and shares add up to the last fraction.
//
// A run is a sequence of rounds of audit.Session. In each, clients trade, one fault is
// injected (faults.go; attacks.go for those of a client that means harm), and what has
// ended is started again. Then what the clients know, the tables and the exchange are
// held against each other.
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

// Options say what to break, and how often.
type Options struct {
	Seed    uint64
	Plan    map[string]int // how many rounds of each fault, as ParsePlan returns them
	Clients int            // connections that trade in each round, besides four of the linear symbol
	Load    time.Duration  // longest time from the start of a round to its fault
	Large   bool           // abuse has the sizes of a real attack, and not those of a test
	Resting int            // orders that rest in the books from the begin on, away from where is traded
	DownMax time.Duration  // longest that clients may be without an answer over a restart; 0: not judged
	Edits   []harness.Edit // changes to the server's source, for mutations
	// for the data, the logs and the programs; "" for a temporary one, removed after a run without failure
	Dir string
	Out io.Writer // progress, a line a round
}

const (
	// upTimeout bounds a start of the server, with whatever it has to recover,
	// and catchUpTimeout how long Postgres may take to have everything.
	upTimeout      = 90 * time.Second
	catchUpTimeout = 60 * time.Second

	anyPort = "127.0.0.1:0"
)

// Finding is the error of a run that has found something: a promise was broken in
// a round, or the exchange did not come back from it.
type Finding struct {
	Round int
	Fault string
	Err   error
}

// Error names the round, its fault and what was found.
func (f *Finding) Error() string { return fmt.Sprintf("round %d (%s): %v", f.Round, f.Fault, f.Err) }

// Unwrap returns what was found.
func (f *Finding) Unwrap() error { return f.Err }

// runner is a run under way.
type runner struct {
	*audit.Session // of the exchange that runs
	Options
	plain  string // path of the server
	clock  string // path of the server with a clock that can be stepped
	client string // path of outcry, which verifies
	log    *os.File
	pg     *harness.Postgres
	server *harness.Server
	report *Report
	db     *pgx.Conn // past the proxy

	abused *harness.Postgres // of the exchanges that are abused; nil before the first
	abuser audit.Target      // what such an exchange lets its abuser do
	token  string            // of the traders, and of checks; "" without --auth
	flags  []string          // of the server, in addition
	files  int               // descriptors that it may have; 0 for as many as this process
}

// Run runs the plan in an order that the seed draws, and stops at the first thing
// that is wrong. The report is there also beside an error. A *Finding means that
// the exchange is wrong, another error that the run could not be done.
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

// start starts the server and waits until it takes orders.
func (r *runner) start(ctx context.Context) error {
	err := r.startAt(ctx, r.plain, anyPort)
	r.End = new(audit.Ending)
	return err
}

// startAt does so at an address. What clients know of its end stays.
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

// launch starts the server at an address of clients, and does not wait.
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

// rounds does the rounds, and stops at the first that finds something.
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

// tradedRound does a round, and says what came of it.
func (r *runner) tradedRound(ctx context.Context, n int, name string) (came string, err error) {
	before := r.Counts()
	err = r.round(ctx, n, name)
	now := r.Counts()
	happened := now.UnknownHappened - before.UnknownHappened
	return fmt.Sprintf("%6d orders answered, %3d unknown, of which %3d happened; %6d executions checked",
		now.Answered-before.Answered, happened+now.UnknownNever-before.UnknownNever, happened, r.Checked().Executions), err
}

// round trades, breaks something, mends it, and checks everything.
func (r *runner) round(ctx context.Context, n int, name string) error {
	if err := r.NewRound(ctx, n); err != nil {
		return err
	}
	if name == "clock" {
		if err := r.changeToSteppableClock(ctx); err != nil {
			return err
		}
	}
	// How many draws a round takes depends on what happens in it: each begins anew.
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

// letTrade waits for a random number of answers, at most for Load. The error says that a
// client saw something wrong, or that the exchange ended by itself.
func (r *runner) letTrade(ctx context.Context) error {
	enough, end := r.Answered()+int64(50+r.Rand.IntN(4000)), time.Now().Add(r.Load)
	return r.await(ctx, "the fault", r.Load, func() (bool, error) {
		return r.Answered() >= enough || time.Now().After(end), nil
	})
}

// await polls until done reports true. The error is done's, or says that the exchange ended,
// that a trader saw something wrong, or that it took far longer than it takes.
func (r *runner) await(ctx context.Context, what string, takes time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, takes+r.patient(audit.ReplyTimeout))
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		wrong := r.Complaints()
		if len(wrong) > 0 {
			_ = wait(ctx, time.Second) // a client sees the end of a process before its parent does
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

// stopServer stops the server in order: every frame that is in is answered, exit
// status 0, and the tables are complete when it is gone.
func (r *runner) stopServer(ctx context.Context) error {
	r.End.MayBeGone.Store(true)
	r.End.InOrder.Store(true)
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	return r.server.Stop(ctx)
}

// end ends the server and what looks at its tables.
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
