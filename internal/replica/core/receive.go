package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// fromPeers are the messages that nodes send each other: all others are dropped.
var fromPeers = []raftpb.MessageType{
	raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
	raftpb.MsgSnap, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgTimeoutNow,
}

// fromLeaders are those that only a leader sends.
var fromLeaders = []raftpb.MessageType{raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap}

// Receive takes a message of a peer, which the node keeps. from is the identity that was
// Heard on its connection: another node under the same number may have sent something late.
// The message is dropped, as by a network, if that peer is not let in, if it is malformed, or
// if there is no room for its entries.
func (n *Node) Receive(from Identity, m *raftpb.Message) {
	n.run(func() {
		if from != n.letIn[m.GetFrom()] {
			return
		}
		if m.GetTo() != n.id || n.admitted(m.GetFrom()) == (Identity{}) && !n.asks(m) || !wellFormed(m) {
			return
		}
		n.seen[m.GetFrom()] = n.ticks
		if slices.Contains(fromLeaders, m.GetType()) {
			n.led = n.ticks
		}
		switch {
		case !n.stands() && isVote(m), !n.mayCampaign && m.GetType() == raftpb.MsgTimeoutNow:
		case n.founding() && (isVote(m) || m.GetType() == raftpb.MsgVote && m.GetIndex() <= n.log.last()):
		case len(m.GetEntries()) > 0 && n.log.bytes > n.options.LogBytesMax:
		case m.GetType() == raftpb.MsgSnap:
			n.receiveMark(m)
		default:
			n.step(m)
		}
	})
}

// founding reports whether the cluster may not exist yet, and not all who found it have
// sent something, each over a connection that both sides let in. Until then there are no
// votes among those who have nothing: two that have lost their disk, or were never started,
// would found another cluster beside one that a third has records of, which refuses them.
func (n *Node) founding() bool {
	if n.now.cluster != (Identity{}) || n.log.last() != n.log.mark.Index {
		return false
	}
	return slices.ContainsFunc(n.now.conf.GetVoters(), func(id uint64) bool {
		_, seen := n.seen[id]
		return id != n.id && !seen
	})
}

// wellFormed reports whether raft can take the message at all.
func wellFormed(m *raftpb.Message) bool {
	if !slices.Contains(fromPeers, m.GetType()) || m.GetTerm() == 0 || len(m.GetResponses()) > 0 {
		return false
	}
	if m.GetType() != raftpb.MsgApp && len(m.GetEntries()) > 0 {
		return false
	}
	if m.GetType() == raftpb.MsgHeartbeatResp && len(m.GetContext()) != 0 && len(m.GetContext()) != 8 {
		return false
	}
	term := m.GetLogTerm()
	for i, e := range m.GetEntries() {
		if e.GetIndex() != m.GetIndex()+1+uint64(i) || e.GetTerm() < term || e.GetTerm() > m.GetTerm() {
			return false
		}
		term = e.GetTerm()
	}
	return true
}

// receiveMark holds a mark back until the journal has its records. While a fetch is under
// way another one of that leader is dropped, which sends one again; a later leader's ends it.
func (n *Node) receiveMark(m *raftpb.Message) {
	meta := m.GetSnapshot().GetMetadata()
	mark, err := DecodeMark(m.GetSnapshot().GetData())
	if err != nil || mark.Index != meta.GetIndex() || mark.Term != meta.GetTerm() {
		return
	}
	if n.held != nil {
		if m.GetFrom() != n.held.GetFrom() && m.GetTerm() > n.held.GetTerm() {
			n.next = m
		}
		return
	}
	st := n.raft.BasicStatus()
	if m.GetTerm() < st.GetTerm() || mark.Index <= st.GetCommit() {
		n.step(m) // raft answers that it has this
		return
	}
	from := n.now.Position
	if n.fetched.Seq > from.Seq {
		from = n.fetched
	}
	if n.blind && n.journal > from.Seq {
		from = Position{Seq: n.journal}
	}
	if from.Seq >= mark.Seq && n.synced < mark.Seq {
		return // data/journal has it, and could lose it yet: then the log must not begin behind it
	}
	n.held, n.ending, n.fetch = m, false, Fetch{Peer: m.GetFrom(), From: from, To: mark.Position}
	switch {
	case n.blind && from.Seq >= mark.Seq:
		n.release()
	case from == mark.Position:
		n.release()
	case from.Seq >= mark.Seq && n.now.Seq >= mark.Seq:
		n.fail(n.otherHistory(from, mark.Position))
	case from.Seq >= mark.Seq:
		// It was compared already, further than the mark says.
		n.release()
	default:
		f := n.fetch
		n.out.Fetch = &f
	}
}

