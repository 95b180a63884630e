// Package failover breaks a cluster of three nodes in every way that machines, disks and networks break,
// at random moments under load. After each fault it proves that everything answered is present on every
// node, that nothing happened twice, that no answer was stale, and that cash and shares add up.
//
// Each node is outcryd with its own Postgres on its own machine: a network namespace (harness.Machines).
// Clients trade from outside through the current leader.
package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/books"
	"outcry/internal/lab/harness"
)

// Options configure a run.
type Options struct {
	Seed    uint64
	Plan    map[string]int // number of rounds of each fault, as returned by ParsePlan
	Clients int            // connections that trade in each round, in addition to four of the linear symbol
	Load    time.Duration  // longest time from the start of a round to its fault
	DownMax time.Duration  // longest time without an answer that a fault may cause; 0 means not judged
	Books   bool           // readers keep local books and private feeds all the time and are checked after each fault
	Edits   []harness.Edit // changes to the server's source, for mutations
	Dir     string         // for data, logs and programs; "" means a temporary one, removed unless the run fails
	Out     io.Writer      // progress, a line for each round
}

const (
	nodes = 3

	// patience is how long a client waits for an answer before it tries another node.
	patience = 500 * time.Millisecond
	// checkPatience is how long a check waits for an answer while nothing is broken.
	checkPatience = 10 * time.Second
	// linearPace spreads the commands of the linear symbol over some seconds.
	linearPace = 40 * time.Millisecond
	// agreeTimeout is how long a healed cluster may take until all nodes have the same records.
	agreeTimeout = 90 * time.Second
	// goesOn is the number of answers that prove that trading continues.
	goesOn = 50

	// readersBreak is the mean time after which a reader of books and feeds reconnects.
	readersBreak = 3 * time.Second

	poll = 20 * time.Millisecond
)

// watched are the accounts of audit.Session whose private events are read: two that trade, and one that
// can afford little.
var watched = []string{"1", "2", "101"}

// Finding is the error of a run that has found a bug: a guarantee was violated in a round, or the cluster
// did not recover from it.
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
	*audit.Session
	Options
	machines    *harness.Machines
	nodes       []*node // by number
	client      string  // path of outcry, used to verify
	report      *Report
	quietOrders int             // orders that quietOrder has placed
	readers     *books.Watchers // nil without Books
}

// Run runs the plan in a random order that depends on the seed, and stops at the first violation. The
// report is returned even with an error. A *Finding means that the cluster is wrong, another error that
// the run could not be completed. harness.Isolate must be called before.
func Run(ctx context.Context, o Options) (*Report, error) {
	random := rand.New(rand.NewPCG(o.Seed, 0))
	r := &runner{Session: audit.NewSession(audit.Target{}, random, quietAccount), Options: o, report: newReport(o)}
	r.LinearPace = linearPace
	var err error
	temporary := o.Dir == ""
	if temporary {
		if r.Dir, err = os.MkdirTemp("", "outcry-failover-"); err != nil {
			return r.report, fmt.Errorf("failover: %w", err)
		}
	}
	if err = r.prepare(ctx); err == nil {
		err = r.rounds(ctx, schedule(o.Plan, random))
	}
	err = errors.Join(err, r.cleanUp())
	r.report.finish(r, err)
	if err == nil && temporary {
		for _, n := range r.nodes {
			err = errors.Join(err, harness.RemoveAll(n.postgresDir()))
		}
		err = errors.Join(err, os.RemoveAll(r.Dir))
	} else if err != nil {
		err = fmt.Errorf("%w\n(data and logs are in %s; seed %d)", err, r.Dir, o.Seed)
	}
	return r.report, err
}

// prepare builds the programs and starts the nodes.
func (r *runner) prepare(ctx context.Context) error {
	root, err := harness.Root(ctx)
	if err != nil {
		return err
	}
	r.report.Revision = harness.Revision(ctx, root)
	bin := filepath.Join(r.Dir, "bin")
	program, err := harness.Build(ctx, root, "./cmd/outcryd", bin, r.Edits...)
	if err != nil {
		return err
	}
	if r.client, err = harness.Build(ctx, root, "./cmd/outcry", bin, r.Edits...); err != nil {
		return err
	}
	if r.machines, err = harness.NewMachines(nodes); err != nil {
		return err
	}
	if err := r.certify(ctx, root); err != nil {
		return err
	}
	for number := 1; number <= nodes; number++ {
		n, err := r.newNode(ctx, number, program)
		if n != nil {
			r.nodes = append(r.nodes, n)
		}
		if err != nil {
			return err
		}
	}
	r.At = audit.Target{Addr: r.nodes[0].xml(), Patience: checkPatience}
	for _, n := range r.nodes[1:] {
		r.At.Others = append(r.At.Others, n.xml())
	}
	for _, n := range r.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	if _, err := r.awaitLeader(ctx); err != nil {
		return err
	}
	if err := r.OpenMarket(ctx); err != nil {
		return err
	}
	if r.Books {
		r.readers = books.Watch(ctx, books.Options{HTTP: r.http, Symbols: r.Symbols, Accounts: watched, Seed: r.Seed,
			Break: readersBreak})
	}
	return nil
}

