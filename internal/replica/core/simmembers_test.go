package core

import (
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// simOperator is the person who changes members. The operator has one task at a time and repeats it
// until it is done.
type simOperator struct {
	s      *sim
	change func(lead *simNode) bool // reports whether the task is done; nil if there is no task
}

func (o *simOperator) busy() bool { return o.change != nil }

// begin gives the operator a task that starts in d.
func (o *simOperator) begin(d int64, change func(lead *simNode) bool) {
	o.change = change
	o.s.after(d, o.work)
}

func (o *simOperator) work() {
	if o.change == nil {
		return
	}
	if lead := o.s.leader(); lead != nil {
		lead.later(0, func() {
			if o.change != nil && lead.leadTerm != 0 && o.change(lead) {
				o.change = nil
			}
		})
	}
	o.s.after(o.s.between(50*millisecond, 300*millisecond), o.work)
}

// leader returns the node that leads the latest term.
func (s *sim) leader() *simNode {
	var lead *simNode
	for _, n := range s.nodes {
		if n.leadTerm != 0 && s.now >= n.stopped && (lead == nil || n.leadTerm > lead.leadTerm) {
			lead = n
		}
	}
	return lead
}

// try proposes a change. It may be refused; the operator checks the members later.
func (n *simNode) try(c MemberChange) {
	err := n.core.Change(c)
	refused := uint64(0)
	if err != nil {
		refused = 1
	}
	n.s.note("change", n.id, uint64(len(c.Add)*100+len(c.Promote)*10+len(c.Remove)), refused)
}

// role reports whether a number is a member, and whether it votes, according to lead.
func (n *simNode) role(id uint64) (member, voter bool) {
	return n.core.now.has(id), n.core.now.votes(id)
}

// admit makes the machine a learner and then a voter, in place of out unless that is 0. It reports
// whether that is done.
func (s *sim) admit(lead, n *simNode, out uint64) bool {
	member, voter := lead.role(n.id)
	old, _ := lead.role(out)
	switch {
	case !member:
		lead.try(MemberChange{Add: []Member{{ID: n.id, Identity: n.name(), Address: n.address()}}})
	case !voter && old:
		lead.try(MemberChange{Promote: []uint64{n.id}, Remove: []uint64{out}})
	case !voter:
		lead.try(MemberChange{Promote: []uint64{n.id}})
	default:
		return len(lead.core.now.conf.GetVotersOutgoing()) == 0
	}
	return false
}

// renew gives a machine an empty disk before it is added. Sometimes its journal is restored from
// another node's backup.
func (n *simNode) renew() {
	s := n.s
	n.end()
	n.disk, n.journal = newSimDisk(s.newName(), Mark{}), &simJournal{}
	if p := s.any(); p != n && p.broken == nil && s.chance(50) {
		n.journal.records = append(n.journal.records, p.journal.records[:p.journal.synced]...)
		n.journal.synced = n.journal.last()
	}
	n.broken, n.lost, n.idle, n.flipped, n.flip = nil, false, false, false, false
	s.note("renewed", n.id, n.journal.last(), 0)
	n.start()
}

// replace repairs a node whose disk was lost or whose history differs. Its number is removed and
// added again with an empty disk.
func (s *sim) replace(n *simNode) {
	renewed := false
	s.ops.begin(s.between(500*millisecond, 3*second), func(lead *simNode) bool {
		if member, _ := lead.role(n.id); member && !renewed {
			lead.try(MemberChange{Remove: []uint64{n.id}})
			return false
		}
		if !renewed {
			renewed = true
			n.renew()
		}
		return s.admit(lead, n, 0)
	})
}

// changeMembers adds a machine, removes one, or replaces one by another.
func (s *sim) changeMembers() {
	lead := s.leader()
	if s.ops.busy() || lead == nil || !s.sound() {
		return
	}
	voters := lead.core.now.conf.GetVoters()
	out := voters[s.rnd.IntN(len(voters))]
	if len(voters) > 3 && s.chance(50) {
		s.note("remove", out, 0, 0)
		s.ops.begin(0, func(lead *simNode) bool {
			if member, _ := lead.role(out); member {
				lead.try(MemberChange{Remove: []uint64{out}})
				return false
			}
			s.retire(out)
			return true
		})
		return
	}
	if len(voters) < 5 && s.chance(50) {
		out = 0
	}
	n := s.spareMachine()
	if n == nil {
		return
	}
	s.note("add", n.id, out, 0)
	s.ops.begin(0, func(lead *simNode) bool {
		if !s.admit(lead, n, out) {
			return false
		}
		if out != 0 {
			s.retire(out)
		}
		return true
	})
}

// retire stops a removed machine. It runs for a while longer and must do no harm.
func (s *sim) retire(id uint64) {
	n := s.node(id)
	n.idle = true
	s.after(s.between(0, 3*second), func() {
		if n.idle && n.up() {
			n.end()
			n.disk.crash(s)
		}
	})
}

// spareMachine returns a machine that is not a member and has an empty disk.
func (s *sim) spareMachine() *simNode {
	for _, n := range s.nodes {
		if n.idle && !n.up() {
			n.renew()
			return n
		}
	}
	if len(s.nodes) == simNodesMax {
		return nil
	}
	n := s.addNode(uint64(len(s.nodes))+1, Mark{})
	n.start()
	return n
}

// sound reports whether all machines are intact, so that one may be lost.
func (s *sim) sound() bool {
	for _, n := range s.nodes {
		if !n.idle && (n.broken != nil || n.lost || n.flip || n.flipped) {
			return false
		}
	}
	return !s.ops.busy()
}

// spared reports whether the cluster can continue without n for good. All members must know each
// other's identities, which the first leaders publish; before that, a node with a lost disk could
// return with another identity unnoticed. And a majority of the others must know the members.
func (s *sim) spared(n *simNode) bool {
	lead := s.leader()
	if n.idle || !s.sound() || lead == nil {
		return false
	}
	know := map[uint64]bool{}
	conf := lead.core.now.conf
	for _, p := range s.nodes {
		if !p.up() {
			continue
		}
		for _, m := range p.core.now.members {
			_ = m
		}
		know[p.id] = p != n && proto.Equal(conf, p.core.now.conf)
	}
	return len(conf.GetVotersOutgoing()) == 0 && majority(conf.GetVoters(), know)
}

// loseDisk restarts a machine with empty disks. It may try to found the cluster again; the others
// must refuse it until the operator has replaced it.
func (s *sim) loseDisk() {
	n := s.leaderOrAny()
	if !s.spared(n) {
		return
	}
	s.note("lose disk", n.id, n.journal.last(), 0)
	n.end()
	n.before = &simNode{s: s, id: n.id, disk: n.disk, journal: n.journal}
	n.disk, n.journal = newSimDisk(s.newName(), s.mark), &simJournal{}
	n.lost = true
	s.after(s.between(50*millisecond, second), n.start)
	s.replace(n)
}

// foundingMark returns the start of the logs of all founders.
func (s *sim) foundingMark(nodes uint64) Mark {
	m := Mark{Index: 1, Term: 1, Conf: &raftpb.ConfState{}}
	for id := uint64(1); id <= nodes; id++ {
		m.Conf.Voters = append(m.Conf.Voters, id)
		m.Members = append(m.Members, Member{ID: id, Address: address(id)})
	}
	return m
}

// foundAlone makes a single node with a history, which grows to three nodes in one joint change.
func (s *sim) foundAlone() {
	m := s.foundingMark(1)
	n := s.addNode(1, m)
	for seq := uint64(1); seq <= s.weather.alone; seq++ {
		r := recordOf(s, seq, 0, 1<<62|seq)
		n.journal.records = append(n.journal.records, r)
		s.truth.history, s.truth.terms = append(s.truth.history, r), append(s.truth.terms, 0)
		s.truth.refs[recordRef(r)] = seq
	}
	n.journal.synced, m.Seq = s.weather.alone, s.weather.alone
	n.disk.base.Mark, s.mark = m, m
	two, three := s.addNode(2, Mark{}), s.addNode(3, Mark{})
	s.ops.begin(second, func(lead *simNode) bool {
		learners := lead.core.now.conf.GetLearners()
		if _, done := lead.role(3); done {
			return len(lead.core.now.conf.GetVotersOutgoing()) == 0
		}
		if len(learners) < 2 {
			lead.try(MemberChange{Add: []Member{{ID: 2, Identity: two.name(), Address: two.address()},
				{ID: 3, Identity: three.name(), Address: three.address()}}})
		} else {
			lead.try(MemberChange{Promote: []uint64{2, 3}})
		}
		return false
	})
}

// countLearner is the bug that a learner's responses count as those of a voter.
func (n *simNode) countLearner(m *raftpb.Message) {
	if m.GetType() != raftpb.MsgAppResp || m.GetReject() || n.core.now.votes(m.GetFrom()) {
		return
	}
	for _, id := range n.core.now.conf.GetVoters() {
		if id != n.id && n.met[id] != (Identity{}) {
			c := proto.Clone(m).(*raftpb.Message)
			c.From = new(id)
			n.core.Receive(n.met[id], c)
			return
		}
	}
}
