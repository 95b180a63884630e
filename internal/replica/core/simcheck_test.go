package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// simTruth is what an observer knows who sees all nodes at once.
type simTruth struct {
	history  [][]byte // committed records, by whoever told of them first
	terms    []uint64 // of that node, then
	time     int64
	refs     map[uint64]uint64
	told     uint64            // the last record that an answer has revealed
	leaders  map[uint64]uint64 // term: who led
	votes    map[simVote]uint64
	answered int
	confs    []*raftpb.ConfState // of the cluster, one after the other
}

type simVote struct {
	name Identity
	term uint64
}

// judgeCommits: what a node says is committed is on the disks of a majority, follows what
// was committed before it, and is the same on all nodes.
func (s *sim) judgeCommits(n *simNode, commits []Commit) {
	t := &s.truth
	for _, c := range commits {
		s.note("commit", n.id, c.First, uint64(len(c.Records)))
		for i, r := range c.Records {
			seq := c.First + uint64(i)
			if seq <= uint64(len(t.history)) {
				if string(t.history[seq-1]) != string(r) {
					s.fail("node %d committed another record %d than the others", n.id, seq)
				}
				continue
			}
			s.judgeNew(n, seq, r)
		}
	}
}

func (s *sim) judgeNew(n *simNode, seq uint64, r []byte) {
	t := &s.truth
	if seq != uint64(len(t.history))+1 || recordSeq(r) != seq {
		s.fail("node %d committed record %d (that calls itself %d) behind %d", n.id, seq, recordSeq(r), len(t.history))
		return
	}
	if recordTime(r) < t.time {
		s.fail("node %d: the time of record %d is %d, before that of the last, %d", n.id, seq, recordTime(r), t.time)
	}
	if first, ok := t.refs[recordRef(r)]; ok {
		s.fail("node %d: ref %x of record %d was done by record %d", n.id, recordRef(r), seq, first)
	}
	if !s.durable(n, seq, r) {
		s.fail("node %d committed record %d, which is not on the disks of a majority", n.id, seq)
	}
	t.history, t.terms = append(t.history, r), append(t.terms, n.core.Status().Term)
	t.time = recordTime(r)
	t.refs[recordRef(r)] = seq
}

// durable reports whether r is on the disks of a majority, now or before a disk was lost.
// The leader that committed it may not have applied the last changes of members yet, and
// who tells of it first may be further: any of the last configurations will do.
func (s *sim) durable(n *simNode, seq uint64, r []byte) bool {
	have := map[uint64]bool{}
	for _, p := range s.nodes {
		have[p.id] = p.has(seq, r) || p.before != nil && p.before.has(seq, r)
	}
	s.judgeConf(n)
	for _, c := range append(lastOf(s.truth.confs), lastOf(n.confs)...) {
		if majority(c.GetVoters(), have) && (len(c.GetVotersOutgoing()) == 0 || majority(c.GetVotersOutgoing(), have)) {
			return true
		}
	}
	return false
}

// judgeConf notes the configuration that a node has.
func (s *sim) judgeConf(n *simNode) {
	conf := n.core.now.conf
	if len(n.confs) > 0 && n.confs[len(n.confs)-1] == conf {
		return
	}
	n.confs = append(n.confs, conf)
	if !slices.ContainsFunc(s.truth.confs, func(c *raftpb.ConfState) bool { return proto.Equal(c, conf) }) {
		s.truth.confs = append(s.truth.confs, conf)
	}
}

func lastOf(confs []*raftpb.ConfState) []*raftpb.ConfState {
	return slices.Clone(confs[max(0, len(confs)-confsPast):])
}

// confsPast is how many configurations may have decided of what is told now.
const confsPast = 3

func majority(voters []uint64, have map[uint64]bool) bool {
	count := 0
	for _, id := range voters {
		if have[id] {
			count++
		}
	}
	return count > len(voters)/2
}

// judgeLeads: one leader a term, and it has everything that was committed before.
func (s *sim) judgeLeads(n *simNode) {
	t := &s.truth
	s.note("leads", n.id, n.leadTerm, n.leadAt.Seq)
	for seq := len(t.history); seq > 0; seq-- {
		if t.terms[seq-1] < n.leadTerm {
			if n.leadAt.Seq < uint64(seq) {
				s.fail("node %d leads term %d from record %d; record %d was committed before", n.id, n.leadTerm, n.leadAt.Seq, seq)
			}
			break
		}
	}
}

