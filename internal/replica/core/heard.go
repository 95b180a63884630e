package core

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// admitted returns the identity of a peer that was heard and whose messages count, or zero. An
// identity in the log takes precedence over the one heard first, even if it came later.
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

// requests are the types of messages that request an entry or a vote.
var requests = []raftpb.MessageType{
	raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap, raftpb.MsgVote, raftpb.MsgPreVote,
}

// asks reports whether the message is a request from an admitted peer. The reply to a request is bound to a term, not
// to a node number, so the log need not have the peer's identity yet. The peer's replies do not count until then,
// since raft counts them by number.
func (n *Node) asks(m *raftpb.Message) bool {
	heard := n.letIn[m.GetFrom()]
	return heard != (Identity{}) && !slices.Contains(n.now.removed, heard) && slices.Contains(requests, m.GetType())
}

// known returns the identity of a member that is in the log, or that was heard and written to disk.
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

// unpinned reports whether the identity of a member is known but not in the log yet.
func (n *Node) unpinned() bool {
	return slices.ContainsFunc(n.now.members, func(m Member) bool {
		return m.Identity == Identity{} && n.known(m.ID) != Identity{}
	})
}

// commitPins adds the identities that the log did not have yet. The cluster's identity comes from
// the first pins ever committed.
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
		if !slices.Equal(Numbers(m.members), Numbers(p.members)) {
			return fmt.Errorf("core: node %d was founded with the nodes %v, but its cluster with %v: "+
				"give all nodes the same --peers", n.id, Numbers(m.members), Numbers(p.members))
		}
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

// Numbers returns the numbers of members in the same order.
func Numbers(members []Member) []uint64 {
	all := make([]uint64, len(members))
	for i, m := range members {
		all[i] = m.ID
	}
	return all
}

// hello is an identity that was heard and is not synced yet.
type hello struct {
	mark     uint64
	id       uint64
	identity Identity
}

// Heard reports that a peer sent its identity over a connection, with the identity of its cluster
// (zero if it knows none). The node writes the first identity of a number to disk and drops the
// peer's messages until that is synced. It refuses another identity, which means that the peer has
// lost its data. The exception is a peer that knows this cluster: it was added under that number,
// and this node has not received the change yet. From such a peer only requests count until the log
// has its identity. A returned error says why the connection must be refused; then nothing has
// changed.
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
		return fmt.Errorf("core: a peer has an invalid number or identity: node %d, %v", m.ID, m.Identity)
	case m.ID == n.id:
		return fmt.Errorf("core: a peer has the same number as this node, %d: every node needs a number of its own", m.ID)
	case cluster != Identity{} && n.now.cluster != Identity{} && cluster != n.now.cluster:
		return fmt.Errorf("core: node %d belongs to the cluster %v, but this node to %v", m.ID, cluster, n.now.cluster)
	case slices.Contains(n.now.removed, m.Identity):
		return fmt.Errorf("%w: node %d, %v: start it with an empty directory, and add it again", ErrRemoved, m.ID, m.Identity)
	case first == Identity{} && len(n.heard) >= heardMax && !n.now.has(m.ID):
		return fmt.Errorf("core: node %d is refused, since %d nodes that are not members were heard already", m.ID, heardMax)
	case first == Identity{}:
		n.heard[m.ID] = m.Identity
		n.hellos++
		n.waiting = append(n.waiting, hello{n.hellos, m.ID, m.Identity})
		n.writeHeard(m, n.hellos)
	case first != m.Identity && (cluster == Identity{} || cluster != n.now.cluster && cluster != n.hinted):
		return fmt.Errorf("core: node %d has the identity %v, but the cluster knows %v under this number: "+
			"if it has lost its data, it could vote twice; replace it (outcry cluster replace %d)",
			m.ID, m.Identity, first, m.ID)
	case first != m.Identity, pinned, !n.writingDown(m.ID):
		n.letIn[m.ID] = m.Identity
	}
	if n.now.cluster == (Identity{}) && (first == Identity{} || first == m.Identity) && cluster != (Identity{}) {
		n.hinted = cluster
	}
	return nil
}

func (n *Node) writingDown(id uint64) bool {
	return slices.ContainsFunc(n.waiting, func(h hello) bool { return h.id == id })
}

// writeHeard writes an identity to disk. If mark is not 0, Written returns it once the identity is
// synced.
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

// forget frees the number of a removed member for another node, and adds its identity to the
// removed ones.
func (n *Node) forget(v Member, m *membership) {
	if v.Identity != (Identity{}) {
		m.removed = append(slices.Clone(m.removed), v.Identity)
		m.removed = m.removed[max(0, len(m.removed)-removedMax):]
	}
	// At start old entries are applied again, so another node may already be heard under this
	// number.
	if first, ok := n.heard[v.ID]; ok && (v.Identity == Identity{} || v.Identity == first) {
		if n.letIn[v.ID] == first {
			delete(n.letIn, v.ID)
		}
		delete(n.heard, v.ID)
		n.writeHeard(Member{ID: v.ID}, 0)
	}
}