// http returns the HTTP addresses of all nodes.
func (r *runner) http() (all []string) {
	for _, n := range r.nodes {
		all = append(all, n.address+":"+httpPort)
	}
	return all
}

// rounds runs the rounds and stops at the first that finds a violation.
func (r *runner) rounds(ctx context.Context, faults []string) error {
	for i, name := range faults {
		begun, before := time.Now(), r.Counts()
		err := r.round(ctx, i+1, name)
		if ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return &Finding{i + 1, name, err}
		}
		r.report.Rounds[name]++
		now := r.Counts()
		fmt.Fprintf(r.Out, "%4d/%d  %-16s  %6d orders answered, %3d unknown; %.3f s without an answer; %.1f s\n",
			i+1, len(faults), name, now.Answered-before.Answered,
			now.UnknownHappened+now.UnknownNever-before.UnknownHappened-before.UnknownNever,
			r.report.lastGap(name), time.Since(begun).Seconds())
	}
	r.endReaders()
	if err := r.stopAll(ctx); err != nil {
		return &Finding{len(faults) + 1, "end", err}
	}
	return nil
}

// round trades, injects a fault, repairs it while clients continue, and checks everything on every node.
func (r *runner) round(ctx context.Context, n int, name string) error {
	leader, err := r.awaitLeader(ctx)
	if err != nil {
		return err
	}
	if err := r.NewRound(ctx, n); err != nil {
		return err
	}
	r.Rand = rand.New(rand.NewPCG(r.Seed, uint64(n)<<32))
	r.End = new(audit.Ending)
	r.End.MayBeGone.Store(true) // any connection may break; clients then reconnect to another node
	r.End.ComesBack.Store(true)
	if faults[name].quiet {
		if err := faults[name].inject(r, ctx, leader); err != nil {
			return err
		}
	}
	stop := make(chan struct{})
	r.At.Patience = patience
	clients := r.Trade(n, r.Clients, r.Seed, stop)
	r.At.Patience = checkPatience
	err = r.letTrade(ctx)
	if err == nil && !faults[name].quiet {
		r.Listen()
		err = faults[name].inject(r, ctx, leader)
	}
	if err == nil {
		err = r.letGoOn(ctx) // this ends the measured silence
	}
	if err == nil && !faults[name].quiet {
		err = r.report.gap(r, name)
	}
	err = errors.Join(err, r.mend(ctx))
	close(stop)
	clients.Wait()
	if err != nil {
		return err
	}
	r.NoRoom(false)
	if wrong := r.Complaints(); len(wrong) > 0 {
		return fmt.Errorf("a client saw: %s", wrong[0])
	}
	return r.check(ctx)
}

// letTrade waits for a random number of answers, or for Load.
func (r *runner) letTrade(ctx context.Context) error {
	enough, end := r.Answered()+int64(50+r.Rand.IntN(2000)), time.Now().Add(r.Load)
	return r.await(ctx, "trading", r.Load, func() (bool, error) {
		return r.Answered() >= enough || time.Now().After(end), nil
	})
}

// letGoOn waits until clients have answers again.
func (r *runner) letGoOn(ctx context.Context) error {
	enough := r.Answered() + goesOn
	return r.await(ctx, "trading continues", 0, func() (bool, error) { return r.Answered() >= enough, nil })
}

// await polls until done returns true. It returns done's error, or an error if a client saw a violation
// or the wait exceeded takes by far.
func (r *runner) await(ctx context.Context, what string, takes time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, takes+agreeTimeout)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if wrong := r.Complaints(); len(wrong) > 0 {
			return fmt.Errorf("before %s, a client saw: %s", what, wrong[0])
		}
		if err := wait(ctx, poll); err != nil {
			return fmt.Errorf("it does not come to this: %s: %w\n%s", what, err, r.logTails())
		}
	}
}

// mend heals the network, unfreezes everything, and starts the nodes that have ended.
func (r *runner) mend(ctx context.Context) error {
	err := r.machines.Heal()
	for _, n := range r.nodes {
		err = errors.Join(err, n.mend(ctx))
	}
	return err
}

// stopAll stops every node in order, standbys first, and checks that all tables are complete and have the
// same digest.
func (r *runner) stopAll(ctx context.Context) error {
	leader, err := r.awaitLeader(ctx)
	if err != nil {
		return err
	}
	order := slices.DeleteFunc(slices.Clone(r.nodes), func(n *node) bool { return n == leader })
	digests := map[string]bool{}
	for _, n := range append(order, leader) {
		if err := n.stop(ctx); err != nil {
			return err
		}
	}
	for _, n := range r.nodes {
		digest, err := n.verify(ctx, r.client)
		if err != nil {
			return err
		}
		digests[digest] = true
	}
	if len(digests) != 1 {
		return fmt.Errorf("the nodes have %d digests after an orderly stop: %v", len(digests), digests)
	}
	r.report.Verified += nodes
	return nil
}

// endReaders stops the readers of books and feeds, if any, and records their counts.
func (r *runner) endReaders() {
	if r.readers != nil {
		r.readers.Stop()
		counts := r.readers.Counts()
		r.report.Books = &counts
	}
}

func (r *runner) cleanUp() error {
	r.endReaders()
	var err error
	for _, n := range r.nodes {
		err = errors.Join(err, n.end())
	}
	if r.machines != nil {
		r.machines.Close()
	}
	return err
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
