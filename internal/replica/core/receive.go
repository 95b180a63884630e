package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// fromPeers are the types of messages that nodes send each other. All others are dropped.
var fromPeers = []raftpb.MessageType{
	raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
	raftpb.MsgSnap, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgTimeoutNow,
}

// fromLeaders are the types that only a leader sends.
var fromLeaders = []raftpb.MessageType{raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap}

// Receive handles a message from a peer and keeps m. from is the identity that was Heard on the
// connection; another node with the same number may have sent a message that arrives late. The
// message is dropped, as a network might drop it, if the peer is not let in, if the message is
// malformed, or if there is no room for its entries.
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
		case !n.canBeElected() && isVote(m), !n.mayCampaign && m.GetType() == raftpb.MsgTimeoutNow:
		case n.founding() && (isVote(m) || m.GetType() == raftpb.MsgVote && m.GetIndex() <= n.log.last()):
		case len(m.GetEntries()) > 0 && n.log.bytes > n.options.LogBytesMax:
		case m.GetType() == raftpb.MsgSnap:
			n.receiveMark(m)
		default:
			n.step(m)
		}
	})
}

// founding reports whether the cluster may not exist yet and at least one founder has sent no message over a
// connection that both sides accepted. Until all have, nodes with empty logs do not vote for each other. Otherwise two
// nodes that lost their disks, or were never started before, could found a second cluster while a third node, which
// refuses them, still has records of the first.
func (n *Node) founding() bool {
	if n.now.cluster != (Identity{}) || n.log.last() != n.log.mark.Index {
		return false
	}
	return slices.ContainsFunc(n.now.conf.GetVoters(), func(id uint64) bool {
		_, seen := n.seen[id]
		return id != n.id && !seen
	})
}

// wellFormed reports whether raft can process the message.
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

// receiveMark holds a mark until the journal has its records. During a fetch it drops other marks
// of the same leader, which sends them again. It keeps a mark of a later leader, which ends the
// fetch.
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
		n.step(m) // raft replies that it already has these entries
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
		// data/journal has these records but could still lose them, so the log must not start after
		// them
		return
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
		// An earlier fetch compared the journal beyond this mark.
		n.release()
	default:
		f := n.fetch
		n.out.Fetch = &f
	}
}

func (n *Node) otherHistory(have, want Position) error {
	return fmt.Errorf("core: node %d has records up to seq %d with the chain %016x, but the cluster up to %d with %016x",
		n.id, have.Seq, have.Chain, want.Seq, want.Chain)
}

// release passes the held mark to raft, after emitting the entries that were committed while it
// waited.
func (n *Node) release() {
	m := n.held
	n.held, n.next = nil, nil
	n.emit()
	if n.broken == nil {
		n.step(m)
	}
}

// endFetch emits FetchOver once a later leader is known, since the node that the fetch reads from
// may be stopped.
func (n *Node) endFetch() {
	if n.held == nil || n.ending {
		return
	}
	st := n.raft.BasicStatus()
	if n.next != nil || st.GetTerm() > n.held.GetTerm() && st.Lead != 0 && st.Lead != n.fetch.Peer {
		n.ending, n.out.FetchOver = true, true
	}
}

// Fetched reports that the fetch f has ended. at is the synced end of the journal and its chain,
// computed from f.From over all records after it. If the journal extends beyond f.To, it comes from
// a backup and its chain is not known. If err is not nil, only at.Seq is used and it need not be
// synced; the leader will send another mark. The node breaks if the chain differs from the
// cluster's.
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
			if n.emit(); n.broken == nil && next != nil {
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

// restore makes the log start after a mark that is about to be written to disk.
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

// snapshot returns the mark for a member that the log no longer reaches. It covers only what this
// node's journal has synced, so that the member can fetch it.
func (n *Node) snapshot() (*raftpb.Snapshot, error) {
	index := n.log.upTo(n.synced, n.acked)
	if index < n.confAt {
		// The mark might not include the member.
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

// matched returns the last entry that the leader knows to be on the member's disk.
func (n *Node) matched(id uint64) (match uint64) {
	n.raft.WithProgress(func(peer uint64, _ raft.ProgressType, p tracker.Progress) {
		if peer == id {
			match = p.Match
		}
	})
	return match
}
