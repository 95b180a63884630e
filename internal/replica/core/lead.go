package core

import (
	"encoding/binary"
	"fmt"
	"io"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// leadership is what a leader knows for one term; it is forgotten with it.
type leadership struct {
	term     uint64 // 0: this node does not lead
	proposed bool   // pins were proposed and are not committed
	opened   uint64 // index of the first entry of ours in this term, once committed
	told     bool   // Output.Leads
	last     Position
	underWay int
	changing bool // a change of members was proposed and is not committed

	reading   uint64 // the round under way, 0 if none is
	gathering bool   // a round follows it
	tried     map[uint64]bool
}

// observe notes whether raft has begun to lead, or ceased to: after every step, so that
// no second leadership goes unseen.
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

// depose ends a leadership. What it had proposed may be committed yet, or never.
func (n *Node) depose() {
	if n.lead.told && !n.out.Leads {
		n.out.Deposed = true
	}
	n.out.Leads, n.out.Confirmed = false, 0
	n.ended = n.lead.term
	n.lead = leadership{}
}

// begin tells that this node leads, once the first entry of its term is in the journal:
// so everything before it is as well.
func (n *Node) begin() {
	if n.broken == nil && n.mayCampaign && n.lead.opened != 0 && !n.lead.told && n.acked >= n.lead.opened {
		n.lead.told, n.lead.last = true, n.now.Position
		n.out.Leads = true
	}
}

// pin proposes the cluster's identity and those of its members, as far as they are known.
func (n *Node) pin() {
	p := pins{term: n.lead.term, cluster: n.now.cluster}
	if p.cluster == (Identity{}) {
		if _, err := io.ReadFull(n.options.Random, p.cluster[:]); err != nil {
			panic(fmt.Sprintf("no randomness for the cluster's identity: %v", err))
		}
	}
	for _, m := range n.now.members {
		m.Identity = n.known(m.ID)
		p.members = append(p.members, m)
	}
	n.lead.proposed = n.raft.Propose(p.encode()) == nil
}

// tickLeader repeats what may have failed.
func (n *Node) tickLeader() {
	if !n.lead.proposed && (n.lead.opened == 0 || n.unpinned()) {
		n.pin()
	}
	if !n.mayCampaign && !n.lead.told && n.ticks%uint64(n.options.ElectionTicks) == 0 {
		n.handOver()
	}
	if n.ticks%uint64(retryElections*n.options.ElectionTicks) != 0 {
		return
	}
	// A mark may be lost on its way, or no longer fit when its records are there.
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

// CanPropose reports whether Propose accepts a batch: this node leads, hands over to
// nobody, and has fewer than UnderWayMax batches under way.
func (n *Node) CanPropose() bool {
	return n.broken == nil && n.lead.told && n.lead.underWay < UnderWayMax &&
		n.log.bytes <= n.options.LogBytesMax && n.raft.BasicStatus().LeadTransferee == 0
}

// Propose appends one batch: records from seq first, which follows the last batch of this
// leadership, or at its begin Status.Position. The records are copied.
// It returns ErrNotLeading, ErrBusy (see CanPropose), or an error that names what of the
// batch is wrong; then nothing is proposed. A batch that was accepted may be lost with the
// leadership, and may be committed by a later leader.
func (n *Node) Propose(first uint64, records [][]byte) error {
	if n.broken != nil || !n.lead.told {
		return ErrNotLeading
	}
	bytes := 0
	for _, r := range records {
		bytes += len(r)
	}
	switch {
	case first != n.lead.last.Seq+1:
		return fmt.Errorf("core: a batch from seq %d, %d is next", first, n.lead.last.Seq+1)
	case len(records) == 0:
		return fmt.Errorf("core: a batch from seq %d without records", first)
	case bytes > BatchBytesMax:
		return fmt.Errorf("core: a batch of %d bytes, at most %d", bytes, BatchBytesMax)
	case !n.CanPropose():
		return ErrBusy
	}
	behind := n.lead.last.After(records...)
	b := batch{term: n.lead.term, first: first, chain: behind.Chain, records: records}
	err := ErrNotLeading
	n.run(func() {
		proposed := n.raft.Propose(b.encode())
		if n.observe(); proposed != nil {
			// Whatever the reason: what follows would not follow.
			n.depose()
		}
		if n.lead.term == b.term && n.lead.told {
			n.lead.last, err = behind, nil
			n.lead.underWay++
		}
	})
	return err
}

// Read returns the round that confirms what was read before the call: one that begins
// after it. Several calls share one. 0 is returned if this node does not lead. A round
// is confirmed by Output.Confirmed, or never if the leadership ends.
func (n *Node) Read() uint64 {
	round := uint64(0)
	n.run(func() {
		switch {
		case !n.lead.told:
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

// confirm ends the round under way, if that is what raft confirms, and begins the next.
func (n *Node) confirm(states []raft.ReadState) {
	for _, rs := range states {
		s := scanner{rest: rs.RequestCtx}
		if s.uint64() != n.lead.term || s.uint64() != n.lead.reading || !n.lead.told || n.lead.reading == 0 {
			continue
		}
		n.out.Confirmed = n.lead.reading
		n.lead.reading = 0
		if n.lead.gathering {
			n.beginRound()
		}
	}
}

// Transfer hands the leadership to a voter, the furthest active one if to is 0; another
// one at each call, as long as there is one that was not tried. Until it is done, or an
// election timeout has passed, nothing can be proposed: callers drain first.
// ErrNotLeading is returned if this node does not lead; another error names what is wrong.
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
			err = fmt.Errorf("core: no other voter is active, so nobody can lead")
			return
		}
		n.lead.tried[to] = true
		n.raft.TransferLeader(to)
		n.observe()
	})
	return err
}

// fit returns why the node cannot become the leader; 0 can.
func (n *Node) fit(id uint64) error {
	switch {
	case id == 0:
		return nil
	case id == n.id:
		return fmt.Errorf("core: node %d leads already", id)
	case !n.now.votes(id):
		return fmt.Errorf("core: node %d is no voter", id)
	case !n.active(id):
		return fmt.Errorf("core: node %d has not answered lately", id)
	}
	return nil
}

// furthest returns the active voter that has most, of those that were not tried; 0 if
// there is none.
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

// handOver begins a transfer to anybody fit.
func (n *Node) handOver() {
	if to := n.furthest(); to != 0 {
		n.lead.tried[to] = true
		n.raft.TransferLeader(to)
	}
}

// active reports whether the peer has sent anything lately.
func (n *Node) active(id uint64) bool {
	at, ok := n.seen[id]
	return id == n.id || ok && n.ticks-at <= uint64(2*n.options.ElectionTicks)
}
