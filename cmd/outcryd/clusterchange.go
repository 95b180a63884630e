package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"outcry/internal/door/admin"
	"outcry/internal/operate/remote"
	"outcry/internal/replica"
	"outcry/internal/replica/core"
)

// changes implements the changes that operators make to the cluster of a node.
type changes struct{ member *member }

// changePoll is how often a change is retried while another one is in progress.
const changePoll = 20 * time.Millisecond

// members returns the changes that operators can make to the cluster, or nil for a server alone.
func (s *server) members() admin.Members {
	if s.member == nil {
		return nil
	}
	return changes{s.member}
}

// do runs a change on the replica. The error is remote.ErrNotLeading if this node does not lead.
func (c changes) do(what func(r *replica.Replica) error) error {
	r := c.member.replica.Load()
	if r == nil {
		return remote.ErrNotLeading
	}
	err := what(r)
	if errors.Is(err, core.ErrNotLeading) || errors.Is(err, replica.ErrNotLeading) {
		return fmt.Errorf("%w: %s", remote.ErrNotLeading, c.member.server.why())
	}
	return err
}

// drainTimeout bounds how long clients have to receive the replies to what they have sent before the
// leadership is transferred. Connections that are still open then are cut off.
const drainTimeout = 5 * time.Second

// askTimeout bounds how long another node may take to answer whether it can lead.
const askTimeout = time.Second

// Transfer implements admin.Members. Raft drops proposals during a transfer, so all commands that clients
// have sent are finished first. That closes the XML port, so a leader whose transfer fails restarts its
// process.
func (c changes) Transfer(ctx context.Context, node uint64) error {
	s := c.member.server
	return c.do(func(r *replica.Replica) error {
		status := r.Status()
		if status.Role != core.Leader || node == status.Node {
			return r.Transfer(ctx, node)
		}
		node, err := c.member.relief(ctx, status.Peers, node)
		if err != nil {
			return err
		}
		c.member.asked.Store(true)
		draining, cancel := context.WithTimeout(ctx, drainTimeout)
		defer cancel()
		if s.started() == nil {
			s.endClients(draining)
		}
		ctx, cancel := context.WithTimeout(ctx, transferTimeout)
		defer cancel()
		if err = r.Transfer(ctx, node); err != nil {
			s.ended <- errDeposed
		}
		return err
	})
}

// relief returns the node that is to take over the leadership: the given node, or for 0 the voter with the
// longest log that can lead. It asks the node whether it can lead before clients are disconnected. The
// error says why no node can.
func (m *member) relief(ctx context.Context, peers []replica.Peer, node uint64) (uint64, error) {
	self := m.replica.Load().Status().Node
	if err := active(peers, self, node); err != nil {
		return 0, err
	}
	peers = slices.Clone(peers)
	slices.SortStableFunc(peers, func(a, b replica.Peer) int { return cmp.Compare(b.Match, a.Match) })
	var why error
	for _, p := range peers {
		if p.ID == node || node == 0 && active(peers, self, p.ID) == nil {
			err := m.askMayLead(ctx, p.ID)
			if err == nil {
				return p.ID, nil
			}
			why = errors.Join(why, err)
		}
	}
	return 0, why
}

// askMayLead asks another node whether it can lead, and returns its reason if it cannot.
func (m *member) askMayLead(ctx context.Context, node uint64) error {
	request, err := json.Marshal(digestRequest{MayLead: true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := m.replica.Load().Ask(ctx, node, request)
	if err != nil {
		return fmt.Errorf("node %d does not report that it can lead: %w", node, err)
	}
	var why string
	if json.Unmarshal(answer, &why) == nil && why != "" { // an older version answers with its digests
		return fmt.Errorf("node %d cannot lead now: %s", node, why)
	}
	return nil
}

// unable returns why this node cannot lead, or "" if it can.
func (m *member) unable() string {
	if !m.loaded.Load() {
		return "it is starting"
	}
	switch unfit := m.replica.Load().Status().Unfit; {
	case unfit != nil:
		return unfit.Error()
	case !m.fit.Load():
		return "its Postgres is too far behind"
	}
	return ""
}

// active returns an error unless the given node, or any other node for 0, is a voter that has answered
// lately.
func active(peers []replica.Peer, self, node uint64) error {
	for _, p := range peers {
		if p.ID != self && (p.ID == node || node == 0) && !p.Learner && p.Active {
			return nil
		}
	}
	if node == 0 {
		return errors.New("no other voting node has answered lately")
	}
	return fmt.Errorf("node %d is not a voter that has answered lately", node)
}

// Add implements admin.Members.
func (c changes) Add(ctx context.Context, node uint64, address string) error {
	return c.change(ctx, core.MemberChange{Add: []core.Member{{ID: node, Address: address}}})
}

// Promote implements admin.Members.
func (c changes) Promote(ctx context.Context, node uint64) error {
	err := c.change(ctx, core.MemberChange{Promote: []uint64{node}})
	if r := c.member.replica.Load(); err != nil && r != nil && ctx.Err() == nil {
		if why := r.Unreached(node); why != "" {
			err = fmt.Errorf("%w; it cannot be reached: %s", err, why)
		}
	}
	return err
}

// Remove implements admin.Members.
func (c changes) Remove(ctx context.Context, node uint64) error {
	return c.change(ctx, core.MemberChange{Remove: []uint64{node}})
}

// Replace implements admin.Members. If an earlier call removed the node but did not add it, a repeated call
// adds it.
func (c changes) Replace(ctx context.Context, node uint64, address string) error {
	r := c.member.replica.Load()
	if r == nil {
		return remote.ErrNotLeading
	}
	status := r.Status()
	if node == status.Node && status.Role == core.Leader {
		return fmt.Errorf("node %d leads, so it has not lost its disk; run outcry cluster transfer, and stop it first", node)
	}
	for _, p := range status.Peers {
		if p.ID != node || !p.Known {
			continue
		}
		if address == "" {
			address = p.Address
		}
		err := r.MayAdd(core.Member{ID: node, Address: address})
		if err == nil { // checked before the node is removed
			err = quiet(ctx, r, node)
		}
		if err != nil {
			return err
		}
		if err := c.Remove(ctx, node); err != nil {
			return err
		}
	}
	if address == "" {
		return fmt.Errorf("node %d is not a member, and no address is given", node)
	}
	return c.Add(ctx, node, address)
}

// quietWait is how long to wait for a node that is to be replaced to stop answering. A node that has
// stopped still counts as active for a second.
const quietWait = 3 * time.Second

// quiet waits until a member no longer answers. It returns an error if the member still answers after
// quietWait: such a node has not lost its disk, and its data would be discarded.
func quiet(ctx context.Context, r *replica.Replica, node uint64) error {
	for deadline := time.Now().Add(quietWait); ; {
		if active(r.Status().Peers, 0, node) != nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node %d votes and answers; only a node that is broken or has lost its disk is replaced. Stop it "+
				"first; or remove it with outcry cluster remove %d", node, node)
		}
		select {
		case <-time.After(changePoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// change requests a membership change and retries it while another change is in progress.
func (c changes) change(ctx context.Context, change core.MemberChange) error {
	return c.do(func(r *replica.Replica) error {
		for {
			err := r.Change(ctx, change)
			if !errors.Is(err, core.ErrChanging) {
				return err
			}
			select {
			case <-time.After(changePoll):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}
