package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/books"
	"outcry/internal/lab/harness"
)

// Cluster is a cluster of three nodes. Clients trade from outside, through the current leader.
var Cluster = &Kind{name: "failover", about: described(clusterFaults), plans: named(clusterFaults), planned: true,
	schedule: shuffled,
	command: func(o Options, plan string) string {
		return fmt.Sprintf("torture -cluster -seed %d -clients %d -load %s -down %s -books=%t -plan %s",
			o.Seed, o.Clients, o.Load, o.DownMax, o.Books, plan)
	},
	begin: func(r *run, random *rand.Rand) system {
		r.report.ClusterReport = &ClusterReport{Gaps: map[string][]float64{}}
		c := &cluster{run: r}
		r.Session = audit.NewSession(audit.Target{}, random, quietAccount)
		r.LinearPace, r.tradeMax, r.logTail = linearPace, 2000, c.logTails
		r.slack = func() time.Duration { return agreeTimeout }
		return c
	}}

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
	// resumedAnswers is the number of answers that prove that trading continues.
	resumedAnswers = 50

	// readersBreak is the mean time after which a reader of books and feeds reconnects.
	readersBreak = 3 * time.Second
)

// watched are the accounts of audit.Session whose private events are read: two that trade, and one with little cash.
var watched = []string{"1", "2", "101"}

// cluster is a cluster of three nodes.
type cluster struct {
	*run
	machines    *harness.Machines
	nodes       []*node         // by number
	leader      *node           // leader when the round began
	client      string          // path of outcry, used to verify
	quietOrders int             // orders that quietOrder has placed
	readers     *books.Watchers // nil without Books
}

// prepare builds the programs and starts the nodes.
func (c *cluster) prepare(ctx context.Context, root string) error {
	bin := filepath.Join(c.Dir, "bin")
	program, err := harness.Build(ctx, root, "./cmd/outcryd", bin, c.Edits...)
	if err != nil {
		return err
	}
	if c.client, err = harness.Build(ctx, root, "./cmd/outcry", bin, c.Edits...); err != nil {
		return err
	}
	if c.machines, err = harness.NewMachines(nodes); err != nil {
		return err
	}
	if err := c.certify(ctx, root); err != nil {
		return err
	}
	for number := 1; number <= nodes; number++ {
		n, err := c.newNode(ctx, number, program)
		if n != nil {
			c.nodes = append(c.nodes, n)
		}
		if err != nil {
			return err
		}
	}
	c.At = audit.Target{Addr: c.nodes[0].xml(), Patience: checkPatience}
	for _, n := range c.nodes[1:] {
		c.At.Others = append(c.At.Others, n.xml())
	}
	for _, n := range c.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	if _, err := c.awaitLeader(ctx); err != nil {
		return err
	}
	if err := c.OpenMarket(ctx); err != nil {
		return err
	}
	if c.Books {
		c.readers = books.Watch(ctx, books.Options{HTTP: c.http, Symbols: c.Symbols, Accounts: watched, Seed: c.Seed,
			Break: readersBreak})
	}
	return nil
}

// http returns the HTTP addresses of all nodes.
func (c *cluster) http() (all []string) {
	for _, n := range c.nodes {
		all = append(all, n.address+":"+httpPort)
	}
	return all
}

// round runs a round and returns a summary.
func (c *cluster) round(ctx context.Context, n int, name string) (summary string, err error) {
	before := c.Counts()
	err = tradedRound(ctx, c.run, c, n, find(clusterFaults, name))
	now := c.Counts()
	return fmt.Sprintf("%6d orders answered, %3d unknown; %.3f s without an answer", now.Answered-before.Answered,
		now.UnknownHappened+now.UnknownNever-before.UnknownHappened-before.UnknownNever, c.report.lastGap(name)), err
}

// arrange waits for a leader.
func (c *cluster) arrange(ctx context.Context, _ *fault[*cluster]) (err error) {
	c.leader, err = c.awaitLeader(ctx)
	c.End = new(audit.Ending)
	c.End.MayBeGone.Store(true) // any connection may break; clients then reconnect to another node
	c.End.ComesBack.Store(true)
	return err
}

func (c *cluster) trade(n int, stop <-chan struct{}) (wait func()) {
	c.At.Patience = patience
	clients := c.Trade(n, c.Clients, c.Seed, stop)
	c.At.Patience = checkPatience
	return clients.Wait
}

// mend lets clients trade again, which ends the measured silence, before it repairs the damage.
func (c *cluster) mend(ctx context.Context, f *fault[*cluster], injected error) error {
	err := injected
	if err == nil {
		err = c.awaitAnswers(ctx, resumedAnswers)
	}
	if err == nil && !f.quiet {
		err = c.judgeSilence(f)
	}
	return errors.Join(err, c.heal(ctx))
}

// judgeSilence records the longest time without an answer and judges it.
func (c *cluster) judgeSilence(f *fault[*cluster]) error {
	silence := c.LongestSilence()
	c.report.Gaps[f.name] = append(c.report.Gaps[f.name], silence.Seconds())
	if f.judged && c.DownMax > 0 && silence > c.DownMax {
		return fmt.Errorf("%.3f s without an answer, %s are allowed", silence.Seconds(), c.DownMax)
	}
	return nil
}

func (c *cluster) restore(context.Context, *fault[*cluster]) error {
	c.NoRoom(false)
	return nil
}

// heal heals the network, unfreezes everything, and starts the nodes that have ended.
func (c *cluster) heal(ctx context.Context) error {
	err := c.machines.Heal()
	for _, n := range c.nodes {
		err = errors.Join(err, n.mend(ctx))
	}
	return err
}

// finish stops every node in order, standbys first, and checks that all tables are complete and have the
// same digest.
func (c *cluster) finish(ctx context.Context) error {
	c.endReaders()
	leader, err := c.awaitLeader(ctx)
	if err != nil {
		return err
	}
	order := slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n == leader })
	digests := map[string]bool{}
	for _, n := range append(order, leader) {
		if err := n.stop(ctx); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		digest, err := n.verify(ctx, c.client)
		if err != nil {
			return err
		}
		digests[digest] = true
	}
	if len(digests) != 1 {
		return fmt.Errorf("the nodes have %d digests after an orderly stop: %v", len(digests), digests)
	}
	c.report.NodesVerified += nodes
	return nil
}

// endReaders stops the readers of books and feeds, if any, and records their counts.
func (c *cluster) endReaders() {
	if c.readers != nil {
		c.readers.Stop()
		counts := c.readers.Counts()
		c.report.Books = &counts
	}
}

func (c *cluster) cleanUp() error {
	c.endReaders()
	var err error
	for _, n := range c.nodes {
		err = errors.Join(err, n.end())
	}
	if c.machines != nil {
		c.machines.Close()
	}
	return err
}

func (c *cluster) remove() (err error) {
	for _, n := range c.nodes {
		err = errors.Join(err, harness.RemoveAll(n.postgresDir()))
	}
	return errors.Join(err, os.RemoveAll(c.Dir))
}