func (n *Node) otherHistory(have, want Position) error {
	return fmt.Errorf("core: node %d has records up to seq %d with the chain %016x, the cluster up to %d with %016x",
		n.id, have.Seq, have.Chain, want.Seq, want.Chain)
}

// release gives raft the mark that was held back, behind what was committed meanwhile.
func (n *Node) release() {
	m := n.held
	n.held, n.next = nil, nil
	n.tell()
	if n.broken == nil {
		n.step(m)
	}
}

// endFetch ends a fetch once a later leader is known: the former one may be stopped.
func (n *Node) endFetch() {
	if n.held == nil || n.ending {
		return
	}
	st := n.raft.BasicStatus()
	if n.next != nil || st.GetTerm() > n.held.GetTerm() && st.Lead != 0 && st.Lead != n.fetch.Peer {
		n.ending, n.out.FetchOver = true, true
	}
}

// Fetched says that the fetch f is over. at is how far the journal is now, synced, and
// its chain, worked out from f.From over all records behind it. Beyond f.To it is what a
// backup had, whose chain is not known. With an error, at.Seq alone counts, and need not
// be synced yet; the leader will send another mark. A chain that is not the cluster's breaks the node.
func (n *Node) Fetched(f Fetch, at Position, err error) {
	n.run(func() {
		n.journal = max(n.journal, at.Seq)
		if n.held == nil || f != n.fetch {
			return
		}
		switch {
		case err != nil || at.Seq < f.To.Seq:
			next := n.next
			n.held, n.next = nil, nil
			if n.tell(); n.broken == nil && next != nil {
				n.receiveMark(next)
			}
			return
		case at.Seq == f.To.Seq && at.Chain != f.To.Chain && !n.blind:
			n.fail(n.otherHistory(at, f.To))
			return
		}
		n.fetched = f.To
		n.synced = max(n.synced, at.Seq)
		n.release()
	})
}

// restore lets the log begin behind a mark that the disk is about to have.
func (n *Node) restore(mark *Mark) {
	n.log.restore(mark)
	position := n.now.Position
	n.now.Position = mark.Position
	if position.Seq > mark.Seq {
		n.fail(n.otherHistory(position, mark.Position))
	}
	n.acked, n.confAt, n.blind = max(n.acked, mark.Index), mark.Index, false
	m := stateOf(mark).membership
	for _, v := range n.now.members {
		if !m.has(v.ID) {
			n.forget(v, &membership{})
		}
	}
	if err := n.become(m); err != nil {
		n.fail(err)
	}
}

// snapshot is what a leader sends to a member that the log does not reach: what the
// journal has synced, so that it can be fetched.
func (n *Node) snapshot() (*raftpb.Snapshot, error) {
	index := n.log.upTo(n.synced, n.acked)
	if index < n.confAt {
		// The member might not be in it.
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	term, err := n.log.Term(index)
	if err != nil {
		return nil, err
	}
	st := n.log.at(index)
	return &raftpb.Snapshot{
		Data:     st.mark(index, term).Encode(),
		Metadata: &raftpb.SnapshotMetadata{Index: new(index), Term: new(term), ConfState: st.conf},
	}, nil
}

// matched returns the last entry that a leader knows the member to have.
func (n *Node) matched(id uint64) (match uint64) {
	n.raft.WithProgress(func(peer uint64, _ raft.ProgressType, p tracker.Progress) {
		if peer == id {
			match = p.Match
		}
	})
	return match
}
