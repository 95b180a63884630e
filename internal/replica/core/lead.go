package core

import (
	"encoding/binary"
	"fmt"
	"io"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// leadership is the state of a leader during one term. It is reset when the term ends.
type leadership struct {
	term      uint64 // 0 if this node does not lead
	proposed  bool   // pins were proposed and are not committed yet
	opened    uint64 // index of this leader's first entry in the term; 0 until it is committed
	announced bool   // Output.Leads was emitted
	last      Position
	underWay  int
	changing  bool // a membership change was proposed and is not committed yet

	reading   uint64 // the read round in progress, 0 if none
	gathering bool   // another read round starts when this one ends
	tried     map[uint64]bool
}

// observe checks whether raft has started or stopped leading. It is called after every step so that
// even a leadership between two Outputs is seen.
func (n *Node) observe() {
	st := n.raft.BasicStatus()
	campaigning := st.RaftState == raft.StateCandidate || st.RaftState == raft.StatePreCandidate
	if campaigning && !n.campaigning {
		n.elections++
	}
	n.campaigning = campaigning
	leading := st.RaftState == raft.StateLeader
	if n.lead.term != 0 && (!leading || st.GetTerm() != n.lead.term) {
		n.depose()
	}
	if leading && n.lead.term == 0 && st.GetTerm() > n.ended {
		n.lead = leadership{term: st.GetTerm(), tried: map[uint64]bool{}}
		n.pin()
		if !n.mayCampaign {
			n.handOver()
		}
	}
}

// depose ends the leadership. Batches it proposed may still be committed by a later leader.
func (n *Node) depose() {
	if n.lead.announced && !n.out.Leads {
		n.out.Deposed = true
	}
	n.out.Leads, n.out.Confirmed = false, 0
	n.ended = n.lead.term
	n.lead = leadership{}
}

// begin sets Output.Leads once the first entry of the term is in the journal, since all earlier
// entries are then there too.
func (n *Node) begin() {
	if n.broken == nil && n.mayCampaign && n.lead.opened != 0 && !n.lead.announced && n.acked >= n.lead.opened {
		n.lead.announced, n.lead.last = true, n.now.Position
		n.out.Leads = true
	}
}

// pin proposes the identity of the cluster and the known identities of its members.
func (n *Node) pin() {
	p := pins{term: n.lead.term, cluster: n.now.cluster}
	if p.cluster == (Identity{}) {
		if _, err := io.ReadFull(n.options.Random, p.cluster[:]); err != nil {
			panic(fmt.Sprintf("cannot read random bytes for the cluster's identity: %v", err))
		}
	}
	for _, m := range n.now.members {
		m.Identity = n.known(m.ID)
		p.members = append(p.members, m)
	}
	n.lead.proposed = n.raft.Propose(p.encode()) == nil
}

// tickLeader retries proposals, transfers and marks that may have failed.
func (n *Node) tickLeader() {
	if !n.lead.proposed && (n.lead.opened == 0 || n.unpinned()) {
		n.pin()
	}
	if !n.mayCampaign && !n.lead.announced && n.ticks%uint64(n.options.ElectionTicks) == 0 {
		n.handOver()
	}
	if n.ticks%uint64(retryElections*n.options.ElectionTicks) != 0 {
		return
	}
	// A mark may have been lost, or may no longer fit once its records have been fetched.
	var snapshots []uint64
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.State == tracker.StateSnapshot {
			snapshots = append(snapshots, id)
		}
	})
	for _, id := range snapshots {
		n.raft.ReportSnapshot(id, raft.SnapshotFailure)
	}
}

// CanPropose reports whether Propose accepts a batch: this node leads, is not transferring the
// leadership, has fewer than UnderWayMax batches in progress and has at most LogBytesMax in memory.
func (n *Node) CanPropose() bool {
	return n.broken == nil && n.lead.announced && n.lead.underWay < UnderWayMax &&
		n.log.bytes <= n.options.LogBytesMax && n.raft.BasicStatus().LeadTransferee == 0
}

