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
	// transferWait is how long a transfer may take until it is asked for again: Raft gives one
	// up after an election time.
	transferWait = 600 * time.Millisecond
	// founderFor is how long a node counts as one that founds a cluster. It calls every few seconds.
	founderFor = 15 * time.Second
	// transferPauseMax bounds how long a leader that is not fit waits until it tries again to
	// hand over: twice as long each time.
	transferPauseMax = 10 * time.Second
)

// MayCampaign says whether this node may become the leader, as far as its owner knows: false
// at first. A node that leads and may not hands over. It never leads twice.
func (r *Replica) MayCampaign(may bool) {
	r.tell(func(in *inbox) { in.may = may })
}

// Transfer hands the leadership over to a voter, or to the furthest fit one if to is 0. It
// returns nil once this node leads no more. Whoever proposes should have stopped: what is
// appended meanwhile may be lost. The error is ErrNotLeading if it did not lead, core's if
// nobody else can, what ended the replica, or ctx's: it may yet come to that then.
func (r *Replica) Transfer(ctx context.Context, to uint64) error {
	for {
		err := r.do(ctx, func() error {
			switch {
			case r.loop.was:
				return nil
			case !r.loop.leads:
				return ErrNotLeading
			}
			err := r.node.Transfer(to)
			r.loop.asked = r.loop.asked || err == nil
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

// Change asks the cluster for another member, one at a time, and returns once the leader's log
// has it proposed; Status shows when it has come to be. The error is core's (core.ErrNotLeading
// on another node), ctx's, or that of Err, or names an address that nobody could use.
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

// MayAdd returns why a new member would be of no use: no node could reach it at its address, which
// is every node's once the log has it, or it was not started with --join. nil if nothing is known.
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
			return fmt.Errorf("replica: %s is the address of node %d already", m.Address, p.ID)
		}
	}
	return r.options.TLS.RefuseOpen(map[uint64]string{m.ID: m.Address})
}

// Break says that the history of this node is not that of its cluster: it has to stay down.
// The file BROKEN gets the reason. It is for those who find that out later than the replica:
// by comparing fills or digests.
func (r *Replica) Break(reason error) { r.fail(&BrokenError{reason}) }

// Backup has a peer write a backup to w, and Ask has it answer a request, as its owner does
// (Options.Backup, Options.Ask). The errors are those of peers.Net.
func (r *Replica) Backup(ctx context.Context, peer uint64, w io.Writer) error {
	return r.net.Backup(ctx, peer, w)
}

// Ask has a peer answer a request; see Backup.
func (r *Replica) Ask(ctx context.Context, peer uint64, request []byte) ([]byte, error) {
	return r.net.Ask(ctx, peer, request)
}

// Links returns how the connections with peers are doing.
func (r *Replica) Links() peers.Stats { return r.net.Stats() }

// hello returns what this node says of itself.
func (r *Replica) hello() peers.Hello {
	h := r.options.Hello
	h.Node, h.Self = r.options.Node, r.self
	h.Cluster, h.Founders = r.state.now.Load().Cluster, ""
	if h.Cluster == (core.Identity{}) {
		h.Founders = numbers(r.state.now.Load().Members)
	}
	return h
}

// numbers names the nodes of a list.
func numbers(members []core.Peer) string {
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = strconv.FormatUint(m.ID, 10)
	}
	return strings.Join(all, ",")
}

// refuseFounder returns why a node must not meet this one: it would found a cluster, and this
// node's exists without it. It was to join, also as a learner that was never heard: joins remembers it.
func (r *Replica) refuseFounder(s *core.Status, h *peers.Hello) error {
	member := func(m core.Peer) bool { // that has founded this one, and does not know it yet
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
	lost := func(m core.Peer) bool { // of which core.Node.Heard says more
		return m.ID == h.Node && m.Identity != core.Identity{}
	}
	if !founds || slices.ContainsFunc(s.Members, lost) {
		return nil
	}
	return fmt.Errorf("%w: node %d founds one of the nodes %s, and is no member of the one of node %d: "+
		"begin with an empty directory and --join", peers.ErrCluster, h.Node, h.Founders, r.options.Node)
}

// joins returns an error if a node was heard lately that founds a cluster, and cannot join this one.
func (r *Replica) joins(id uint64) error {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	if at, founds := r.state.founders[id]; founds && time.Since(at) < founderFor {
		return fmt.Errorf("replica: node %d was not started with --join: stop it, and start it with --join and an empty "+
			"directory", id)
	}
	return nil
}

// onHello judges the hello of a peer. The first identity of a number counts; the node has it
// written before it counts a vote.
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
		now := r.node.Status() // a member may be another one since the last tick
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

// onUnreachable tells the node that what was sent to a peer last may be lost.
func (r *Replica) onUnreachable(peer uint64) {
	r.tell(func(in *inbox) { in.miss(peer) })
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
