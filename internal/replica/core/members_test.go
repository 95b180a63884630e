package core

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
)

func (c *cluster) change(ch MemberChange) {
	c.t.Helper()
	require.NoError(c.t, c.leader().Change(ch))
	c.tick(100)
	require.Empty(c.t, c.broken)
}

func add(ids ...uint64) (ch MemberChange) {
	for _, id := range ids {
		ch.Add = append(ch.Add, Member{ID: id, Address: "new:1"})
	}
	return ch
}

func TestASingleNodeGrowsToThreeInOneJointStep(t *testing.T) {
	c := newCluster(t, 1)
	c.leader()
	c.propose(5)
	c.newcomer(2, 2)
	c.newcomer(3, 3)
	c.change(add(2, 3))
	c.same(5, 1, 2, 3)
	require.Equal(t, Learner, c.nodes[2].Status().Role)
	c.change(MemberChange{Promote: []uint64{2, 3}})
	for _, id := range c.ids() {
		require.Equal(t, []uint64{1, 2, 3}, c.nodes[id].now.conf.GetVoters())
		require.Empty(t, c.nodes[id].now.conf.GetVotersOutgoing())
	}
	c.cut[1] = true
	require.NotEqual(t, uint64(1), c.leader().id)
	c.propose(1)
	c.cut[1] = false
	c.tick(100)
	c.same(6, 1, 2, 3)
	st := c.nodes[3].Status()
	require.Equal(t, Member{2, identity(2), "new:1"}, st.Members[1].Member)
}

func TestAVoterIsReplacedInOneJointStep(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	c.propose(2)
	gone := n.id%3 + 1
	c.cut[gone] = true
	c.newcomer(4, 4)
	c.change(add(4))
	c.change(MemberChange{Promote: []uint64{4}, Remove: []uint64{gone}})
	require.NotContains(t, n.now.conf.GetVoters(), gone)
	require.Len(t, n.now.conf.GetVoters(), 3)
	c.propose(1)
	c.same(3, n.id, 4)
	// The removed node is refused, no matter what it sends.
	require.ErrorContains(t, n.Heard(Member{ID: gone, Identity: identity(byte(gone))}, n.now.cluster), "was removed")
	term := n.lead.term
	c.cut[gone] = false
	c.tick(300)
	require.Equal(t, term, c.leader().lead.term)
}

func TestALostNodeKeepsItsNumberAndIsAnother(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	lost := n.id%3 + 1
	c.propose(3)
	for _, id := range c.ids() {
		if id != lost {
			require.ErrorContains(t, c.nodes[id].Heard(Member{ID: lost, Identity: identity(9)}, Identity{}),
				"outcry cluster replace")
		}
	}
	c.cut[lost] = true
	c.change(MemberChange{Remove: []uint64{lost}})
	c.cut[lost] = false
	c.newcomer(lost, 9)
	c.change(add(lost))
	c.change(MemberChange{Promote: []uint64{lost}})
	c.propose(1)
	c.tick(5)
	c.same(4, 1, 2, 3)
	for _, id := range c.ids() {
		require.Equal(t, identity(9), c.nodes[id].now.member(lost).Identity)
		require.Equal(t, []Identity{identity(byte(lost))}, c.nodes[id].now.removed)
	}
	c.start(1, 2, 3)
	c.leader()
	c.propose(1)
	c.tick(10)
	c.same(5, 1, 2, 3)
}

func TestTheLeaderIsRemoved(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	c.change(MemberChange{Remove: []uint64{n.id}})
	require.Equal(t, 1, c.deposed[n.id])
	next := c.leader()
	require.NotEqual(t, n.id, next.id)
	c.propose(1)
	require.Len(t, next.now.conf.GetVoters(), 2)
}

