package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
	"outcry/internal/replica/peers"
)

// patience is how long a test waits for an event that must happen.
const patience = time.Minute

// cluster runs replicas in one process, with a network in memory and real files.
type cluster struct {
	t     *testing.T
	peers map[uint64]string

	mu    sync.Mutex // guards the fields below, which the network also uses
	nodes map[uint64]*testNode
	cut   map[[2]uint64]bool
}

// testNode is one node with its current replica.
type testNode struct {
	*Replica
	c       *cluster
	id      uint64
	dir     string
	journal *journal.Journal
	peers   map[uint64]string // --peers
	changes []func(*Options)
	fetches atomic.Int64
	stuck   atomic.Uint64 // number of a peer whose records do not arrive

	mu        sync.Mutex          // guards the fields below
	met       map[uint64]*Replica // peers whose hello was accepted
	addresses map[uint64]string   // addresses set by SetPeers
	up        *Replica            // the replica that the network reaches
	quit      chan struct{}
	work      sync.WaitGroup
}

// newCluster founds a cluster of n nodes that may lead.
func newCluster(t *testing.T, n uint64, change ...func(*Options)) *cluster {
	before := runtime.NumGoroutine()
	// TempDir is called before the nodes register their stops, so the directories are removed after
	// the nodes have stopped.
	t.TempDir()
	c := &cluster{t: t, nodes: map[uint64]*testNode{}, peers: map[uint64]string{}, cut: map[[2]uint64]bool{}}
	for id := uint64(1); id <= n; id++ {
		c.peers[id] = fmt.Sprintf("127.0.0.1:%d", id)
	}
	t.Cleanup(func() {
		for _, node := range c.nodes {
			node.stop()
		}
		noneLeft(t, before)
	})
	for id := uint64(1); id <= n; id++ {
		c.add(id).changes = change
	}
	for id := uint64(1); id <= n; id++ {
		c.nodes[id].start()
	}
	return c
}

// noneLeft checks that no more goroutines run than before.
func noneLeft(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			require.Fail(t, "goroutines are left", "%s", stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func (c *cluster) add(id uint64) *testNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir := filepath.Join(c.t.TempDir(), fmt.Sprint("node-", id))
	c.nodes[id] = &testNode{c: c, id: id, dir: dir, peers: maps.Clone(c.peers)}
	return c.nodes[id]
}

// start opens the node with the content of its directory, and allows it to lead.
func (n *testNode) start() {
	t := n.c.t
	require.NoError(t, n.open())
	n.MayCampaign(true)
}

func (n *testNode) open() (err error) {
	n.journal, err = journal.Open(filepath.Join(n.dir, "journal"),
		journal.Options{Version: 1, SegmentBytes: 1 << 20, Gather: 5 * time.Millisecond})
	require.NoError(n.c.t, err)
	n.quit = make(chan struct{})
	o := Options{Data: n.dir, Node: n.id, Peers: n.peers, Journal: n.journal,
		Hello:   peers.Hello{Version: "test", EventVersion: 1, ProtocolVersion: 1, SegmentBytes: 1 << 20},
		Log:     slog.New(slog.NewTextHandler(n.c.t.Output(), nil)).With("node", n.id),
		openNet: n.join, tune: patient}
	for _, change := range n.changes {
		change(&o)
	}
	if n.Replica, err = Open(o); err != nil {
		require.NoError(n.c.t, n.journal.Close())
		n.Replica = nil
		return err
	}
	return nil
}

// patient doubles the election timeout for tests that load the machine.
func patient(o *core.Options) { o.ElectionTicks = 60 }

// join connects a replica with the other nodes.
func (n *testNode) join(r *Replica) (network, error) {
	n.mu.Lock()
	n.met, n.up = map[uint64]*Replica{}, r
	n.mu.Unlock()
	n.work.Go(n.greet)
	return wire{n}, nil
}

// begun gives the node a journal with records from before the cluster.
func (n *testNode) begun(records int) {
	t := n.c.t
	j, err := journal.Open(filepath.Join(n.dir, "journal"), journal.Options{Version: 1, SegmentBytes: 1 << 20})
	require.NoError(t, err)
	for i := range records {
		_, err := j.Append(fmt.Appendf(nil, "record %d from before", i))
		require.NoError(t, err)
	}
	require.NoError(t, j.Close())
}

// stop ends the node like a process: it sends and receives nothing more.
func (n *testNode) stop() {
	if n.Replica == nil {
		return
	}
	require.NoError(n.c.t, n.Replica.Close())
	require.NoError(n.c.t, n.journal.Close())
	n.Replica = nil
}

// restart stops the node and starts it again.
func (n *testNode) restart() {
	n.stop()
	n.start()
}

// greet sends this node's hello to the others until each has accepted it.
func (n *testNode) greet() {
	for {
		for id := range n.known() {
			if peer := n.c.reach(n.id, id); peer != nil && peer != n {
				_ = peer.hear(n)
			}
		}
		select {
		case <-time.After(tick):
		case <-n.quit:
			return
		}
	}
}

// hear receives the hello of a node, once for each of its replicas.
func (n *testNode) hear(from *testNode) error {
	here, met := n.running(from.id)
	there, _ := from.running(n.id)
	if here == nil || there == nil || met == there {
		return nil
	}
	if err := here.onHello(there.hello()); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.met[from.id] = there
	return nil
}

// known returns the peers set by SetPeers.
func (n *testNode) known() map[uint64]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addresses
}

