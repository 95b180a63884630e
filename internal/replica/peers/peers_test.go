package peers

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/process/listen"
	"outcry/internal/replica/core"
)

// patience limits waits in tests. No result depends on it.
const patience = time.Minute

// node is a Net whose messages a test reads.
type node struct {
	*Net
	address     string
	got         chan *raftpb.Message
	unreachable chan uint64
	log         *record
}

// record collects log output for a test.
type record struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.Write(p)
}

// count returns the number of lines that contain text.
func (r *record) count(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.all.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// helloOf returns the hello of a test node.
func helloOf(id uint64) Hello {
	return Hello{Node: id, Self: core.Identity{byte(id)}, Version: "1", EventVersion: 3,
		ProtocolVersion: 1, SegmentBytes: 64 << 20}
}

// listener listens on a free port of this machine.
func listener(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// begin makes a Net that listens on l. The functions in change modify its Options.
func begin(t testing.TB, id uint64, l net.Listener, peers map[uint64]string, change ...func(*Options)) *node {
	t.Helper()
	n := &node{address: l.Addr().String(), got: make(chan *raftpb.Message, 10_000),
		unreachable: make(chan uint64, 1000), log: new(record)}
	o := Options{Node: id, Peers: peers, Listener: l, Hello: func() Hello { return helloOf(id) },
		OnMessage: n.onMessage, OnUnreachable: func(p uint64) { n.unreachable <- p },
		Log: slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&o)
	}
	var err error
	n.Net, err = New(o)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n
}

// several makes nodes 1 to count that know each other.
func several(t testing.TB, count uint64, change ...func(*Options)) map[uint64]*node {
	t.Helper()
	addresses, listeners := map[uint64]string{}, map[uint64]net.Listener{}
	for id := range count {
		listeners[id+1] = listener(t)
		addresses[id+1] = listeners[id+1].Addr().String()
	}
	nodes := map[uint64]*node{}
	for id, l := range listeners {
		nodes[id] = begin(t, id, l, addresses, change...)
	}
	for _, n := range nodes {
		for id := range nodes {
			if id != n.o.Node {
				n.reaches(t, id)
			}
		}
	}
	return nodes
}

// eventually waits until is returns true.
func eventually(t testing.TB, is func() bool, why ...any) {
	t.Helper()
	require.Eventually(t, is, patience, time.Millisecond, why...)
}

// reaches waits until both connections to a peer are up.
func (n *node) reaches(t testing.TB, peer uint64) {
	t.Helper()
	eventually(t, func() bool { return n.Stats().Peers[peer].Connected }, n.log)
}

// message returns a message whose Index is number.
func message(kind raftpb.MessageType, from, to, number uint64, data ...[]byte) *raftpb.Message {
	m := &raftpb.Message{Type: &kind, From: &from, To: &to, Index: &number}
	for i, d := range data {
		m.Entries = append(m.Entries, &raftpb.Entry{Index: new(number + uint64(i) + 1), Data: d})
	}
	return m
}

// onMessage receives a message. It must have the identity of its sender's hello.
func (n *node) onMessage(from core.Identity, m *raftpb.Message) {
	if from != helloOf(m.GetFrom()).Self {
		m = nil
	}
	n.got <- m
}

// take returns the next message.
func (n *node) take(t testing.TB) *raftpb.Message {
	t.Helper()
	select {
	case m := <-n.got:
		return m
	case <-time.After(patience):
		require.Fail(t, "no message comes")
		return nil
	}
}

func TestThreeNodesExchangeMessagesInOrder(t *testing.T) {
	before := 0
	eventually(t, func() bool { // the condition runs in another goroutine
		before = runtime.NumGoroutine()
		return true
	})
	nodes := several(t, 3)
	const count = 500
	var sending sync.WaitGroup
	for from, n := range nodes {
		for to := range nodes {
			if to == from {
				continue
			}
			sending.Go(func() {
				for i := range uint64(count) {
					batch := []*raftpb.Message{message(raftpb.MsgHeartbeat, from, to, i),
						message(raftpb.MsgApp, from, to, i, []byte("a"), nil, []byte("b"))}
					if !n.Send(to, batch) {
						panic("dropped")
					}
				}
			})
		}
	}
	for to, n := range nodes {
		next := map[[2]uint64]uint64{} // next Index expected, by sender and type
		for range 2 * count * (len(nodes) - 1) {
			m := n.take(t)
			key := [2]uint64{m.GetFrom(), uint64(m.GetType())}
			require.Equal(t, to, m.GetTo())
			require.Equal(t, next[key], m.GetIndex(), "from %d", m.GetFrom())
			next[key]++
			if m.GetType() == raftpb.MsgApp {
				require.Len(t, m.GetEntries(), 3)
				require.Equal(t, "b", string(m.GetEntries()[2].GetData()))
				require.Equal(t, m.GetIndex()+3, m.GetEntries()[2].GetIndex())
			}
		}
	}
	sending.Wait()
	require.False(t, nodes[1].Send(4, []*raftpb.Message{message(raftpb.MsgHeartbeat, 1, 4, 0)}), "not a peer")
	for _, n := range nodes {
		require.Zero(t, n.Stats().Peers[1].Dropped+n.Stats().Peers[2].Dropped+n.Stats().Misfits)
		n.Close()
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= before }, "goroutines are left")
}

