// Package torture breaks an exchange in every way that processes, machines, disks, networks, databases and clients can
// fail, at random moments. After each fault it checks that everything that was answered is present, that nothing
// happened twice, that nothing exists that was never sent, and that cash and shares add up to the last fraction.
//
// One driver runs a plan, which has a number of rounds for each fault. In a round clients trade, one fault is
// injected, its damage is repaired, and the checks compare what clients know with the exchange and its tables.
// torture.go has the driver, plan.go the types of faults and checks, and report.go the result. The driver tortures
// three kinds of exchange, each with a list of its faults and one of its checks:
//
//   - Server: one server, in server.go, server_faults.go and server_check.go. The faults of a malicious client are
//     in attacks.go; the files that begin with abuse have their code.
//   - Cluster: three nodes, in cluster.go, cluster_faults.go and cluster_check.go. Each node is outcryd with its own
//     Postgres on its own machine: a network namespace (harness.Machines).
//   - Readers: one server whose readers keep books and private feeds, in readers.go.
//
// To add a fault, add a value to the list of its kind, with its rounds in the short and the long plan. .ci/run names
// the faults of CI.
package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
)

// Options configure a run. Run ignores the options of other kinds.
type Options struct {
	Seed    uint64
	Plan    map[string]int // number of rounds of each fault, as returned by Kind.ParsePlan
	Clients int            // connections that trade in each round; the linear symbol has four more
	Load    time.Duration  // longest time from the start of a round to its fault
	DownMax time.Duration  // longest time without an answer that a fault may cause; 0 means not judged
	Edits   []harness.Edit // changes to the server's source, for mutations
	Dir     string         // for data, logs and programs; "" means a temporary one, removed unless the run fails
	Out     io.Writer      // progress, a line for each round

	// Of Server.
	Large   bool // abuse has the size of a real attack instead of a test
	Resting int  // orders that rest in the books from the start, far from the prices traded

	// Of Cluster.
	Books bool // readers keep local books and private feeds all the time and are checked after each fault

	// For Readers, which have no plan: there is one more round than kills.
	Duration      time.Duration // total trading time
	Kills         int           // kills of the exchange under load
	Rate          int           // frames a second of all clients; 0 means unlimited
	SymbolsTraded int
	Watched       int           // number of accounts whose private events are followed
	Break         time.Duration // mean time after which a reader reconnects
}

