package torture

import (
	"context"
	"slices"
	"syscall"
	"time"
)

// clusterFaults are all faults that a plan of Cluster may name. mend repairs the damage that a fault does not
// repair itself, once clients have answers again.
var clusterFaults = []fault[*cluster]{
	{name: "kill-leader", short: 2, long: 200,
		about: "kill -9 of the leader", judged: true, inject: (*cluster).killLeader},
	{name: "kill-standby", long: 20, about: "kill -9 of a standby", judged: true, inject: (*cluster).killStandby},
	{name: "kill-all", short: 1, long: 10, about: "kill -9 of all nodes at once", inject: (*cluster).killAll},
	{name: "stop-all", long: 10, about: "SIGTERM to all nodes at once: each ends within its stop timeout",
		inject: (*cluster).stopAll},
	{name: "freeze-leader", short: 1, long: 100, about: "SIGSTOP of the leader for 0.2 to 10 seconds, then SIGCONT",
		judged: true, inject: (*cluster).freezeLeader},
	{name: "freeze-both", short: 1, long: 10, about: "SIGSTOP of both standbys: no query is answered until they resume",
		quiet: true, inject: (*cluster).freezeBoth},
	{name: "freeze-trading", short: 1, long: 5, about: "the same while clients trade: no order is answered",
		inject: (*cluster).freezeTrading},
	{name: "alone", short: 1, long: 20, about: "the leader sees no other node", judged: true, inject: (*cluster).alone},
	{name: "sees-one", long: 20, about: "the leader sees one other node, which sees both",
		judged: true, inject: (*cluster).seesOne},
	{name: "one-way", short: 1, long: 20, about: "packets from the leader to the others are lost, but not those to it",
		judged: true, inject: (*cluster).oneWay},
	{name: "flapping", short: 1, long: 10, about: "a standby's link goes down and up repeatedly",
		judged: true, inject: (*cluster).flapping},
	{name: "postgres-away", short: 1, long: 10, about: "the Postgres of the next leader is frozen during a failover",
		judged: true, inject: (*cluster).postgresAway},
	{name: "hang-leader", short: 1, long: 10, about: "the leader's disk hangs for 2 to 5 seconds",
		judged: true, inject: (*cluster).hangLeader},
	{name: "hang-standby", long: 5, about: "a standby's disk hangs for 2 to 5 seconds",
		judged: true, inject: (*cluster).hangStandby},
	{name: "full-leader", short: 1, long: 10,
		about: "the leader's disk is full", judged: true, inject: (*cluster).fullLeader},
	{name: "full-standby", long: 5, about: "a standby's disk is full", judged: true, inject: (*cluster).fullStandby},
	{name: "stale", short: 1, long: 20,
		about: "the leader is frozen while an order is queried, and resumes after a new leader has " +
			"changed the order", quiet: true, inject: (*cluster).stale},
	{name: "lose-disk", short: 1, long: 5,
		about:  "a standby loses its disk: it is refused, and replaced while clients trade",
		judged: true, inject: (*cluster).loseDisk},
	{name: "lose-kill", long: 10, about: "the same, and the leader is killed while the new one learns",
		judged: true, inject: (*cluster).loseKill},
	{name: "flip-byte", long: 5, about: "a byte of a standby's logs is flipped: it does not start, and is replaced",
		judged: true, inject: (*cluster).flipByte},
	{name: "remove-add", long: 5, about: "a standby is removed and added again while clients trade",
		judged: true, inject: (*cluster).removeAdd},
	{name: "upgrade", short: 1, long: 10, about: "each node is stopped in order and started again, the leader last",
		judged: true, inject: (*cluster).upgrade},
}

// standbys returns all nodes except the leader, in random order.
func (c *cluster) standbys() []*node {
	others := slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n == c.leader })
	c.Rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return others
}

func (c *cluster) killLeader(_ context.Context) error {
	c.leader.kill()
	return nil
}

func (c *cluster) killStandby(_ context.Context) error {
	c.standbys()[0].kill()
	return nil
}

