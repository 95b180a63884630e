package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/replica/core"
	"outcry/internal/replica/peers"
)

const (
	// helloWait is how long the hello of a peer may wait for the loop.
	helloWait = time.Second
	// transferWait is how long a transfer may take until it is requested again. Raft abandons one
	// after an election timeout.
	transferWait = 600 * time.Millisecond
	// founderFor is how long a node counts as founding its own cluster after its last hello. Such a node connects every
	// few seconds.
	founderFor = 15 * time.Second
	// transferPauseMax limits the pause between attempts of an unfit leader to transfer the
	// leadership. The pause doubles each time.
	transferPauseMax = 10 * time.Second
)

// MayCampaign sets whether the owner allows this node to become the leader; at first it does not. A
// leader that may not campaign transfers the leadership. A node that has led once never campaigns
// again.
func (r *Replica) MayCampaign(may bool) {
	r.update(func(in *inbox) { in.may = may })
}

// Transfer transfers the leadership to the voter to, or to the fit voter with the most entries if
// to is 0. It returns nil once this node no longer leads. Callers should stop proposing first,
// since records appended during the transfer may be lost. The error is ErrNotLeading if this node
// did not lead, core's if no other node can lead, the error that stopped the replica, or ctx's.
// After an error of ctx the transfer may still happen.
func (r *Replica) Transfer(ctx context.Context, to uint64) error {
	for {
		err := r.do(ctx, func() error {
			switch {
			case r.loop.hasLed:
				return nil
			case !r.loop.leads:
				return ErrNotLeading
			}
			err := r.node.Transfer(to)
			r.loop.transferring = r.loop.transferring || err == nil
			return err
		})
		if err != nil {
			return err
		}
		select {
		case <-r.deposed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(transferWait):
		}
	}
}

// Change requests a membership change, one at a time, and returns once the leader has proposed it.
// Status shows when it has taken effect. The error is core's (core.ErrNotLeading on another node),
// ctx's, that of Err, or one about an unusable address.
func (r *Replica) Change(ctx context.Context, c core.MemberChange) error {
	return r.do(ctx, func() error {
		for _, m := range c.Add {
			if err := r.MayAdd(m); err != nil {
				return err
			}
		}
		for _, id := range c.Promote {
			if err := errors.Join(r.joins(id), r.mayVote(id)); err != nil {
				return err
			}
		}
		return r.node.Change(c)
	})
}

// MayAdd returns an error if adding the member would be useless: its address is invalid or used by
// another node, or it was not started with --join. Every node uses the address once it is in the
// log.
func (r *Replica) MayAdd(m core.Member) error {
	if err := r.joins(m.ID); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(m.Address)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || host == "" || n == 0 {
		return fmt.Errorf("replica: the address %.64q of node %d must be HOST:PORT", m.Address, m.ID)
	}
	for _, p := range r.state.now.Load().Members {
		if p.ID != m.ID && p.Address == m.Address {
			return fmt.Errorf("replica: %s is already the address of node %d", m.Address, p.ID)
		}
	}
	return r.options.TLS.RefuseOpen(map[uint64]string{m.ID: m.Address})
}

// Break marks this node as broken, since its history differs from its cluster's. It must stay down,
// and the file BROKEN records the reason. Callers have found the difference by comparing fills or
// digests.
func (r *Replica) Break(reason error) { r.fail(&BrokenError{reason}) }

// Backup makes a peer write a backup to w; see Options.Backup. The errors are those of peers.Net.
func (r *Replica) Backup(ctx context.Context, peer uint64, w io.Writer) error {
	return r.net.Backup(ctx, peer, w)
}

// Ask makes a peer answer a request; see Options.Ask. The errors are those of peers.Net.
func (r *Replica) Ask(ctx context.Context, peer uint64, request []byte) ([]byte, error) {
	return r.net.Ask(ctx, peer, request)
}

// Links returns statistics of the connections with peers.
func (r *Replica) Links() peers.Stats { return r.net.Stats() }

// hello returns the hello that this node sends.
func (r *Replica) hello() peers.Hello {
	h := r.options.Hello
	h.Node, h.Self = r.options.Node, r.self
	h.Cluster, h.Founders = r.state.now.Load().Cluster, ""
	if h.Cluster == (core.Identity{}) {
		h.Founders = numbers(r.state.now.Load().Members)
	}
	return h
}

// numbers returns the node numbers of members, separated by commas.
func numbers(members []core.Peer) string {
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = strconv.FormatUint(m.ID, 10)
	}
	return strings.Join(all, ",")
}

// refuseFounder returns an error if the peer founds a cluster of its own while this node's cluster
// exists without it. The peer should have been started with --join. This also applies to a learner
// that was never heard. joins uses the time recorded here.
func (r *Replica) refuseFounder(s *core.Status, h *peers.Hello) error {
	member := func(m core.Peer) bool { // founded this cluster, but does not know yet that it exists
		return m.ID == h.Node && (m.Identity == h.Self || !m.Learner && m.Identity == core.Identity{})
	}
	founds := h.Founders != "" && s.Cluster != (core.Identity{}) && !slices.ContainsFunc(s.Members, member)
	r.state.mu.Lock()
	if founds {
		r.state.founders[h.Node] = time.Now()
	} else {
		delete(r.state.founders, h.Node)
	}
	r.state.mu.Unlock()
	lost := func(m core.Peer) bool { // a known node with a lost disk; core.Node.Heard has a better error
		return m.ID == h.Node && m.Identity != core.Identity{}
	}
	if !founds || slices.ContainsFunc(s.Members, lost) {
		return nil
	}
	return fmt.Errorf("%w: node %d founds a cluster of the nodes %s, but is not a member of the cluster of node %d: "+
		"start it with an empty directory and --join", peers.ErrCluster, h.Node, h.Founders, r.options.Node)
}

// joins returns an error if a recent hello of the node says that it founds a cluster of its own.
func (r *Replica) joins(id uint64) error {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	if at, founds := r.state.founders[id]; founds && time.Since(at) < founderFor {
		return fmt.Errorf("replica: node %d was not started with --join: stop it, and start it with --join and an empty "+
			"directory", id)
	}
	return nil
}

// onHello checks the hello of a peer. The first identity heard for a number counts; the node writes
// it to disk before it counts a vote of that peer.
func (r *Replica) onHello(h peers.Hello) error {
	if err := r.hello().Refuse(h); err != nil {
		return err
	}
	status := r.state.now.Load()
	if err := r.refuseOlder(status, &h); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), helloWait)
	defer cancel()
	err := r.do(ctx, func() error {
		now := r.node.Status() // the members may have changed since the last tick
		if err := r.refuseFounder(&now, &h); err != nil {
			return err
		}
		return r.node.Heard(core.Member{ID: h.Node, Identity: h.Self, Address: r.state.peer[h.Node]}, h.Cluster)
	})
	if err != nil {
		return err
	}
	r.noteReader(&h)
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	r.state.hellos[h.Node] = h
	return nil
}

// onUnreachable reports to the node that the last messages to a peer may be lost.
func (r *Replica) onUnreachable(peer uint64) {
	r.update(func(in *inbox) { in.miss(peer) })
}

// send sends messages to their peers.
func (r *Replica) send(messages []*raftpb.Message) {
	for len(messages) > 0 {
		to, n := messages[0].GetTo(), 1
		for n < len(messages) && messages[n].GetTo() == to {
			n++
		}
		if !r.net.Send(to, messages[:n:n]) {
			r.onUnreachable(to)
		}
		messages = messages[n:]
	}
}