// relay is a network between a node and the peers that connect to it. A test can stop it and cut it.
type relay struct {
	net.Listener
	to      string
	limit   int64         // number of bytes of a connection to the node after which it stops or is cut
	cut     bool          // cut the connection at the limit
	reached chan struct{} // receives a value at each limit
	release chan struct{} // closed to let stopped connections continue
	conns   sync.WaitGroup
}

func newRelay(t testing.TB, to string, limit int64, cut bool) *relay {
	t.Helper()
	r := &relay{Listener: listener(t), to: to, limit: limit, cut: cut,
		reached: make(chan struct{}, 100), release: make(chan struct{})}
	r.conns.Go(func() {
		for {
			in, err := r.Accept()
			if err != nil {
				return
			}
			r.conns.Go(func() { r.pass(in) })
		}
	})
	t.Cleanup(func() { // after the nodes are closed
		_ = r.Close()
		r.open()
		r.conns.Wait()
	})
	return r
}

// open lets all data pass.
func (r *relay) open() {
	select {
	case <-r.release:
	default:
		close(r.release)
	}
}

func (r *relay) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer out.Close()
	r.conns.Go(func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	})
	if _, err := io.CopyN(out, in, r.limit); err != nil {
		return
	}
	r.reached <- struct{}{}
	if r.cut {
		return
	}
	<-r.release
	_, _ = io.Copy(out, in)
}

// pair makes nodes 1 and 2. Messages from 1 to 2 pass through a relay.
func pair(t testing.TB, limit int64, cut bool, change ...func(*Options)) (one, two *node, between *relay) {
	t.Helper()
	l1, l2 := listener(t), listener(t)
	between = newRelay(t, l2.Addr().String(), limit, cut)
	one = begin(t, 1, l1, map[uint64]string{2: between.Addr().String()}, change...)
	two = begin(t, 2, l2, map[uint64]string{1: l1.Addr().String()}, change...)
	one.reaches(t, 2)
	two.reaches(t, 1)
	return one, two, between
}

func (r *relay) wait(t testing.TB) {
	t.Helper()
	select {
	case <-r.reached:
	case <-time.After(patience):
		require.Fail(t, "too few bytes were sent")
	}
}