func TestChangeRefuses(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	others := []uint64{n.id%3 + 1, (n.id+1)%3 + 1}
	for name, test := range map[string]struct {
		change MemberChange
		want   string
	}{
		"nothing":      {MemberChange{}, "a membership change is empty"},
		"a member":     {add(others[0]), "is already a member"},
		"number 0":     {add(0), "node numbers start at 1"},
		"no address":   {MemberChange{Add: []Member{{ID: 4}}}, `node 4 has the invalid address ""`},
		"no learner":   {MemberChange{Promote: []uint64{7}}, "node 7 is not a learner"},
		"no member":    {MemberChange{Remove: []uint64{7}}, "node 7 is not a member"},
		"twice":        {MemberChange{Remove: []uint64{others[0], others[0]}}, "appears twice"},
		"all":          {MemberChange{Remove: []uint64{1, 2, 3}}, "no majority"},
		"local target": {add(1<<64 - 1), "node numbers start at 1"},
	} {
		require.ErrorContains(t, n.Change(test.change), test.want, name)
	}
	require.ErrorIs(t, c.nodes[others[0]].Change(add(4)), ErrNotLeading)
	require.NoError(t, n.Change(add(4)))
	require.ErrorIs(t, n.Change(add(5)), ErrChanging)
	c.run()
	require.ErrorContains(t, n.Change(MemberChange{Promote: []uint64{4}}), "has not answered lately")
	require.NoError(t, n.Change(MemberChange{Remove: []uint64{4}}))
	c.run()
	require.NoError(t, n.Transfer(0))
	require.ErrorIs(t, n.Change(add(5)), ErrBusy)
}

func TestAChangeThatLeavesNoMajorityThatAnswersIsRefused(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	c.cut[n.id%3+1] = true
	c.tick(100)
	require.ErrorContains(t, n.Change(MemberChange{Remove: []uint64{(n.id+1)%3 + 1}}), "no majority")
	require.NoError(t, n.Change(MemberChange{Remove: []uint64{n.id%3 + 1}}))
}

func TestALearnerIsPromotedOnlyWhenItHasNearlyAll(t *testing.T) {
	c := newCluster(t, 1)
	n := c.leader()
	c.newcomer(2, 2)
	c.noFetch = true
	for range promoteLag + 10 {
		c.propose(1)
	}
	c.change(add(2))
	require.ErrorContains(t, n.Change(MemberChange{Promote: []uint64{2}}), "it can become a voter once it has nearly all")
	// A learner does not count towards a majority.
	c.propose(1)
	require.Len(t, c.disks[1].records, promoteLag+11)
}

func TestHeard(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	cluster := n.now.cluster
	other := n.id%3 + 1
	for name, test := range map[string]struct {
		m       Member
		cluster Identity
		want    string
	}{
		"as pinned":      {Member{ID: other, Identity: identity(byte(other))}, cluster, ""},
		"knows none yet": {Member{ID: other, Identity: identity(byte(other))}, Identity{}, ""},
		"a stranger":     {Member{ID: 7, Identity: identity(7)}, Identity{}, ""},
		"another":        {Member{ID: other, Identity: identity(8)}, Identity{}, "it could vote twice; replace it"},
		"other cluster":  {Member{ID: other, Identity: identity(byte(other))}, Identity{5}, "belongs to the cluster 05"},
		"itself":         {Member{ID: n.id, Identity: identity(8)}, cluster, "has the same number as this node"},
		"no identity":    {Member{ID: other}, cluster, "invalid number or identity"},
	} {
		err := n.Heard(test.m, test.cluster)
		if test.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, test.want, name)
	}
}

// TestAnIdentityThatTheLogDoesNotHaveYetMayAskAndNotAnswer checks that a node that was away while
// another was replaced under its number can follow the new one.
func TestAnIdentityThatTheLogDoesNotHaveYetMayAskAndNotAnswer(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	other := n.id%3 + 1
	message := func(kind raftpb.MessageType) *raftpb.Message {
		return &raftpb.Message{Type: kind.Enum(), From: new(other), To: new(n.id), Term: new(n.Status().Term + 1)}
	}
	require.NoError(t, n.Heard(Member{ID: other, Identity: identity(8)}, n.now.cluster))
	require.Zero(t, n.admitted(other))
	n.Receive(identity(8), message(raftpb.MsgAppResp))
	require.False(t, n.Output().Deposed)
	n.Receive(identity(byte(other)), message(raftpb.MsgApp))
	require.False(t, n.Output().Deposed, "it came late, over a connection of the replaced node")
	n.Receive(identity(8), message(raftpb.MsgApp))
	require.True(t, n.Output().Deposed, "it leads a later term")
}