func (c *cluster) killAll(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	return c.mendGone(ctx)
}

// mendGone starts every node again after its process has ended.
func (c *cluster) mendGone(ctx context.Context) error {
	err := c.await(ctx, "all nodes are gone", 0, func() (bool, error) {
		return !slices.ContainsFunc(c.nodes, func(n *node) bool { return !n.server.Gone() }), nil
	})
	if err != nil {
		return err
	}
	return c.heal(ctx)
}

func (c *cluster) stopAll(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	return c.mendGone(ctx)
}

func (c *cluster) freezeLeader(ctx context.Context) error {
	c.leader.freeze()
	if err := wait(ctx, c.between(200*time.Millisecond, 10*time.Second)); err != nil {
		return err
	}
	return c.leader.mend(ctx)
}

func (c *cluster) alone(ctx context.Context) error {
	for _, n := range c.standbys() {
		if err := c.machines.Part(c.leader.number, n.number); err != nil {
			return err
		}
	}
	return c.stay(ctx)
}

// stay waits for a while, in which the damage is not repaired and clients may continue.
func (c *cluster) stay(ctx context.Context) error {
	return wait(ctx, c.between(500*time.Millisecond, 3*time.Second))
}

func (c *cluster) seesOne(ctx context.Context) error {
	if err := c.machines.Part(c.leader.number, c.standbys()[0].number); err != nil {
		return err
	}
	return c.stay(ctx)
}

func (c *cluster) oneWay(ctx context.Context) error {
	for _, n := range c.standbys() {
		if err := c.machines.Cut(c.leader.number, n.number); err != nil {
			return err
		}
	}
	return c.stay(ctx)
}

func (c *cluster) flapping(ctx context.Context) error {
	flaps := c.standbys()[0]
	for range 10 {
		for _, n := range c.nodes {
			if n != flaps {
				if err := c.machines.Part(n.number, flaps.number); err != nil {
					return err
				}
			}
		}
		if err := wait(ctx, c.between(50*time.Millisecond, 500*time.Millisecond)); err != nil {
			return err
		}
		if err := c.machines.Heal(); err != nil {
			return err
		}
		if err := wait(ctx, c.between(50*time.Millisecond, 500*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// postgresAway freezes the databases of both standbys, one of which must take over.
func (c *cluster) postgresAway(ctx context.Context) error {
	for _, n := range c.standbys() {
		defer n.pg.Freeze()()
	}
	c.leader.kill()
	return c.awaitAnswers(ctx, resumedAnswers)
}

func (c *cluster) upgrade(ctx context.Context) error {
	for _, n := range append(c.standbys(), c.leader) {
		if err := n.stop(ctx); err != nil {
			return err
		}
		if err := n.start(); err != nil {
			return err
		}
		if err := c.upToDate(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// upToDate waits until a node follows or leads again.
func (c *cluster) upToDate(ctx context.Context, n *node) error {
	return c.await(ctx, "a node that was started again follows", 0, func() (bool, error) {
		v, err := n.look(ctx)
		return err == nil && (v.Role == "standby" || v.Role == leads), nil
	})
}

// hang makes a node's disk hang, and returns when the disk works again.
func (c *cluster) hang(ctx context.Context, n *node) error {
	done, err := n.disk.Hang(c.between(2*time.Second, 5*time.Second))
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cluster) hangLeader(ctx context.Context) error { return c.hang(ctx, c.leader) }

func (c *cluster) hangStandby(ctx context.Context) error {
	return c.hang(ctx, c.standbys()[0])
}

func (c *cluster) fullLeader(ctx context.Context) error {
	c.NoRoom(true) // until the node has handed over the leadership
	if err := c.leader.disk.Fill(); err != nil {
		return err
	}
	return c.stay(ctx)
}

func (c *cluster) fullStandby(ctx context.Context) error {
	if err := c.standbys()[0].disk.Fill(); err != nil {
		return err
	}
	return c.stay(ctx)
}
