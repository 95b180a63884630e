package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// leads is the role of a leader in GET /api/v1/cluster.
const leads = "leader"

// leadsFor is how long a node must lead before it counts as the leader, since nodes that start or recover may hold
// another election.
const leadsFor = time.Second

// awaitLeader waits until a node has led and accepted orders for leadsFor, and returns it.
func (c *cluster) awaitLeader(ctx context.Context) (leader *node, err error) {
	var term uint64
	var since time.Time
	err = c.await(ctx, "a leader", 0, func() (bool, error) {
		for _, n := range c.nodes {
			if v, err := n.look(ctx); err == nil && v.Role == leads {
				if status, _, err := n.server.Ask(ctx, "GET", "/readyz", "", ""); err == nil && status == 200 {
					if n != leader || v.Term != term {
						leader, term, since = n, v.Term, time.Now()
					}
					return time.Since(since) >= leadsFor, nil
				}
			}
		}
		return false, nil
	})
	return leader, err
}

// checks compare what clients know with every node. All nodes must be healthy, and no client may be trading.
func (c *cluster) checks() []check {
	again := func(do func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error { return c.again(ctx, do) }
	}
	return []check{
		{"leader", func(ctx context.Context) error { _, err := c.awaitLeader(ctx); return err }},
		{"commands sent again", again(c.RetryAll)},
		{"orders without an answer", again(c.Settle)},
		{"digests", c.agree},
		{"tables", c.checkTables},
		{"answers", c.CheckAnswers},
		{"views", c.CheckViews},
		{"linearizability", func(context.Context) error { return c.CheckLinear() }},
	}
}

// checkTables checks the tables of a random node, and compares the readers of books and feeds with them.
func (c *cluster) checkTables(ctx context.Context) error {
	of := c.nodes[c.Rand.IntN(len(c.nodes))]
	db, err := of.tables(ctx)
	if err == nil {
		err = c.CheckTables(ctx, db)
	}
	if err != nil {
		return fmt.Errorf("node %d: %w", of.number, err)
	}
	if c.readers != nil {
		return c.readers.Check(ctx, db)
	}
	return nil
}

// again repeats do until it succeeds, since it may fail because the leader changes.
func (c *cluster) again(ctx context.Context, do func(context.Context) error) (err error) {
	waitErr := c.await(ctx, "answers to repeated commands", 0, func() (bool, error) {
		err = do(ctx)
		return err == nil || len(c.Complaints()) > 0, nil
	})
	return errors.Join(err, waitErr)
}

// agree waits until every node has the same records in its journal and its tables, and compares their
// digests.
func (c *cluster) agree(ctx context.Context) error {
	var last string
	err := c.await(ctx, "all nodes have the same", 0, func() (bool, error) {
		seqs, digests := map[uint64]bool{}, map[string]bool{}
		last = ""
		for _, n := range c.nodes {
			v, err := n.look(ctx)
			if err != nil {
				last += fmt.Sprintf("node %d: %v\n", n.number, err)
				return false, nil
			}
			lag, err := n.server.Metric(ctx, "outcry_postgres_lag_records")
			last += fmt.Sprintf("node %d: %+v, Postgres lacks %v records (%v)\n", n.number, v, lag, err)
			if err != nil || lag != 0 || v.DigestSeq != v.Seq || v.Digest == "" {
				return false, nil
			}
			seqs[v.Seq] = true
			digests[v.Digest] = true
		}
		if len(seqs) == 1 && len(digests) != 1 {
			return false, fmt.Errorf("the digests differ:\n%s", last)
		}
		return len(seqs) == 1, nil
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, last)
	}
	c.report.Agreed++
	return nil
}

// logTails returns the last lines of all logs.
func (c *cluster) logTails() string {
	var all []string
	for _, n := range c.nodes {
		if n.server != nil {
			all = append(all, fmt.Sprintf("node %d:\n%s", n.number, n.server.LogTail()))
		}
	}
	return strings.Join(all, "\n")
}