func TestHeartbeatsPassALargeRecord(t *testing.T) {
	set(t, &writeTimeout, patience) // the relay stops while the heartbeats are sent
	one, two, between := pair(t, 1<<20, false)
	large := bytes.Repeat([]byte("record"), 4<<20) // 24 MiB
	require.True(t, one.Send(2, []*raftpb.Message{message(raftpb.MsgApp, 1, 2, 7, large)}))
	between.wait(t) // the relay has stopped within the record
	for i := range uint64(100) {
		require.True(t, one.Send(2, []*raftpb.Message{message(raftpb.MsgHeartbeat, 1, 2, i)}))
		m := two.take(t)
		require.Equal(t, raftpb.MsgHeartbeat, m.GetType())
		require.Equal(t, i, m.GetIndex())
	}
	between.open()
	m := two.take(t)
	require.Equal(t, uint64(7), m.GetIndex())
	require.True(t, bytes.Equal(large, m.GetEntries()[0].GetData()))
}

func TestAConnectionThatIsCutInAMessage(t *testing.T) {
	one, two, between := pair(t, 1<<20, true)
	large := make([]byte, 8<<20)
	require.True(t, one.Send(2, []*raftpb.Message{message(raftpb.MsgSnap, 1, 2, 1, large)}))
	between.wait(t)
	select {
	case peer := <-one.unreachable:
		require.Equal(t, uint64(2), peer)
	case <-time.After(patience):
		require.Fail(t, "OnUnreachable was not called")
	}
	one.reaches(t, 2)
	require.True(t, one.Send(2, []*raftpb.Message{message(raftpb.MsgApp, 1, 2, 2, []byte("small"))}))
	require.Equal(t, uint64(2), two.take(t).GetIndex(), "nothing of the cut connection arrives")
	require.Empty(t, two.got)
	require.Empty(t, one.unreachable, "OnUnreachable is called once")
	require.Zero(t, two.Stats().Misfits)
}

func TestAFullQueueDropsAndStaysBounded(t *testing.T) {
	set(t, &writeTimeout, patience) // the relay stops until the queue is full
	one, two, between := pair(t, 1<<20, false)
	data := make([]byte, 1<<20)
	sent := 0
	for one.Send(2, []*raftpb.Message{message(raftpb.MsgApp, 1, 2, uint64(sent), data)}) {
		sent++
		require.LessOrEqual(t, sent, 2*entriesBytesMax>>20, "the queue is not bounded")
	}
	require.GreaterOrEqual(t, sent, entriesBytesMax>>20-1)
	require.True(t, one.Send(2, []*raftpb.Message{message(raftpb.MsgHeartbeat, 1, 2, 0)}), "another queue")
	require.Equal(t, raftpb.MsgHeartbeat, two.take(t).GetType())
	require.Equal(t, uint64(1), one.Stats().Peers[2].Dropped)
	between.open()
	for i := range sent {
		require.Equal(t, uint64(i), two.take(t).GetIndex())
	}
	eventually(t, func() bool {
		one.peers[2].entries.mu.Lock()
		defer one.peers[2].entries.mu.Unlock()
		return one.peers[2].entries.bytes == 0
	}, "what was written counts no more")
	small := []*raftpb.Message{}
	for range queueLenMax {
		small = append(small, message(raftpb.MsgHeartbeat, 1, 2, 0))
	}
	l := newLink(one.Net, one.peers[2], forMessages, smallBytesMax) // its queue is never emptied
	l.setUp(true)
	for _, m := range small {
		require.True(t, l.push(m))
	}
	require.False(t, l.push(small[0]), "the queue has too many")
	l.setUp(false)
	require.Empty(t, l.drain(nil), "messages queued when a connection breaks are not sent over the next")
	require.Zero(t, l.bytes)
	dropped := l.state().Dropped
	require.EqualValues(t, queueLenMax+1, dropped)
	large := message(raftpb.MsgApp, 1, 2, 0, make([]byte, MessageBytesMax))
	require.False(t, one.Send(2, []*raftpb.Message{large}), "too large")
}