// running returns the replica that the network reaches, or nil, and the replica of the peer whose
// hello was accepted.
func (n *testNode) running(peer uint64) (up, met *Replica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.up, n.met[peer]
}

// reach returns node to if messages from node from arrive there, otherwise nil.
func (c *cluster) reach(from, to uint64) *testNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut[[2]uint64{from, to}] {
		return nil
	}
	return c.nodes[to]
}

// isolate separates a node from all others, or connects it again.
func (c *cluster) isolate(id uint64, off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.nodes {
		c.cut[[2]uint64{id, other}], c.cut[[2]uint64{other, id}] = off, off
	}
}

// wire implements network for a node.
type wire struct{ *testNode }

// Send implements network.
func (n wire) Send(to uint64, messages []*raftpb.Message) bool {
	peer := n.c.reach(n.id, to)
	here, _ := n.running(to)
	if here == nil || peer == nil {
		return false
	}
	there, met := peer.running(n.id)
	if there == nil || met != here {
		return false
	}
	for _, m := range messages {
		there.receive(here.self, proto.CloneOf(m))
	}
	return true
}

// SetPeers implements network.
func (n wire) SetPeers(peers map[uint64]string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses = peers
	return nil
}

// Fetch implements network.
func (n wire) Fetch(ctx context.Context, peer, first, last uint64, take func(uint64, []byte) error) error {
	n.fetches.Add(1)
	if n.stuck.Load() == peer {
		<-ctx.Done()
		return ctx.Err()
	}
	other := n.c.reach(n.id, peer)
	if other == nil {
		return errors.New("the peer is cut off")
	}
	from, err := other.journal.NewReader(first)
	if err != nil {
		return err
	}
	defer from.Close()
	for seq := uint64(0); seq < last; {
		var record []byte
		if seq, record, err = from.Next(ctx); err != nil {
			return err
		}
		if err := take(seq, record); err != nil {
			return err
		}
	}
	return nil
}

// The tests of package peers cover the methods below.
func (wire) Backup(context.Context, uint64, io.Writer) error     { panic("not used") }
func (wire) Ask(context.Context, uint64, []byte) ([]byte, error) { panic("not used") }
func (wire) Stats() peers.Stats                                  { return peers.Stats{} }

// Close implements network.
func (n wire) Close() {
	n.mu.Lock()
	n.up = nil
	n.mu.Unlock()
	close(n.quit)
	n.work.Wait()
}

// leader waits until one of the nodes leads and accepts records.
func (c *cluster) leader(among ...uint64) *testNode {
	c.t.Helper()
	var leader *testNode
	require.Eventually(c.t, func() bool {
		for _, id := range among {
			n := c.nodes[id]
			select {
			case <-n.Leading():
				if n.Err() == nil {
					leader = n
					return true
				}
			default:
			}
		}
		return false
	}, patience, tick, "nobody leads")
	return leader
}

// others returns the numbers of all nodes except one.
func (c *cluster) others(id uint64) (all []uint64) {
	for other := range c.nodes {
		if other != id {
			all = append(all, other)
		}
	}
	slices.Sort(all)
	return all
}

// put appends a record as an engine does, and returns once it is durable.
func (n *testNode) put(record string) (seq uint64, err error) {
	if err := n.Claim(len(record) + 100); err != nil {
		return 0, err
	}
	if seq, err = n.AppendClaimed([]byte(record), len(record)+100); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return seq, n.Wait(ctx, seq)
}

// records returns the records in the journal of a node, up to seq last.
func (n *testNode) records(last uint64) (all [][]byte) {
	t := n.c.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := n.journal.NewReader(n.journal.First())
	require.NoError(t, err)
	defer r.Close()
	for seq := n.journal.First() - 1; seq < last; {
		var record []byte
		seq, record, err = r.Next(ctx)
		require.NoError(t, err, "record %d of node %d", seq+1, n.id)
		all = append(all, bytes.Clone(record))
	}
	return all
}

// alike checks that all nodes have the same journal and returns its records.
func (c *cluster) alike() [][]byte {
	c.t.Helper()
	last := uint64(0)
	for _, n := range c.nodes {
		last = max(last, n.journal.Appended(), n.Synced())
	}
	var first [][]byte
	for _, n := range c.nodes {
		all := n.records(last)
		if first == nil {
			first = all
		}
		require.Equal(c.t, first, all, "the history of node %d differs", n.id)
	}
	return first
}

// inOneStack reports whether one goroutine in a dump of all stacks is in all of these functions.
func inOneStack(dump string, functions ...string) bool {
	return slices.ContainsFunc(strings.Split(dump, "\n\n"), func(stack string) bool {
		return !slices.ContainsFunc(functions, func(f string) bool { return !strings.Contains(stack, f) })
	})
}
