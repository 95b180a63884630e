package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// simTruth is the knowledge of an observer who sees all nodes at once.
type simTruth struct {
	history  [][]byte // committed records, as first reported by any node
	terms    []uint64 // for each record the term of the node that first reported it
	time     int64
	refs     map[uint64]uint64
	revealed uint64            // highest record that an answer has revealed
	leaders  map[uint64]uint64 // leader of each term
	votes    map[simVote]uint64
	answered int
	confs    []*raftpb.ConfState // all configurations of the cluster, in order
}

type simVote struct {
	name Identity
	term uint64
}

// judgeCommits checks that a committed record is on the disks of a majority, follows the previous
// committed record, and is the same on all nodes.
func (s *sim) judgeCommits(n *simNode, commits []Commit) {
	t := &s.truth
	for _, c := range commits {
		s.note("commit", n.id, c.First, uint64(len(c.Records)))
		for i, r := range c.Records {
			seq := c.First + uint64(i)
			if seq <= uint64(len(t.history)) {
				if string(t.history[seq-1]) != string(r) {
					s.fail("node %d committed a record %d that differs from the others'", n.id, seq)
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
		s.fail("node %d committed record %d (with seq %d) after record %d", n.id, seq, recordSeq(r), len(t.history))
		return
	}
	if recordTime(r) < t.time {
		s.fail("node %d: the time of record %d is %d, before that of the last, %d", n.id, seq, recordTime(r), t.time)
	}
	if first, ok := t.refs[recordRef(r)]; ok {
		s.fail("node %d: ref %x of record %d was already done by record %d", n.id, recordRef(r), seq, first)
	}
	if !s.durable(n, seq, r) {
		s.fail("node %d committed record %d, which is not on the disks of a majority", n.id, seq)
	}
	t.history, t.terms = append(t.history, r), append(t.terms, n.core.Status().Term)
	t.time = recordTime(r)
	t.refs[recordRef(r)] = seq
}

// durable reports whether r is on the disks of a majority, or was on one before the disk was lost. The leader that
// committed r may not have applied the last membership changes yet, and the first node to report r may have applied
// more. So a majority of any of the last configurations is sufficient.
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

// judgeConf records the configuration of a node.
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

// confsPast is the number of configurations whose majority may have committed a record.
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

// judgeLeads checks that the leader of a term has all records that were committed in earlier terms.
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

// judgeSent checks that each term has one leader and that no node votes twice in it.
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

// judgeJournal checks that the last records of a journal equal those of the history.
func (s *sim) judgeJournal(n *simNode, last int) {
	have := n.journal.records
	if len(have) > len(s.truth.history) {
		s.fail("node %d has record %d, but only %d are committed", n.id, len(have), len(s.truth.history))
		return
	}
	for i := len(have) - last; i < len(have); i++ {
		if string(have[i]) != string(s.truth.history[i]) {
			s.fail("record %[2]d of node %[1]d differs from the history", n.id, i+1)
		}
	}
}

// judgeAnswer checks that the records that an answer reveals are committed and in their places, and that it is not
// older than what other answers revealed before the frame was sent.
func (s *sim) judgeAnswer(n *simNode, f *simFrame) {
	t := &s.truth
	s.note("answer", n.id, f.client.id, f.need)
	t.answered++
	if f.need > uint64(len(t.history)) {
		s.fail("node %d answers with record %d, but only %d are committed", n.id, f.need, len(t.history))
		return
	}
	for _, r := range f.made {
		if seq := recordSeq(r); string(t.history[seq-1]) != string(r) {
			s.fail("node %d answers that record %d is done, but another record has that place", n.id, seq)
		}
	}
	for i, op := range f.ops {
		if op.ref != 0 && t.refs[op.ref] != f.seqs[i] {
			s.fail("node %d answers that ref %x is record %d, but it is %d", n.id, op.ref, f.seqs[i], t.refs[op.ref])
		}
		if op.ref == 0 && f.seqs[i] < f.floor {
			s.fail("node %d answers a query that needs record %d as of record %d", n.id, f.floor, f.seqs[i])
		}
	}
	t.revealed = max(t.revealed, f.need)
}

// judgeMemory checks that the memory of Raft's log is limited. Above its limit a follower may hold
// one more message, and a leader UnderWayMax batches.
func (s *sim) judgeMemory(n *simNode) {
	if most := s.weather.logBytesMax + 256<<10; n.core.log.bytes > most {
		s.fail("node %d holds %d bytes of Raft's log, at most %d are allowed", n.id, n.core.log.bytes, most)
	}
}

// judgeReceived checks that the vote of a node that has lost its disk does not count.
func (s *sim) judgeReceived(n, from *simNode, name Identity, m *raftpb.Message) {
	vote := m.GetType() == raftpb.MsgVoteResp && !m.GetReject()
	if vote && from.lost && name == from.name() && n.core.admitted(from.id) != (Identity{}) {
		s.fail("node %d counts a vote of node %d, which has lost its disk", n.id, from.id)
	}
}

// judgeBroken checks that a node becomes broken only if one of its bytes was changed.
func (s *sim) judgeBroken(n *simNode, err error) {
	switch {
	case n.flipped:
		s.after(0, func() { s.replace(n) })
	case n.lost, n.idle:
	default:
		s.fail("node %d is broken, but nothing was done to it: %v", n.id, err)
	}
}

// wellAgain reports whether all clients have their answers and all nodes have the whole history.
func (s *sim) wellAgain() bool { return s.unwell() == "" }

func (s *sim) unwell() string {
	if s.ops.busy() {
		return "a membership change is in progress"
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

// expected reports whether n must work at the end.
func (s *sim) expected(n *simNode) bool { return !n.idle }

// judge checks at the end that all nodes have the same history.
func (s *sim) judge() {
	for _, n := range s.nodes {
		if s.expected(n) && !slices.EqualFunc(n.journal.records, s.truth.history, func(a, b []byte) bool {
			return string(a) == string(b)
		}) {
			s.fail("the history of node %d differs from the others'", n.id)
		}
	}
	if s.truth.revealed > uint64(len(s.truth.history)) {
		s.fail("record %d was revealed, but the history ends with %d", s.truth.revealed, len(s.truth.history))
	}
}
