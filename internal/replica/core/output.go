package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Output returns the work that results from all inputs since the last call.
func (n *Node) Output() Output {
	n.run(n.ready)
	out := n.out
	n.out = Output{}
	if n.broken != nil {
		return Output{Broken: n.broken}
	}
	return out
}

func (n *Node) ready() {
	for {
		n.acknowledge()
		if n.broken != nil || !n.raft.HasReady() {
			break
		}
		rd := n.raft.Ready()
		for _, m := range rd.Messages {
			switch t := m.GetType(); {
			case t == raftpb.MsgStorageAppend:
				n.write(m)
			case t == raftpb.MsgStorageApply:
				n.applies = append(n.applies, m)
			default:
				n.out.Send = append(n.out.Send, m)
			}
		}
		n.emit()
		n.confirm(rd.ReadStates)
		n.observe()
	}
	n.endFetch()
	n.begin()
	n.compact()
}

func (n *Node) writing() *Write {
	if n.out.Write == nil {
		n.out.Write = &Write{}
	}
	return n.out.Write
}

// write adds the data that raft wants to store to Output.Write and to the log in memory. Several writes become one
// Write, in which later ones replace earlier ones as they would on disk.
func (n *Node) write(m *raftpb.Message) {
	w := n.writing()
	if s := m.GetSnapshot(); !raft.IsEmptySnap(s) {
		mark, err := DecodeMark(s.GetData())
		if err != nil {
			n.fail(err)
			return
		}
		n.restore(mark)
		w.Mark, w.Entries = mark, nil
	}
	if es := m.GetEntries(); len(es) > 0 {
		n.log.append(es)
		keep := w.Entries
		if len(keep) > 0 && es[0].GetIndex() <= keep[len(keep)-1].GetIndex() {
			keep = keep[:max(es[0].GetIndex(), keep[0].GetIndex())-keep[0].GetIndex()]
		}
		// The slice belongs to raft, so it is copied.
		w.Entries = append(slices.Clip(keep), es...)
	}
	if m.Term != nil {
		w.Hard = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
	}
	w.After = append(w.After, m.GetResponses()...)
}

// emit turns committed entries into Commits. During a fetch the entries wait; raft limits their
// size to applyingBytes.
func (n *Node) emit() {
	if n.held != nil {
		return
	}
	for _, m := range n.applies {
		before := len(n.out.Commits)
		for _, e := range m.GetEntries() {
			if err := n.commit(e); err != nil {
				n.fail(err)
				return
			}
			n.log.addState(n.now)
		}
		a := ack{index: n.log.emitted(), records: len(n.out.Commits) > before, resp: m.GetResponses()}
		if a.records {
			n.out.Index = a.index
		}
		n.acks = append(n.acks, a)
	}
	n.applies = nil
}

// acknowledge reports applied entries to raft.
func (n *Node) acknowledge() {
	for len(n.acks) > 0 && (n.acks[0].index <= n.applied || !n.acks[0].records) {
		a := n.acks[0]
		n.acks = n.acks[1:]
		n.acked = max(n.acked, a.index)
		for _, m := range a.resp {
			n.step(m)
		}
	}
}

// commit applies a committed entry. All nodes do the same for the same entry.
func (n *Node) commit(e *raftpb.Entry) error {
	switch e.GetType() {
	case raftpb.EntryNormal:
	case raftpb.EntryConfChangeV2, raftpb.EntryConfChange:
		return n.commitChange(e)
	}
	d := e.GetData()
	switch {
	case len(d) == 0:
		return nil
	case d[0] == entryBatch:
		return n.commitBatch(e)
	case d[0] == entryPins:
		return n.commitPins(e)
	}
	return fmt.Errorf("core: entry %d has kind %d, which this program does not know: upgrade it",
		e.GetIndex(), d[0])
}

// commitBatch emits those records of a batch that the journal does not have yet. A batch whose term
// differs from its entry's, or that does not follow the previous record, was proposed by a leader
// with another history. All nodes skip it.
func (n *Node) commitBatch(e *raftpb.Entry) error {
	b, err := decodeBatch(e.GetData())
	if err != nil {
		return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
	}
	if n.lead.term == e.GetTerm() && n.lead.underWay > 0 {
		n.lead.underWay--
	}
	if b.term != e.GetTerm() || b.first != n.now.Seq+1 {
		return nil
	}
	end := n.now.After(b.records...)
	if b.chain != end.Chain {
		return fmt.Errorf("core: node %d has other records up to seq %d than the leader of term %d (chain %016x, not %016x)",
			n.id, end.Seq, b.term, end.Chain, b.chain)
	}
	n.now.Position = end
	if had := n.journal + 1; had > b.first {
		b.records = b.records[min(had-b.first, uint64(len(b.records))):]
		b.first = had
	}
	if len(b.records) > 0 {
		n.out.Commits = append(n.out.Commits, Commit{First: b.first, Records: b.records})
	}
	return nil
}

// compact moves the start of the log forward once the applied entries exceed KeepBytes. It never
// drops entries whose records data/journal has not synced. It drops a quarter of KeepBytes at once,
// since each compaction costs a write.
func (n *Node) compact() {
	if n.broken != nil {
		return
	}
	may := n.log.upTo(n.synced, n.acked)
	keep := n.log.bytes
	if keep <= n.options.KeepBytes || may == n.log.mark.Index {
		return
	}
	index := n.log.mark.Index
	for _, e := range n.log.entries[:may-index] {
		if keep <= n.options.KeepBytes*3/4 {
			break
		}
		keep -= sizeOf(e)
		index = e.GetIndex()
	}
	n.writing().Mark = n.log.compact(index)
}
