package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// membership is the set of nodes that the log names as the cluster. It is immutable; a change
// replaces it.
type membership struct {
	cluster Identity
	conf    *raftpb.ConfState
	members []Member
	removed []Identity
}

func stateOf(m *Mark) state {
	return state{m.Position, &membership{m.Cluster, m.Conf, m.Members, m.Removed}}
}

func (s state) mark(index, term uint64) *Mark {
	return &Mark{Index: index, Term: term, Cluster: s.cluster, Conf: s.conf, Members: s.members,
		Removed: s.removed, Position: s.Position}
}

// votes reports whether the node votes, in the current configuration or in the outgoing one of a
// change in progress.
func (m *membership) votes(id uint64) bool {
	return slices.Contains(m.conf.GetVoters(), id) || slices.Contains(m.conf.GetVotersOutgoing(), id)
}

// has reports whether the node is a voter or a learner.
func (m *membership) has(id uint64) bool {
	return m.votes(id) || slices.Contains(m.conf.GetLearners(), id) || slices.Contains(m.conf.GetLearnersNext(), id)
}

func (m *membership) member(id uint64) Member {
	for _, v := range m.members {
		if v.ID == id {
			return v
		}
	}
	return Member{ID: id}
}

// set returns a copy of members with m added or replaced.
func set(members []Member, m Member) []Member {
	i, found := slices.BinarySearchFunc(members, m.ID, func(v Member, id uint64) int { return cmp.Compare(v.ID, id) })
	members = slices.Clone(members)
	if found {
		members[i] = m
		return members
	}
	return slices.Insert(members, i, m)
}

// become replaces the membership by m.
func (n *Node) become(m *membership) error {
	n.now.membership = m
	return n.checkSelf(m)
}

// checkSelf returns an error if m has another identity for this node's number.
func (n *Node) checkSelf(m *membership) error {
	if pinned := m.member(n.id).Identity; pinned != (Identity{}) && pinned != n.self {
		return fmt.Errorf("core: node %d has the identity %v, but the cluster knows %v under this number: "+
			"it was replaced, or has lost its data", n.id, n.self, pinned)
	}
	return nil
}

// MemberChange is a set of membership changes that take effect together. To replace a voter, add a
// learner first; then promote it and remove the old voter in one change. To replace a lost node
// under the same number, remove it, then add it.
type MemberChange struct {
	Add     []Member // become learners; a zero identity is pinned once it is heard
	Promote []uint64 // learners with nearly all entries, which become voters
	Remove  []uint64
}

// ErrChanging is returned by Change while another change is in progress.
var ErrChanging = errors.New("core: a membership change is in progress")

// promoteLag is how many entries a learner may lack to become a voter.
const promoteLag = 64

// Change proposes a membership change; Status shows when it has taken effect. It returns
// ErrNotLeading, ErrChanging, ErrBusy during a transfer, or an error that names what is invalid;
// then nothing is proposed.
func (n *Node) Change(c MemberChange) error {
	err := ErrNotLeading
	n.run(func() {
		switch {
		case !n.lead.announced:
			return
		case n.raft.BasicStatus().LeadTransferee != 0:
			err = ErrBusy
			return
		case n.lead.changing || len(n.now.conf.GetVotersOutgoing()) > 0 || n.acked < n.confAt:
			err = ErrChanging
			return
		}
		var cc *raftpb.ConfChangeV2
		if cc, err = n.plan(c); err != nil {
			return
		}
		err = n.raft.ProposeConfChange(cc)
		n.lead.changing = err == nil
		n.observe()
	})
	return err
}

