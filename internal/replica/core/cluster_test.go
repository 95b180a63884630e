package core

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// disk is a node's data/raft and data/journal. Both sync at once, unless lazy is set.
type disk struct {
	Durable
	records [][]byte
	first   uint64 // seq of the last record before the journal's start, which a backup determines
	lazy    bool   // the journal does not sync
}

func (d *disk) seq() uint64 { return d.first + uint64(len(d.records)) }

func (d *disk) write(w *Write) {
	for _, m := range w.Heard {
		d.Heard[m.ID] = m.Identity
	}
	if w.Mark != nil {
		mark, err := DecodeMark(w.Mark.Encode())
		if err != nil {
			panic(err)
		}
		d.Mark = *mark
		d.Entries = slices.DeleteFunc(d.Entries, func(e *raftpb.Entry) bool { return e.GetIndex() <= mark.Index })
	}
	for _, e := range w.Entries {
		d.Entries = slices.DeleteFunc(d.Entries, func(o *raftpb.Entry) bool { return o.GetIndex() >= e.GetIndex() })
		d.Entries = append(d.Entries, proto.Clone(e).(*raftpb.Entry))
	}
	if w.Hard != nil {
		d.Hard = w.Hard
	}
}

func newDisk(self byte, m Mark) *disk {
	return &disk{Durable: Durable{Self: identity(self), Mark: m, Heard: map[uint64]Identity{}}}
}

// cluster runs nodes with a network and disks that act at once and in order.
type cluster struct {
	t         *testing.T
	nodes     map[uint64]*Node
	disks     map[uint64]*disk
	cut       map[uint64]bool
	lost      map[raftpb.MessageType]bool
	stopped   map[uint64]bool // nodes whose disk does not sync
	leads     map[uint64]int
	deposed   map[uint64]int
	rounds    map[uint64]uint64
	broken    map[uint64]error
	fetches   []Fetch
	noFetch   bool
	fetchOver map[uint64]bool
	network   []*raftpb.Message
	options   func(*Options)
}

func identity(n byte) Identity { return Identity{n, 1} }

func founding(voters ...uint64) Mark {
	m := Mark{Index: 1, Term: 1, Conf: &raftpb.ConfState{Voters: voters}}
	for _, id := range voters {
		m.Members = append(m.Members, Member{ID: id, Address: fmt.Sprintf("host%d:1", id)})
	}
	return m
}

// runs counts the clusters that each test has started.
var runs = map[string]uint64{}

// seedRandom makes crypto/rand deterministic until the test ends, since package raft draws its
// election timeouts from it. The first cluster of each test uses the seed in flag -seed, and later
// ones use the numbers after it, so -count=N tries at least N seeds.
func seedRandom(t *testing.T) {
	seed := *simSeed + runs[t.Name()]
	runs[t.Name()]++
	t.Logf("seed %d", seed)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	reader := rand.Reader
	rand.Reader = mathrand.NewChaCha8(key)
	t.Cleanup(func() { rand.Reader = reader })
}

func newCluster(t *testing.T, voters ...uint64) *cluster {
	seedRandom(t)
	c := &cluster{t: t, nodes: map[uint64]*Node{}, disks: map[uint64]*disk{}, cut: map[uint64]bool{},
		lost: map[raftpb.MessageType]bool{}, stopped: map[uint64]bool{}, leads: map[uint64]int{},
		deposed: map[uint64]int{}, rounds: map[uint64]uint64{}, broken: map[uint64]error{}, fetchOver: map[uint64]bool{}}
	for _, id := range voters {
		c.disks[id] = newDisk(byte(id), founding(voters...))
	}
	c.start(voters...)
	return c
}

// newcomer starts a node with an empty directory.
func (c *cluster) newcomer(id uint64, identity byte) {
	c.disks[id] = newDisk(identity, Mark{})
	c.start(id)
}

func (c *cluster) start(ids ...uint64) {
	for _, id := range ids {
		o := Options{ID: id, Durable: c.disks[id].Durable, Journal: c.disks[id].seq()}
		o.Durable.Heard = maps.Clone(o.Durable.Heard)
		o.Durable.Entries = slices.Clone(o.Durable.Entries)
		if c.options != nil {
			c.options(&o)
		}
		n, err := New(o)
		require.NoError(c.t, err)
		n.JournalSynced(o.Journal)
		c.nodes[id] = n
	}
	c.meet()
	c.run()
}