// TestALateMessageOfAReplacedNodeDoesNotCount checks that a late message of a removed node is not attributed to the
// node that now has its number.
func TestALateMessageOfAReplacedNodeDoesNotCount(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	lost := n.id%3 + 1
	c.propose(1)
	c.cut[lost] = true
	last := n.Status().Last
	c.change(MemberChange{Remove: []uint64{lost}})
	require.NoError(t, n.Heard(Member{ID: lost, Identity: identity(9)}, Identity{}))
	c.run() // writes the identity to disk
	c.change(add(lost))
	late := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: new(lost), To: new(n.id), Term: new(n.Status().Term),
		Index: new(last)}
	n.Receive(identity(byte(lost)), late)
	require.Zero(t, n.matched(lost), "the new node has no entries, and later ones would break it")
	n.Receive(identity(9), late)
	require.Equal(t, last, n.matched(lost))
}

func TestAFounderThatWasAwayLetsInWhoReplacedAnother(t *testing.T) {
	n, err := New(Options{ID: 1, Durable: Durable{Self: identity(1), Mark: founding(1, 2, 3),
		Heard: map[uint64]Identity{2: identity(2), 3: identity(3)}}})
	require.NoError(t, err)
	cluster := Identity{5}
	require.ErrorContains(t, n.Heard(Member{ID: 3, Identity: identity(8)}, cluster), "could vote twice")
	require.NoError(t, n.Heard(Member{ID: 2, Identity: identity(2)}, cluster))
	require.ErrorContains(t, n.Heard(Member{ID: 3, Identity: identity(8)}, Identity{6}), "could vote twice")
	require.NoError(t, n.Heard(Member{ID: 3, Identity: identity(8)}, cluster), "2 is in this cluster")
	require.Zero(t, n.admitted(3))
}

func TestFoundersVoteOnceAllHaveMet(t *testing.T) {
	self := Durable{Self: identity(1), Mark: founding(1, 2, 3), Heard: map[uint64]Identity{2: identity(2), 3: identity(3)}}
	n, err := New(Options{ID: 1, Durable: self})
	require.NoError(t, err)
	ask := func(kind raftpb.MessageType, from, index uint64) *raftpb.Message {
		return &raftpb.Message{Type: kind.Enum(), From: new(from), To: new(uint64(1)), Term: new(uint64(5)),
			Index: new(index), LogTerm: new(index)}
	}
	voted := func() bool { w := n.Output().Write; return w != nil && w.Hard.GetVote() != 0 }
	require.NoError(t, n.Heard(Member{ID: 2, Identity: identity(2)}, Identity{}))
	n.Receive(identity(2), ask(raftpb.MsgVote, 2, 1))
	require.False(t, voted(), "2 has no entries, and 3 may know that 2 has lost its disk")
	require.NoError(t, n.Heard(Member{ID: 3, Identity: identity(3)}, Identity{}))
	n.Receive(identity(3), ask(raftpb.MsgPreVote, 3, 1))
	n.Receive(identity(2), ask(raftpb.MsgVote, 2, 1))
	require.True(t, voted())

	n, err = New(Options{ID: 1, Durable: self})
	require.NoError(t, err)
	require.NoError(t, n.Heard(Member{ID: 2, Identity: identity(2)}, Identity{}))
	n.Receive(identity(2), ask(raftpb.MsgVote, 2, 2))
	require.True(t, voted(), "2 has an entry of a leader")
}

