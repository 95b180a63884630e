package core

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// membership is who the log says is in the cluster. It is never changed, but replaced.
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

// votes reports whether the node votes, now or until a change under way is over.
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

// set returns the members with one added or replaced.
func set(members []Member, m Member) []Member {
	i, found := slices.BinarySearchFunc(members, m.ID, func(v Member, id uint64) int { return cmp.Compare(v.ID, id) })
	members = slices.Clone(members)
	if found {
		members[i] = m
		return members
	}
	return slices.Insert(members, i, m)
}

// admitted returns the identity of a peer that was heard, and whose messages count; zero
// if there is none. What the log says of its number comes first, even if that came later.
func (n *Node) admitted(id uint64) Identity {
	heard, pinned := n.letIn[id], n.now.member(id).Identity
	if pinned == (Identity{}) {
		pinned = n.heard[id]
	}
	if pinned != heard || slices.Contains(n.now.removed, heard) {
		return Identity{}
	}
	return heard
}

// requests are the messages that ask for an entry or a vote.
var requests = []raftpb.MessageType{
	raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap, raftpb.MsgVote, raftpb.MsgPreVote,
}

// asks reports whether the message is a request of a peer that was let in. What it asks
// for is given to a term, not to a number: so its identity may be one that the log does
// not have yet. Its answers, which raft counts by number, do not count until then.
func (n *Node) asks(m *raftpb.Message) bool {
	heard := n.letIn[m.GetFrom()]
	return heard != (Identity{}) && !slices.Contains(n.now.removed, heard) && slices.Contains(requests, m.GetType())
}

// known returns the identity of a member: what the log has, or was heard and is written.
func (n *Node) known(id uint64) Identity {
	pinned := n.now.member(id).Identity
	switch {
	case pinned != Identity{}:
		return pinned
	case id == n.id:
		return n.self
	}
	return n.admitted(id)
}

// unpinned reports whether a member was heard whose identity the log does not have.
func (n *Node) unpinned() bool {
	return slices.ContainsFunc(n.now.members, func(m Member) bool {
		return m.Identity == Identity{} && n.known(m.ID) != Identity{}
	})
}

// commitPins takes over what the log did not have. The first leader of all names the
// cluster.
func (n *Node) commitPins(e *raftpb.Entry) error {
	p, err := decodePins(e.GetData())
	if err != nil {
		return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
	}
	if e.GetTerm() == n.lead.term {
		n.lead.proposed = false
		if n.lead.opened == 0 {
			n.lead.opened = e.GetIndex()
		}
	}
	if p.term != e.GetTerm() {
		return nil
	}
	m := *n.now.membership
	if m.cluster == (Identity{}) {
		m.cluster = p.cluster
	}
	for _, v := range p.members {
		old := m.member(v.ID)
		if old.Identity == (Identity{}) && m.has(v.ID) {
			old.Identity = v.Identity
			m.members = set(m.members, old)
		}
	}
	return n.become(&m)
}

// become makes m the membership.
func (n *Node) become(m *membership) error {
	n.now.membership = m
	return n.checkSelf(m)
}

// checkSelf returns an error if the cluster knows another node under this one's number.
func (n *Node) checkSelf(m *membership) error {
	if pinned := m.member(n.id).Identity; pinned != (Identity{}) && pinned != n.self {
		return fmt.Errorf("core: node %d is %v, and the cluster knows %v under this number: "+
			"it was replaced, or has lost its data", n.id, n.self, pinned)
	}
	return nil
}

// hello is a Heard that waits for its sync.
type hello struct {
	mark     uint64
	id       uint64
	identity Identity
}

