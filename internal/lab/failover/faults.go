package failover

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fault is one way to break a cluster. Unless it says otherwise, mend repairs the damage only after
// clients have answers again.
type fault struct {
	about  string
	judged bool // the longest time without an answer is judged
	quiet  bool // clients trade only afterwards, since a query that waits for a majority would block them
	inject func(r *runner, ctx context.Context, leader *node) error
}

// faults are all faults that a plan may name.
var faults map[string]fault

func init() {
	faults = map[string]fault{
		"kill-leader":    {"kill -9 of the leader", true, false, killLeader},
		"kill-standby":   {"kill -9 of a standby", true, false, killStandby},
		"kill-all":       {"kill -9 of all nodes at once", false, false, killAll},
		"stop-all":       {"SIGTERM to all nodes at once: each ends within its stop timeout", false, false, stopAll},
		"freeze-leader":  {"SIGSTOP of the leader for 0.2 to 10 seconds, then SIGCONT", true, false, freezeLeader},
		"freeze-both":    {"SIGSTOP of both standbys: no query is answered until they resume", false, true, freezeBoth},
		"freeze-trading": {"the same while clients trade: no order is answered", false, false, freezeTrading},
		"alone":          {"the leader sees no other node", true, false, alone},
		"sees-one":       {"the leader sees one other node, which sees both", true, false, seesOne},
		"one-way":        {"packets of the leader to the others are lost, not theirs to it", true, false, oneWay},
		"flapping":       {"a standby's link goes down and up repeatedly", true, false, flapping},
		"postgres-away": {"the Postgres of the next leader is frozen during a failover",
			true, false, postgresAway},
		"hang-leader":  {"the leader's disk hangs for 2 to 5 seconds", true, false, hangLeader},
		"hang-standby": {"a standby's disk hangs for 2 to 5 seconds", true, false, hangStandby},
		"full-leader":  {"the leader's disk is full", true, false, fullLeader},
		"full-standby": {"a standby's disk is full", true, false, fullStandby},
		"stale": {
			"the leader is frozen while an order is queried, and resumes after a new leader has changed the order",
			false,
			true,
			stale,
		},
		"lose-disk": {"a standby loses its disk: it is refused, and replaced while clients trade",
			true, false, loseDisk},
		"lose-kill": {"the same, and the leader is killed while the new one learns", true, false, loseKill},
		"flip-byte": {"a byte of a standby's logs is flipped: it does not start, and is replaced",
			true, false, flipByte},
		"remove-add": {"a standby is removed and added again while clients trade", true, false, removeAdd},
		"upgrade":    {"each node is stopped in order and started again, the leader last", true, false, upgrade},
	}
}

// Faults returns a description of each fault, by name.
func Faults() map[string]string {
	all := map[string]string{}
	for name, f := range faults {
		all[name] = f.about
	}
	return all
}

// ParsePlan parses rounds of faults, such as "kill-leader=8,alone=2". The error names the wrong part.
func ParsePlan(plan string) (map[string]int, error) {
	rounds := map[string]int{}
	for part := range strings.SplitSeq(plan, ",") {
		name, count, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		if _, known := faults[name]; !known || err != nil || n < 0 {
			return nil, fmt.Errorf("failover: %q is not fault=rounds", part)
		}
		rounds[name] += n
	}
	return rounds, nil
}

// schedule returns the rounds in random order.
func schedule(plan map[string]int, r *rand.Rand) (rounds []string) {
	for _, name := range slices.Sorted(maps.Keys(plan)) {
		rounds = append(rounds, slices.Repeat([]string{name}, plan[name])...)
	}
	r.Shuffle(len(rounds), func(i, j int) { rounds[i], rounds[j] = rounds[j], rounds[i] })
	return rounds
}

// standbys returns all nodes except the leader, in random order.
func (r *runner) standbys(leader *node) []*node {
	others := slices.DeleteFunc(slices.Clone(r.nodes), func(n *node) bool { return n == leader })
	r.Rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return others
}

// between returns a random duration.
func (r *runner) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.Rand.Int64N(int64(most-least)))
}

func killLeader(_ *runner, _ context.Context, leader *node) error {
	leader.kill()
	return nil
}

func killStandby(r *runner, _ context.Context, leader *node) error {
	r.standbys(leader)[0].kill()
	return nil
}

