package core

import (
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// simOperator is the person who changes members: one task at a time, tried again and again.
type simOperator struct {
	s      *sim
	change func(lead *simNode) bool // reports whether the task is done; nil: there is none
}

func (o *simOperator) busy() bool { return o.change != nil }

// begin has the operator work on a task from d on.
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

// leader is the node that leads the latest term.
func (s *sim) leader() *simNode {
	var lead *simNode
	for _, n := range s.nodes {
		if n.leadTerm != 0 && s.now >= n.stopped && (lead == nil || n.leadTerm > lead.leadTerm) {
			lead = n
		}
	}
	return lead
}

// try proposes a change, which may be refused; the operator looks at the members again later.
func (n *simNode) try(c MemberChange) {
	err := n.core.Change(c)
	refused := uint64(0)
	if err != nil {
		refused = 1
	}
	n.s.note("change", n.id, uint64(len(c.Add)*100+len(c.Promote)*10+len(c.Remove)), refused)
}

// role is what lead knows of a number: whether it is a member, and whether it votes.
func (n *simNode) role(id uint64) (member, voter bool) {
	return n.core.now.has(id), n.core.now.votes(id)
}

// admit makes the machine a voter, in place of another if out is not 0: as a learner
// first. It reports whether that is done.
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

// renew gives a machine an empty disk, as one has that is to be added. Sometimes its
// journal is restored from the backup of another node first.
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

// replace mends a node whose disk was lost, or whose history differs: its number is
// removed, and added again with an empty disk.
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

// changeMembers adds a machine, removes one, or puts one in the place of another.
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

// retire is the end of a machine that was removed: it runs on for a while, and must do no harm.
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

// spareMachine is one that is no member and has an empty disk.
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

// sound reports whether no machine is gone for good, so that one may be.
func (s *sim) sound() bool {
	for _, n := range s.nodes {
		if !n.idle && (n.broken != nil || n.lost || n.flip || n.flipped) {
			return false
		}
	}
	return !s.ops.busy()
}

// spared reports whether the cluster goes on without n, for good: all members know one
// another's names, which the first leaders tell (a disk that is lost before could come back
// as another without anybody knowing), and a majority of the others know who is a member.
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

// loseDisk has a machine come back with empty disks. It may believe that it founds the
// cluster; the others must not let it in until the operator has replaced it.
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

// foundingMark is where the logs of all founders begin.
func (s *sim) foundingMark(nodes uint64) Mark {
	m := Mark{Index: 1, Term: 1, Conf: &raftpb.ConfState{}}
	for id := uint64(1); id <= nodes; id++ {
		m.Conf.Voters = append(m.Conf.Voters, id)
		m.Members = append(m.Members, Member{ID: id, Address: address(id)})
	}
	return m
}

// foundAlone makes a single node with a history, which grows to three in one joint step.
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

// countLearner is the bug that a learner's word counts as a voter's as well.
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