// Heard says that a connection to or from a peer told who it is, and the identity of its
// cluster (zero if it knows none). The first identity of a number is written down, and
// the peer's messages are dropped until that is synced. Another identity is refused, as a
// node that has lost its data; but one that knows this cluster was added to it, so this
// node is behind: of that peer, requests alone count until the log has it.
// An error names the reason why the connection has to be refused; then nothing has changed.
func (n *Node) Heard(m Member, cluster Identity) error {
	if n.broken != nil {
		return n.broken
	}
	first := n.now.member(m.ID).Identity
	pinned := first != Identity{}
	if !pinned {
		first = n.heard[m.ID]
	}
	switch {
	case m.ID == 0 || raft.IsLocalMsgTarget(m.ID) || m.Identity == Identity{}:
		return fmt.Errorf("core: a peer that calls itself node %d with identity %v", m.ID, m.Identity)
	case m.ID == n.id:
		return fmt.Errorf("core: a peer has this node's number, %d: every node needs its own", m.ID)
	case cluster != Identity{} && n.now.cluster != Identity{} && cluster != n.now.cluster:
		return fmt.Errorf("core: node %d belongs to the cluster %v, this one to %v", m.ID, cluster, n.now.cluster)
	case slices.Contains(n.now.removed, m.Identity):
		return fmt.Errorf("core: node %d, %v, was removed from the cluster: begin with an empty directory, and add it again",
			m.ID, m.Identity)
	case first == Identity{} && len(n.heard) >= heardMax && !n.now.has(m.ID):
		return fmt.Errorf("core: node %d is one of too many that were heard and are no members, %d", m.ID, heardMax)
	case first == Identity{}:
		n.heard[m.ID] = m.Identity
		n.hellos++
		n.waiting = append(n.waiting, hello{n.hellos, m.ID, m.Identity})
		n.writeHeard(m, n.hellos)
	case first != m.Identity && (cluster == Identity{} || cluster != n.now.cluster):
		return fmt.Errorf("core: node %d is %v, and the cluster knows %v under this number: "+
			"if it has lost its data, it could vote twice; replace it (outcry cluster replace %d)",
			m.ID, m.Identity, first, m.ID)
	case first != m.Identity, pinned, !n.writingDown(m.ID):
		n.letIn[m.ID] = m.Identity
	}
	return nil
}

func (n *Node) writingDown(id uint64) bool {
	return slices.ContainsFunc(n.waiting, func(h hello) bool { return h.id == id })
}

// writeHeard writes an identity down. The message that comes back with Written says so.
func (n *Node) writeHeard(m Member, mark uint64) {
	w := n.writing()
	w.Heard = append(w.Heard, m)
	if mark != 0 {
		w.After = append(w.After, &raftpb.Message{Type: raftpb.MsgStorageAppendResp.Enum(), To: new(n.id),
			Context: binary.BigEndian.AppendUint64(nil, mark)})
	}
}

func (n *Node) heardSynced(ctx []byte) {
	s := scanner{rest: ctx}
	mark := s.uint64()
	for len(n.waiting) > 0 && n.waiting[0].mark <= mark {
		h := n.waiting[0]
		n.waiting = n.waiting[1:]
		if n.heard[h.id] == h.identity {
			n.letIn[h.id] = h.identity
		}
	}
}

// MemberChange is a change of who is in the cluster, all of it at once. A voter is
// replaced by adding a learner, and then promoting it and removing the other in one
// change; a lost node that keeps its number is removed first, and then added.
type MemberChange struct {
	Add     []Member // as learners; an identity that is zero is pinned once it is heard
	Promote []uint64 // learners that have nearly all entries, to voters
	Remove  []uint64
}

// ErrChanging is returned by Change while another change is under way.
var ErrChanging = errors.New("core: a change of members is under way")

// promoteLag is how many entries a learner may lack to become a voter.
const promoteLag = 64