func killAll(r *runner, ctx context.Context, _ *node) error {
	for _, n := range r.nodes {
		if err := n.signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	return r.mendGone(ctx)
}

// mendGone starts every node again after its process has ended.
func (r *runner) mendGone(ctx context.Context) error {
	err := r.await(ctx, "all nodes are gone", 0, func() (bool, error) {
		return !slices.ContainsFunc(r.nodes, func(n *node) bool { return !n.server.Gone() }), nil
	})
	if err != nil {
		return err
	}
	return r.mend(ctx)
}

func stopAll(r *runner, ctx context.Context, _ *node) error {
	for _, n := range r.nodes {
		if err := n.signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	return r.mendGone(ctx)
}

func freezeLeader(r *runner, ctx context.Context, leader *node) error {
	leader.freeze()
	if err := wait(ctx, r.between(200*time.Millisecond, 10*time.Second)); err != nil {
		return err
	}
	return leader.mend(ctx)
}

func alone(r *runner, ctx context.Context, leader *node) error {
	for _, n := range r.standbys(leader) {
		if err := r.machines.Part(leader.number, n.number); err != nil {
			return err
		}
	}
	return r.stay(ctx)
}

// stay waits for a while, during which the network stays broken and clients may continue.
func (r *runner) stay(ctx context.Context) error {
	return wait(ctx, r.between(500*time.Millisecond, 3*time.Second))
}

func seesOne(r *runner, ctx context.Context, leader *node) error {
	if err := r.machines.Part(leader.number, r.standbys(leader)[0].number); err != nil {
		return err
	}
	return r.stay(ctx)
}

func oneWay(r *runner, ctx context.Context, leader *node) error {
	for _, n := range r.standbys(leader) {
		if err := r.machines.Cut(leader.number, n.number); err != nil {
			return err
		}
	}
	return r.stay(ctx)
}

func flapping(r *runner, ctx context.Context, leader *node) error {
	flaps := r.standbys(leader)[0]
	for range 10 {
		for _, n := range r.nodes {
			if n != flaps {
				if err := r.machines.Part(n.number, flaps.number); err != nil {
					return err
				}
			}
		}
		if err := wait(ctx, r.between(50*time.Millisecond, 500*time.Millisecond)); err != nil {
			return err
		}
		if err := r.machines.Heal(); err != nil {
			return err
		}
		if err := wait(ctx, r.between(50*time.Millisecond, 500*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// postgresAway freezes the databases of both standbys, one of which must take over.
func postgresAway(r *runner, ctx context.Context, leader *node) error {
	for _, n := range r.standbys(leader) {
		defer n.pg.Freeze()()
	}
	leader.kill()
	return r.letGoOn(ctx)
}

func upgrade(r *runner, ctx context.Context, leader *node) error {
	for _, n := range append(r.standbys(leader), leader) {
		if err := n.stop(ctx); err != nil {
			return err
		}
		if err := n.start(); err != nil {
			return err
		}
		if err := r.upToDate(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// upToDate waits until a node follows or leads again.
func (r *runner) upToDate(ctx context.Context, n *node) error {
	return r.await(ctx, "a node that was started again follows", 0, func() (bool, error) {
		v, err := n.look(ctx)
		return err == nil && (v.Role == "standby" || v.Role == leads), nil
	})
}

// hang makes a node's disk hang, and returns when the disk works again.
func (r *runner) hang(ctx context.Context, n *node) error {
	done, err := n.disk.Hang(r.between(2*time.Second, 5*time.Second))
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

func hangLeader(r *runner, ctx context.Context, leader *node) error { return r.hang(ctx, leader) }

func hangStandby(r *runner, ctx context.Context, leader *node) error {
	return r.hang(ctx, r.standbys(leader)[0])
}

func fullLeader(r *runner, ctx context.Context, leader *node) error {
	r.NoRoom(true) // until it has handed over the leadership
	if err := leader.disk.Fill(); err != nil {
		return err
	}
	return r.stay(ctx)
}

func fullStandby(r *runner, ctx context.Context, leader *node) error {
	if err := r.standbys(leader)[0].disk.Fill(); err != nil {
		return err
	}
	return r.stay(ctx)
}