// Propose appends one batch of records, the first with seq first. It must follow the previous batch
// of this leadership, or Status.Position if it has no record yet. The records are copied. It returns
// ErrNotLeading, ErrBusy (see CanPropose), or an error that describes what is wrong with the batch;
// then nothing is proposed. If the leadership ends, an accepted batch may be lost or may be
// committed by a later leader.
func (n *Node) Propose(first uint64, records [][]byte) error {
	if n.broken != nil || !n.lead.announced {
		return ErrNotLeading
	}
	bytes := 0
	for _, r := range records {
		bytes += len(r)
	}
	switch {
	case first != n.lead.last.Seq+1:
		return fmt.Errorf("core: a batch starts at seq %d, but the next seq is %d", first, n.lead.last.Seq+1)
	case len(records) == 0:
		return fmt.Errorf("core: a batch from seq %d has no records", first)
	case bytes > BatchBytesMax:
		return fmt.Errorf("core: a batch has %d bytes, more than %d", bytes, BatchBytesMax)
	case !n.CanPropose():
		return ErrBusy
	}
	end := n.lead.last.After(records...)
	b := batch{term: n.lead.term, first: first, chain: end.Chain, records: records}
	err := ErrNotLeading
	n.run(func() {
		proposed := n.raft.Propose(b.encode())
		if n.observe(); proposed != nil {
			// After a failed proposal of any kind the next batch would leave a gap.
			n.depose()
		}
		if n.lead.term == b.term && n.lead.announced {
			n.lead.last, err = end, nil
			n.lead.underWay++
		}
	})
	return err
}

// Read returns a round that starts after this call. Once the round is confirmed, everything read before
// the call was current. Several calls share a round. It returns 0 if this node does not lead.
// Output.Confirmed reports the confirmation; it never comes if the leadership ends first.
func (n *Node) Read() uint64 {
	round := uint64(0)
	n.run(func() {
		switch {
		case !n.lead.announced:
		case n.lead.reading != 0:
			n.lead.gathering = true
			round = n.lead.reading + 1
		default:
			round = n.beginRound()
		}
	})
	return round
}

func (n *Node) beginRound() uint64 {
	n.round++
	n.lead.reading, n.lead.gathering = n.round, false
	ctx := binary.BigEndian.AppendUint64(nil, n.lead.term)
	n.raft.ReadIndex(binary.BigEndian.AppendUint64(ctx, n.round))
	return n.round
}

// confirm ends the round in progress if raft has confirmed it, and starts the next one if calls
// wait for it.
func (n *Node) confirm(states []raft.ReadState) {
	for _, rs := range states {
		s := scanner{rest: rs.RequestCtx}
		if s.uint64() != n.lead.term || s.uint64() != n.lead.reading || !n.lead.announced || n.lead.reading == 0 {
			continue
		}
		n.out.Confirmed = n.lead.reading
		n.lead.reading = 0
		if n.lead.gathering {
			n.beginRound()
		}
	}
}

// Transfer transfers the leadership to the voter to. If to is 0, it picks the active voter with the
// most entries, and on each further call one that was not tried yet, as long as there is one. Until
// the transfer ends or an election timeout passes, Propose returns ErrBusy, so callers wait for
// their batches first. It returns ErrNotLeading if this node does not lead, or an error that says
// why the voter cannot lead.
func (n *Node) Transfer(to uint64) error {
	err := ErrNotLeading
	n.run(func() {
		if n.lead.term == 0 {
			return
		}
		if err = n.fit(to); err != nil {
			return
		}
		if to == 0 {
			to = n.furthest()
		}
		if to == 0 {
			err = fmt.Errorf("core: no other voter is active, so no other node can lead")
			return
		}
		n.lead.tried[to] = true
		n.raft.TransferLeader(to)
		n.observe()
	})
	return err
}

// fit returns nil if the node can become the leader, or an error with the reason. It returns nil
// for 0.
func (n *Node) fit(id uint64) error {
	switch {
	case id == 0:
		return nil
	case id == n.id:
		return fmt.Errorf("core: node %d already leads", id)
	case !n.now.votes(id):
		return fmt.Errorf("core: node %d is not a voter", id)
	case !n.active(id):
		return fmt.Errorf("core: node %d has not answered lately", id)
	}
	return nil
}

// furthest returns the active voter with the most entries among those not tried yet, or 0 if no
// other voter is active.
func (n *Node) furthest() uint64 {
	for range 2 {
		best, match := uint64(0), uint64(0)
		n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
			if id != n.id && n.fit(id) == nil && !n.lead.tried[id] && (best == 0 || p.Match > match) {
				best, match = id, p.Match
			}
		})
		if best != 0 {
			return best
		}
		clear(n.lead.tried)
	}
	return 0
}

// handOver starts a transfer to the voter that furthest returns.
func (n *Node) handOver() {
	if to := n.furthest(); to != 0 {
		n.lead.tried[to] = true
		n.raft.TransferLeader(to)
	}
}

// active reports whether the peer has sent a message within two election timeouts.
func (n *Node) active(id uint64) bool {
	at, ok := n.seen[id]
	return id == n.id || ok && n.ticks-at <= uint64(2*n.options.ElectionTicks)
}