// plan checks a change and converts it for raft, which applies one change simply and several as a
// joint change.
func (n *Node) plan(c MemberChange) (*raftpb.ConfChangeV2, error) {
	cc := &raftpb.ConfChangeV2{Transition: raftpb.ConfChangeTransitionAuto.Enum()}
	if size := len(c.Add) + len(c.Promote) + len(c.Remove); size == 0 {
		return nil, errors.New("core: a membership change is empty")
	}
	seen, voters := map[uint64]bool{}, slices.Clone(n.now.conf.GetVoters())
	once := func(id uint64, t raftpb.ConfChangeType) error {
		if seen[id] {
			return fmt.Errorf("core: node %d appears twice in a membership change", id)
		}
		seen[id] = true
		cc.Changes = append(cc.Changes, &raftpb.ConfChangeSingle{Type: t.Enum(), NodeId: new(id)})
		return nil
	}
	c.Add = slices.Clone(c.Add)
	for i, m := range c.Add {
		if c.Add[i].Identity == (Identity{}) {
			c.Add[i].Identity = n.admitted(m.ID)
		}
		if err := errors.Join(n.mayAdd(c.Add[i]), once(m.ID, raftpb.ConfChangeAddLearnerNode)); err != nil {
			return nil, err
		}
	}
	for _, id := range c.Promote {
		if err := errors.Join(n.mayPromote(id), once(id, raftpb.ConfChangeAddNode)); err != nil {
			return nil, err
		}
		voters = append(voters, id)
	}
	for _, id := range c.Remove {
		if !n.now.has(id) {
			return nil, fmt.Errorf("core: node %d is not a member", id)
		}
		if err := once(id, raftpb.ConfChangeRemoveNode); err != nil {
			return nil, err
		}
		voters = slices.DeleteFunc(voters, func(v uint64) bool { return v == id })
	}
	active := 0
	for _, id := range voters {
		if n.active(id) {
			active++
		}
	}
	if active <= len(voters)/2 {
		return nil, fmt.Errorf("core: the change would leave the voters %v, and only %d answer: no majority", voters, active)
	}
	cc.Context = appendMembers(nil, c.Add)
	return cc, nil
}

func (n *Node) mayAdd(m Member) error {
	switch {
	case m.ID == 0 || raft.IsLocalMsgTarget(m.ID):
		return errors.New("core: node 0: node numbers start at 1")
	case n.now.has(m.ID):
		return fmt.Errorf("core: node %d is already a member", m.ID)
	case len(n.now.members) >= membersMax:
		return fmt.Errorf("core: node %d cannot be added: the limit is %d members", m.ID, membersMax)
	case m.Address == "" || len(m.Address) > addressBytesMax:
		return fmt.Errorf("core: node %d has the invalid address %.64q", m.ID, m.Address)
	case m.Identity != Identity{} && slices.Contains(n.now.removed, m.Identity):
		return fmt.Errorf("core: node %d, %v, was removed: start it with an empty directory", m.ID, m.Identity)
	}
	return nil
}

func (n *Node) mayPromote(id uint64) error {
	if !slices.Contains(n.now.conf.GetLearners(), id) {
		return fmt.Errorf("core: node %d is not a learner", id)
	}
	if !n.active(id) || n.now.member(id).Identity == (Identity{}) {
		return fmt.Errorf("core: node %d has not answered lately", id)
	}
	if match := n.matched(id); match < max(n.confAt, n.log.mark.Index) || match+promoteLag < n.log.last() {
		return fmt.Errorf("core: node %d has entries up to %d of %d: it can become a voter once it has nearly all",
			id, match, n.log.last())
	}
	return nil
}

// commitChange applies a committed membership change.
func (n *Node) commitChange(e *raftpb.Entry) error {
	cc := &raftpb.ConfChangeV2{}
	err := proto.Unmarshal(e.GetData(), cc)
	if e.GetType() == raftpb.EntryConfChange {
		err = fmt.Errorf("entry type EntryConfChange is not used")
	}
	var added []Member
	if err == nil && len(cc.GetContext()) > 0 {
		added, err = decodeMembers(cc.GetContext())
	}
	if err != nil {
		return fmt.Errorf("core: membership change in entry %d: %w", e.GetIndex(), err)
	}
	m := *n.now.membership
	m.conf = n.raft.ApplyConfChange(cc)
	n.confAt = e.GetIndex()
	if e.GetTerm() == n.lead.term && len(cc.GetChanges()) > 0 {
		n.lead.changing = false
	}
	for _, v := range added {
		m.members = set(m.members, v)
	}
	var gone []Member
	m.members = slices.DeleteFunc(slices.Clone(m.members), func(v Member) bool {
		if !m.has(v.ID) {
			gone = append(gone, v)
		}
		return !m.has(v.ID)
	})
	for _, v := range gone {
		n.forget(v, &m)
	}
	return n.become(&m)
}