// Change proposes a change of members; Status tells when it has happened. It returns
// ErrNotLeading, ErrChanging, ErrBusy during a transfer, or an error that names what
// cannot be; then nothing is proposed.
func (n *Node) Change(c MemberChange) error {
	err := ErrNotLeading
	n.run(func() {
		switch {
		case !n.lead.told:
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

// plan checks a change, and makes it raft's. One change alone is simple, several are joint.
func (n *Node) plan(c MemberChange) (*raftpb.ConfChangeV2, error) {
	cc := &raftpb.ConfChangeV2{Transition: raftpb.ConfChangeTransitionAuto.Enum()}
	if size := len(c.Add) + len(c.Promote) + len(c.Remove); size == 0 {
		return nil, errors.New("core: a change of no member")
	}
	seen, voters := map[uint64]bool{}, slices.Clone(n.now.conf.GetVoters())
	once := func(id uint64, t raftpb.ConfChangeType) error {
		if seen[id] {
			return fmt.Errorf("core: node %d comes twice in a change", id)
		}
		seen[id] = true
		cc.Changes = append(cc.Changes, &raftpb.ConfChangeSingle{Type: t.Enum(), NodeId: new(id)})
		return nil
	}
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
			return nil, fmt.Errorf("core: node %d is no member", id)
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
		return nil, fmt.Errorf("core: of the voters that would be left, %v, only %d answer: no majority", voters, active)
	}
	cc.Context = appendMembers(nil, c.Add)
	return cc, nil
}

func (n *Node) mayAdd(m Member) error {
	switch {
	case m.ID == 0 || raft.IsLocalMsgTarget(m.ID):
		return errors.New("core: node 0: numbers are 1 and up")
	case n.now.has(m.ID):
		return fmt.Errorf("core: node %d is a member already", m.ID)
	case len(n.now.members) >= membersMax:
		return fmt.Errorf("core: node %d would be one of more than %d members", m.ID, membersMax)
	case m.Address == "" || len(m.Address) > addressBytesMax:
		return fmt.Errorf("core: node %d with the address %.64q", m.ID, m.Address)
	case m.Identity != Identity{} && slices.Contains(n.now.removed, m.Identity):
		return fmt.Errorf("core: node %d, %v, was removed: it has to begin with an empty directory", m.ID, m.Identity)
	}
	return nil
}

func (n *Node) mayPromote(id uint64) error {
	if !slices.Contains(n.now.conf.GetLearners(), id) {
		return fmt.Errorf("core: node %d is no learner", id)
	}
	if !n.active(id) || n.now.member(id).Identity == (Identity{}) {
		return fmt.Errorf("core: node %d has not answered lately", id)
	}
	if match := n.matched(id); match < max(n.confAt, n.log.mark.Index) || match+promoteLag < n.log.last() {
		return fmt.Errorf("core: node %d has entries up to %d of %d: it becomes a voter when it has nearly all",
			id, match, n.log.last())
	}
	return nil
}

// commitChange makes a committed change the configuration.
func (n *Node) commitChange(e *raftpb.Entry) error {
	cc := &raftpb.ConfChangeV2{}
	err := proto.Unmarshal(e.GetData(), cc)
	if e.GetType() == raftpb.EntryConfChange {
		err = fmt.Errorf("of a kind that is not used")
	}
	var added []Member
	if err == nil && len(cc.GetContext()) > 0 {
		added, err = decodeMembers(cc.GetContext())
	}
	if err != nil {
		return fmt.Errorf("core: entry %d, a change of members: %w", e.GetIndex(), err)
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

// forget lets a number be another node's, and the removed one never come back.
func (n *Node) forget(v Member, m *membership) {
	if v.Identity != (Identity{}) {
		m.removed = append(slices.Clone(m.removed), v.Identity)
		m.removed = m.removed[max(0, len(m.removed)-removedMax):]
	}
	// A start reads again what was long ago: then another node may be heard already.
	if first, ok := n.heard[v.ID]; ok && (v.Identity == Identity{} || v.Identity == first) {
		if n.letIn[v.ID] == first {
			delete(n.letIn, v.ID)
		}
		delete(n.heard, v.ID)
		n.writeHeard(Member{ID: v.ID}, 0)
	}
}