// meet lets each node hear all others.
func (c *cluster) meet() {
	for _, a := range c.ids() {
		for _, b := range c.ids() {
			if a != b {
				n := c.nodes[b]
				_ = c.nodes[a].Heard(Member{ID: b, Identity: n.self}, n.Status().Cluster)
			}
		}
	}
}

func (c *cluster) ids() []uint64 { return slices.Sorted(maps.Keys(c.nodes)) }

// run drives all nodes until they have no more work.
func (c *cluster) run() {
	for busy := true; busy; {
		busy = false
		for _, id := range c.ids() {
			busy = c.drive(id) || busy
		}
		network := c.network
		c.network = nil
		for _, m := range network {
			to := c.nodes[m.GetTo()]
			if to == nil || c.cut[m.GetTo()] || c.cut[m.GetFrom()] || c.lost[m.GetType()] {
				continue
			}
			copied := &raftpb.Message{}
			b, err := proto.Marshal(m)
			require.NoError(c.t, err)
			require.NoError(c.t, proto.Unmarshal(b, copied))
			to.Receive(c.disks[m.GetFrom()].Self, copied)
			busy = true
		}
	}
}

func (c *cluster) drive(id uint64) bool {
	n, d := c.nodes[id], c.disks[id]
	if c.stopped[id] {
		return false
	}
	out := n.Output()
	if out.Broken != nil {
		c.broken[id] = out.Broken
		return false
	}
	c.network = append(c.network, out.Send...)
	if w := out.Write; w != nil {
		d.write(w)
		var own []*raftpb.Message
		for _, m := range w.After {
			if m.GetTo() == id {
				own = append(own, m)
			} else {
				c.network = append(c.network, m)
			}
		}
		n.Written(own)
	}
	for _, commit := range out.Commits {
		require.Equal(c.t, d.seq()+1, commit.First, "node %d", id)
		d.records = append(d.records, commit.Records...)
	}
	if out.Index != 0 {
		n.Applied(out.Index)
	}
	if !d.lazy {
		n.JournalSynced(d.seq())
	}
	if out.Leads {
		c.leads[id]++
	}
	if out.Deposed {
		c.deposed[id]++
	}
	c.rounds[id] = max(c.rounds[id], out.Confirmed)
	c.fetchOver[id] = c.fetchOver[id] || out.FetchOver
	if f := out.Fetch; f != nil {
		c.fetches = append(c.fetches, *f)
		c.doFetch(id, *f)
	}
	return out.Write != nil || len(out.Send) > 0 || out.Index != 0 || out.Fetch != nil
}

func (c *cluster) doFetch(id uint64, f Fetch) {
	if c.noFetch {
		return
	}
	n, d, peer := c.nodes[id], c.disks[id], c.disks[f.Peer]
	if c.cut[f.Peer] {
		n.Fetched(f, Position{Seq: d.seq()}, fmt.Errorf("the peer is away"))
		return
	}
	records := peer.records[f.From.Seq-peer.first : f.To.Seq-peer.first]
	for i, r := range records {
		if f.From.Seq+uint64(i) >= d.seq() {
			d.records = append(d.records, r)
		}
	}
	n.Fetched(f, f.From.After(d.records[f.From.Seq-d.first:f.To.Seq-d.first]...), nil)
}

func (c *cluster) tick(n int) {
	for range n {
		for _, id := range c.ids() {
			c.nodes[id].Tick()
		}
		c.run()
	}
}

// leader waits until a node that is not cut off leads, and returns it.
func (c *cluster) leader() *Node {
	for range 1000 {
		for _, id := range c.ids() {
			if !c.cut[id] && c.nodes[id].Status().Role == Leader {
				return c.nodes[id]
			}
		}
		c.tick(1)
	}
	c.t.Fatal("no node leads")
	return nil
}

// propose commits one batch of n records.
func (c *cluster) propose(n int) {
	l := c.leader()
	var records [][]byte
	for i := range n {
		records = append(records, fmt.Appendf(nil, "record %d", l.lead.last.Seq+1+uint64(i)))
	}
	require.NoError(c.t, l.Propose(l.lead.last.Seq+1, records))
	c.run()
}

// same checks that the nodes have equal journals with n records.
func (c *cluster) same(n int, ids ...uint64) {
	c.t.Helper()
	for _, id := range ids {
		require.Empty(c.t, c.broken[id])
		require.Len(c.t, c.disks[id].records, n, "node %d", id)
		require.Equal(c.t, c.disks[ids[0]].records, c.disks[id].records, "node %d", id)
	}
}