// judgeSent: only one node speaks as the leader of a term, and nobody votes twice.
func (s *sim) judgeSent(n *simNode, m *raftpb.Message) {
	t := &s.truth
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if first, ok := t.leaders[m.GetTerm()]; ok && first != n.id {
			s.fail("nodes %d and %d lead term %d", first, n.id, m.GetTerm())
		}
		t.leaders[m.GetTerm()] = n.id
	case raftpb.MsgVoteResp:
		if m.GetReject() {
			return
		}
		v := simVote{n.name(), m.GetTerm()}
		if first, ok := t.votes[v]; ok && first != m.GetTo() {
			s.fail("node %d votes for %d and for %d in term %d", n.id, first, m.GetTo(), v.term)
		}
		t.votes[v] = m.GetTo()
		s.voted(n)
	}
}

// judgeJournal: the last records of a journal are those of the history.
func (s *sim) judgeJournal(n *simNode, last int) {
	have := n.journal.records
	if len(have) > len(s.truth.history) {
		s.fail("node %d has record %d, and %d are committed", n.id, len(have), len(s.truth.history))
		return
	}
	for i := len(have) - last; i < len(have); i++ {
		if string(have[i]) != string(s.truth.history[i]) {
			s.fail("node %d has another record %d than the history", n.id, i+1)
		}
	}
}

// judgeAnswer: what an answer reveals is committed, in its place, and not older than what
// had been told when the frame was sent.
func (s *sim) judgeAnswer(n *simNode, f *simFrame) {
	t := &s.truth
	s.note("answer", n.id, f.client.id, f.need)
	t.answered++
	if f.need > uint64(len(t.history)) {
		s.fail("node %d answers with record %d, and %d are committed", n.id, f.need, len(t.history))
		return
	}
	for _, r := range f.made {
		if seq := recordSeq(r); string(t.history[seq-1]) != string(r) {
			s.fail("node %d answers that record %d is done, which is another one", n.id, seq)
		}
	}
	for i, op := range f.ops {
		if op.ref != 0 && t.refs[op.ref] != f.seqs[i] {
			s.fail("node %d answers that ref %x is record %d, it is %d", n.id, op.ref, f.seqs[i], t.refs[op.ref])
		}
		if op.ref == 0 && f.seqs[i] < f.floor {
			s.fail("node %d answers a query of record %d as of %d", n.id, f.floor, f.seqs[i])
		}
	}
	t.told = max(t.told, f.need)
}

// judgeMemory: what is resident of Raft's log is bounded. One message may come on top of
// what a follower accepts; a leader may have UnderWayMax batches under way.
func (s *sim) judgeMemory(n *simNode) {
	if most := s.weather.logBytesMax + 256<<10; n.core.log.bytes > most {
		s.fail("node %d holds %d bytes of Raft's log, at most %d are allowed", n.id, n.core.log.bytes, most)
	}
}

// judgeReceived: the vote of a node that has lost its disk is not counted.
func (s *sim) judgeReceived(n, from *simNode, name Identity, m *raftpb.Message) {
	vote := m.GetType() == raftpb.MsgVoteResp && !m.GetReject()
	if vote && from.lost && name == from.name() && n.core.admitted(from.id) != (Identity{}) {
		s.fail("node %d counts a vote of node %d, which has lost its disk", n.id, from.id)
	}
}

// judgeBroken: only a node whose bytes were changed may find that its history differs.
func (s *sim) judgeBroken(n *simNode, err error) {
	switch {
	case n.flipped:
		s.after(0, func() { s.replace(n) })
	case n.lost, n.idle:
	default:
		s.fail("node %d is broken, and nothing was done to it: %v", n.id, err)
	}
}

// wellAgain reports whether all clients have their answers and all nodes agree.
func (s *sim) wellAgain() bool { return s.unwell() == "" }

func (s *sim) unwell() string {
	if s.ops.busy() {
		return "a change of members is under way"
	}
	for _, c := range s.clients {
		if !c.quiet {
			return fmt.Sprintf("client %d has %d answers", c.id, c.answered)
		}
	}
	for _, n := range s.nodes {
		if !s.expected(n) {
			continue
		}
		if !n.up() {
			return fmt.Sprintf("node %d is down", n.id)
		}
		if n.journal.synced != uint64(len(s.truth.history)) {
			return fmt.Sprintf("node %d has %d records of %d", n.id, n.journal.synced, len(s.truth.history))
		}
	}
	return ""
}

// expected reports whether n is one that has to work at the end.
func (s *sim) expected(n *simNode) bool { return !n.idle }

// judge is the end: all nodes have one history.
func (s *sim) judge() {
	for _, n := range s.nodes {
		if s.expected(n) && !slices.EqualFunc(n.journal.records, s.truth.history, func(a, b []byte) bool {
			return string(a) == string(b)
		}) {
			s.fail("node %d has another history than the others", n.id)
		}
	}
	if s.truth.told > uint64(len(s.truth.history)) {
		s.fail("record %d was told, and the history ends with %d", s.truth.told, len(s.truth.history))
	}
}
