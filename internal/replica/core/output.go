package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Output returns what has to be done because of what happened since the last one.
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
		n.tell()
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

// write hands what raft wants written to the disk, and to the log in memory. Several
// make one Write: the later wins, as it would on the disk.
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
		// A copy: the slice is raft's.
		w.Entries = append(slices.Clip(keep), es...)
	}
	if m.Term != nil {
		w.Hard = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
	}
	w.After = append(w.After, m.GetResponses()...)
}

// tell makes Commits of committed entries. During a fetch they wait, in bounds: raft
// hands out no more than applyingBytes that are not applied.
func (n *Node) tell() {
	if n.held != nil {
		return
	}
	for _, m := range n.applies {
		told := len(n.out.Commits)
		for _, e := range m.GetEntries() {
			if err := n.commit(e); err != nil {
				n.fail(err)
				return
			}
			n.log.tell(n.now)
		}
		a := ack{index: n.log.told(), records: len(n.out.Commits) > told, resp: m.GetResponses()}
		if a.records {
			n.out.Index = a.index
		}
		n.acks = append(n.acks, a)
	}
	n.applies = nil
}

// acknowledge tells raft what is applied.
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

// commit is what a committed entry does: the same on all nodes.
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
	return fmt.Errorf("core: entry %d is of kind %d, which this version does not know: it has to be upgraded",
		e.GetIndex(), d[0])
}

// commitBatch tells the records of a batch, those that the journal does not have. A batch
// of another term than its entry's, or that does not follow, was proposed by a leader
// that knew another history: all nodes skip it alike.
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
	behind := n.now.After(b.records...)
	if b.chain != behind.Chain {
		return fmt.Errorf("core: node %d has other records up to seq %d than the leader of term %d (chain %016x, not %016x)",
			n.id, behind.Seq, b.term, behind.Chain, b.chain)
	}
	n.now.Position = behind
	if had := n.journal + 1; had > b.first {
		b.records = b.records[min(had-b.first, uint64(len(b.records))):]
		b.first = had
	}
	if len(b.records) > 0 {
		n.out.Commits = append(n.out.Commits, Commit{First: b.first, Records: b.records})
	}
	return nil
}

// compact lets the log begin later once what is kept for others is more than KeepBytes:
// never before data/journal has synced it, and by a quarter at once, since it costs a write.
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