const (
	// upTimeout is how long a start of the server, including recovery, may take. catchUpTimeout is how long
	// Postgres may take to have every record.
	upTimeout      = 90 * time.Second
	catchUpTimeout = 60 * time.Second

	anyPort = "127.0.0.1:0"

	poll = 10 * time.Millisecond
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

// incomplete is the error of a round that could not be completed, although no guarantee was violated.
type incomplete struct{ error }

// Unwrap returns why the round could not be completed.
func (e incomplete) Unwrap() error { return e.error }

// run is a run in progress, of any kind.
type run struct {
	*audit.Session // clients of the running exchange; nil for Readers
	Options
	report *Report

	tradeMax int                  // a fault is injected after 50 answers and fewer than tradeMax more
	slack    func() time.Duration // how long a wait may last beyond its usual time
	gone     func() bool          // reports whether the exchange ended by itself; nil if it is allowed to
	logTail  func() string        // the last lines of the exchange's logs
}

// system is an exchange that the driver tortures.
type system interface {
	// prepare builds the programs in the repository at root, and starts everything.
	prepare(ctx context.Context, root string) error
	// round runs a round of a fault, and returns a summary. An error is a finding unless it is an incomplete.
	round(ctx context.Context, n int, fault string) (summary string, err error)
	// finish ends an exchange without a finding in order, and runs the last checks.
	finish(ctx context.Context) error
	// cleanUp ends everything that prepare has started.
	cleanUp() error
	// remove removes the directory of the run.
	remove() error
}

// Run runs the plan in an order that depends on the seed, and stops at the first violation. The report is
// returned even with an error. A *Finding means that the exchange is wrong, another error that the run could
// not be completed. For Cluster, harness.Isolate must be called before.
func Run(ctx context.Context, k *Kind, o Options) (*Report, error) {
	random := rand.New(rand.NewPCG(o.Seed, 0))
	r := &run{Options: o, report: newReport(k, o)}
	var err error
	temporary := o.Dir == ""
	if temporary {
		if r.Dir, err = os.MkdirTemp("", "outcry-"+k.name+"-"); err != nil {
			return r.report, fmt.Errorf("torture: %w", err)
		}
	}
	s := k.begin(r, random)
	err = r.prepare(ctx, s)
	if err == nil {
		err = r.rounds(ctx, s, k, k.schedule(o, random))
	}
	err = errors.Join(err, s.cleanUp())
	r.report.finish(r, err)
	if err == nil && temporary {
		err = s.remove()
	} else if err != nil {
		err = fmt.Errorf("%w\n(data and logs are in %s; seed %d)", err, r.Dir, o.Seed)
	}
	return r.report, err
}

func (r *run) prepare(ctx context.Context, s system) error {
	root, err := harness.Root(ctx)
	if err != nil {
		return err
	}
	r.report.Revision = harness.Revision(ctx, root)
	return s.prepare(ctx, root)
}

// rounds runs the rounds and stops at the first that finds a violation.
func (r *run) rounds(ctx context.Context, s system, k *Kind, faults []string) error {
	for i, name := range faults {
		begun := time.Now()
		summary, err := s.round(ctx, i+1, name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if why, ok := errors.AsType[incomplete](err); ok {
			return why.error
		} else if err != nil {
			return &Finding{i + 1, name, err}
		}
		r.report.Rounds[name]++
		if k.planned {
			summary = fmt.Sprintf("%-16s  %s; %.1f s", name, summary, time.Since(begun).Seconds())
		}
		fmt.Fprintf(r.Out, "%4d/%d  %s\n", i+1, len(faults), summary)
	}
	if err := s.finish(ctx); err != nil {
		return &Finding{len(faults) + 1, "end", err}
	}
	return nil
}

// traded is what the driver needs of an exchange whose clients trade while a fault is injected.
type traded[S any] interface {
	// arrange prepares the exchange for a round, before clients trade.
	arrange(ctx context.Context, f *fault[S]) error
	// trade starts the clients of a round, until stop is closed. wait returns when they have ended.
	trade(n int, stop <-chan struct{}) (wait func())
	// mend repairs the damage of a fault while clients trade. injected is nil, or why the round has failed.
	mend(ctx context.Context, f *fault[S], injected error) error
	// restore repairs what can be repaired only after clients have ended.
	restore(ctx context.Context, f *fault[S]) error
	// check returns the checks of a round, in the order in which they are run.
	checks() []check
}

// tradedRound trades, injects a fault, repairs it, and checks everything.
func tradedRound[S traded[S]](ctx context.Context, r *run, s S, n int, f *fault[S]) error {
	if err := s.arrange(ctx, f); err != nil {
		return err
	}
	if err := r.NewRound(ctx, n); err != nil {
		return err
	}
	// The number of random draws in a round depends on what happens, so each round has its own generator.
	r.Rand = rand.New(rand.NewPCG(r.Seed, uint64(n)<<32))
	if f.quiet {
		if err := f.inject(s, ctx); err != nil {
			return err
		}
	}
	stop := make(chan struct{})
	wait := s.trade(n, stop)
	var err error
	if !f.early {
		err = r.letTrade(ctx)
	}
	if err == nil && !f.quiet {
		r.Listen()
		err = f.inject(s, ctx)
	}
	err = s.mend(ctx, f, err)
	close(stop)
	wait()
	if err != nil {
		return err
	}
	if wrong := r.Complaints(); len(wrong) > 0 {
		return fmt.Errorf("a client saw: %s", wrong[0])
	}
	if err := s.restore(ctx, f); err != nil {
		return err
	}
	if err := runChecks(ctx, s.checks()); err != nil {
		return err
	}
	r.Forget()
	return nil
}

// letTrade waits for a random number of answers, but no longer than Load. It returns an error if a client saw a
// violation or the exchange ended by itself.
func (r *run) letTrade(ctx context.Context) error {
	enough, end := r.Answered()+int64(50+r.Rand.IntN(r.tradeMax)), time.Now().Add(r.Load)
	return r.await(ctx, "the fault", r.Load, func() (bool, error) {
		return r.Answered() >= enough || time.Now().After(end), nil
	})
}

// awaitAnswers waits until traders have received n more answers.
func (r *run) awaitAnswers(ctx context.Context, n int64) error {
	enough := r.Answered() + n
	return r.await(ctx, "traders continue", 0, func() (bool, error) { return r.Answered() >= enough, nil })
}

// await polls until done returns true. It returns done's error, or an error if the exchange ended, a trader saw a
// violation, or the wait exceeded usual by more than slack.
func (r *run) await(ctx context.Context, what string, usual time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, usual+r.slack())
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		wrong := r.Complaints()
		if len(wrong) > 0 && r.gone != nil {
			_ = wait(ctx, time.Second) // a client may notice the end of a process before its parent does
		}
		switch {
		case r.gone != nil && r.gone():
			return fmt.Errorf("the exchange ended by itself before %s; its log ends with:\n%s", what, r.logTail())
		case len(wrong) > 0:
			return fmt.Errorf("before %s, a client saw: %s", what, wrong[0])
		}
		if err := wait(ctx, poll); err != nil {
			return fmt.Errorf("timed out waiting: %s: %w; the log ends with:\n%s", what, err, r.logTail())
		}
	}
}

// some returns a random duration up to most.
func (r *run) some(most time.Duration) time.Duration { return r.between(0, most) }

// between returns a random duration.
func (r *run) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.Rand.Int64N(int64(most-least)))
}

// wait waits for d. It returns ctx's error if ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