func TestWhoDoesNotTakeIsCut(t *testing.T) {
	set(t, &writeTimeout, 10*time.Millisecond)
	// The relay stops after 1 MiB. A slow machine may seem to stop earlier.
	one, _, _ := pair(t, 1<<20, false)
	require.True(t, one.Send(2, []*raftpb.Message{message(raftpb.MsgApp, 1, 2, 1, make([]byte, 60<<20))}))
	select {
	case <-one.unreachable:
	case <-time.After(patience):
		require.Fail(t, "it never ends")
	}
}

// set changes a variable for one test. It must be called before the nodes start.
func set[T any](t testing.TB, variable *T, value T) {
	t.Helper()
	old := *variable
	*variable = value
	t.Cleanup(func() { *variable = old })
}

func TestAPeerThatWasAwayIsConnectedAtOnce(t *testing.T) {
	set(t, &backoffMin, time.Hour) // no node retries by itself
	set(t, &backoffMax, time.Hour)
	// Bind reserves the port, so that no other program listens on it.
	away, err := listen.Bind("listen", "127.0.0.1:0")
	require.NoError(t, err)
	one := begin(t, 1, listener(t), map[uint64]string{2: away.Addr.String()})
	eventually(t, func() bool { return one.log.count("a peer is not connected") == 2 })
	l2, err := away.Listen()
	require.NoError(t, err)
	two := begin(t, 2, l2, map[uint64]string{1: one.address})
	one.reaches(t, 2)
	two.reaches(t, 1)
}

func TestSetPeersEndsAndBeginsConnections(t *testing.T) {
	nodes := several(t, 3)
	require.NoError(t, nodes[1].SetPeers(map[uint64]string{1: "127.0.0.1:1", 2: nodes[2].address}))
	require.False(t, nodes[1].Send(3, nil))
	require.NotContains(t, nodes[1].Stats().Peers, uint64(3))
	eventually(t, func() bool { return !nodes[3].Stats().Peers[1].Connected }, "node 3 keeps its connection")
	eventually(t, func() bool { return nodes[3].log.count("node 3 is not a peer of node 1") > 0 }, "no reason is logged")
	require.True(t, nodes[1].Send(2, []*raftpb.Message{message(raftpb.MsgVote, 1, 2, 1)}), "the other peer is unaffected")
	require.NoError(t, nodes[1].SetPeers(map[uint64]string{2: nodes[2].address, 3: nodes[3].address}))
	nodes[1].reaches(t, 3)
	err := nodes[1].SetPeers(map[uint64]string{2: nodes[2].address, 3: "192.0.2.1:7000"})
	require.ErrorContains(t, err, `the address of node 3, "192.0.2.1:7000", is not on loopback`)
	require.True(t, nodes[1].Send(3, []*raftpb.Message{message(raftpb.MsgVote, 1, 3, 1)}), "nothing has changed")
}

func TestARefusedHelloIsToldAndLoggedOnce(t *testing.T) {
	set(t, &refusedRetry, time.Millisecond)
	l1, l2 := listener(t), listener(t)
	calls := make(chan int, 1000)
	two := begin(t, 2, l2, map[uint64]string{1: l1.Addr().String()}, func(o *Options) {
		o.OnHello = func(h Hello) error {
			require.Equal(t, uint64(1), h.Node)
			select {
			case calls <- 0:
			default:
			}
			return errors.New("node 1 smells")
		}
	})
	one := begin(t, 1, l1, map[uint64]string{2: two.address})
	for range 20 {
		<-calls
	}
	eventually(t, func() bool { return one.Stats().Refused > 10 && two.Stats().Refused > 10 })
	require.Equal(t, 1, one.log.count("node 2 refuses this node: node 1 smells"), one.log.all.String())
	require.Equal(t, 1, two.log.count("this node refuses node 1: node 1 smells"))
	require.False(t, one.Send(2, []*raftpb.Message{message(raftpb.MsgVote, 1, 2, 1)}))
	require.False(t, two.Send(1, []*raftpb.Message{message(raftpb.MsgVote, 2, 1, 1)}))
	require.Empty(t, one.got)
}