func TestTheFirstIdentityIsWrittenBeforeItCounts(t *testing.T) {
	o := Options{ID: 1, Durable: Durable{Self: identity(1), Mark: founding(1, 2, 3)}}
	n, err := New(o)
	require.NoError(t, err)
	ask := &raftpb.Message{Type: raftpb.MsgVote.Enum(), From: new(uint64(2)), To: new(uint64(1)),
		Term: new(uint64(5)), Index: new(uint64(2)), LogTerm: new(uint64(2))}
	n.Receive(identity(2), ask)
	require.Zero(t, n.Output(), "no peer was heard yet")
	require.NoError(t, n.Heard(Member{ID: 2, Identity: identity(2)}, Identity{}))
	require.NoError(t, n.Heard(Member{ID: 2, Identity: identity(2)}, Identity{}), "a second connection")
	out := n.Output()
	require.Equal(t, []Member{{ID: 2, Identity: identity(2)}}, out.Write.Heard)
	n.Receive(identity(2), ask)
	require.Zero(t, n.Output(), "the identity is not synced")
	n.Written(out.Write.After)
	n.Receive(identity(2), ask)
	out = n.Output()
	require.Equal(t, uint64(2), out.Write.Hard.GetVote())
	require.Equal(t, raftpb.MsgVoteResp, out.Write.After[0].GetType(), "the vote is sent once it is synced")
	require.Empty(t, out.Send)
	require.ErrorContains(t, n.Heard(Member{ID: 2, Identity: identity(9)}, Identity{}), "could vote twice")
	o.Durable.Heard = map[uint64]Identity{2: identity(2)}
	n, err = New(o)
	require.NoError(t, err)
	require.ErrorContains(t, n.Heard(Member{ID: 2, Identity: identity(9)}, Identity{}), "could vote twice")
}

func TestANodeThatFindsAnotherUnderItsNumberBreaks(t *testing.T) {
	c, n := alone(t)
	p := pins{term: n.lead.term, members: []Member{{ID: 1, Identity: identity(1)}}}
	require.NoError(t, n.raft.Propose(p.encode()))
	c.run()
	require.Empty(t, c.broken)
	m := *n.now.membership
	m.members = []Member{{ID: 1, Identity: identity(2)}}
	require.ErrorContains(t, n.become(&m), "it was replaced, or has lost its data")
}

func TestANodeThatWasAwayFollowsALeaderThatWasReplaced(t *testing.T) {
	c := newCluster(t, 1, 2, 3, 4, 5)
	n := c.leader()
	away, lost := n.id%5+1, (n.id+1)%5+1
	c.tick(10)
	c.cut[away] = true
	c.change(MemberChange{Remove: []uint64{lost}})
	c.newcomer(lost, 9)
	c.change(add(lost))
	c.change(MemberChange{Promote: []uint64{lost}})
	require.NoError(t, n.Transfer(lost))
	c.run()
	require.Equal(t, lost, c.leader().id)
	c.propose(1)
	c.cut[away] = false
	behind := c.nodes[away]
	require.Error(t, behind.Heard(Member{ID: lost, Identity: identity(9)}, Identity{}), "the peer knows no cluster")
	require.NoError(t, behind.Heard(Member{ID: lost, Identity: identity(9)}, n.now.cluster))
	require.Zero(t, behind.admitted(lost), "its replies do not count yet")
	c.tick(200)
	c.same(1, 1, 2, 3, 4, 5)
	require.Equal(t, identity(9), behind.admitted(lost))
}

func TestStrangersThatAreHeardAreBounded(t *testing.T) {
	n, err := New(Options{ID: 1, Durable: Durable{Self: identity(1), Mark: founding(1, 2, 3)}})
	require.NoError(t, err)
	for id := range uint64(heardMax) {
		require.NoError(t, n.Heard(Member{ID: id + 10, Identity: identity(1)}, Identity{}))
	}
	require.ErrorContains(t, n.Heard(Member{ID: 9, Identity: identity(9)}, Identity{}), "node 9 is refused")
	require.NoError(t, n.Heard(Member{ID: 2, Identity: identity(2)}, Identity{}), "a member is always heard")
}

func TestAMajorityThatHasLostItsDataFoundsNothing(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.leader()
	c.propose(1)
	c.tick(10)
	old, leads := c.nodes[3], c.leads[1]+c.leads[2]
	c.nodes = map[uint64]*Node{3: old}
	c.cut[3] = true // node 3 would refuse the nodes with new disks
	c.disks[1], c.disks[2] = newDisk(11, founding(1, 2, 3)), newDisk(12, founding(1, 2, 3))
	c.start(1, 2)
	c.tick(300)
	require.Zero(t, c.leads[1]+c.leads[2]-leads, "no node without entries leads")
}

func TestAMemberThatIsHeardLaterIsPinnedThen(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := c.leader()
	c.change(add(4))
	require.Zero(t, n.now.member(4).Identity)
	c.newcomer(4, 4)
	c.tick(100)
	for _, id := range c.ids() {
		require.Equal(t, identity(4), c.nodes[id].now.member(4).Identity)
	}
}
