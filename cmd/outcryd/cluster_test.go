package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/operate/remote"
	"outcry/internal/testing/certtest"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/processes"
)

// node is a cluster node that runs as a separate process.
type node struct {
	*program
	number   int
	flags    []string
	database string
	path     string // program to run instead of this outcryd; "" for this one
}

// peerAddresses returns n loopback addresses that are not in use. Their ports are below the range from which the kernel
// assigns ports.
func peerAddresses(t *testing.T, n int) (all []string) {
	t.Helper()
	for len(all) < n {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer l.Close()
		all = append(all, address)
	}
	return all
}

// againAt adds an HTTP address to flags that the server can bind again after a kill. A port assigned by the kernel
// could be given to another process before that.
func againAt(t *testing.T, flags []string) []string {
	t.Helper()
	return append(flags, "--http="+peerAddresses(t, 1)[0])
}

// newCluster makes three nodes without starting them.
func newCluster(t *testing.T, flags ...string) (nodes []*node) {
	t.Helper()
	skipUnlessRaced(t)
	var list []string
	for i, address := range peerAddresses(t, 3) {
		list = append(list, fmt.Sprintf("%d=%s", i+1, address))
	}
	for i := range list {
		n := &node{number: i + 1, database: exchangetest.NewTables(t)}
		n.flags = append([]string{fmt.Sprintf("--node=%d", n.number), "--peers=" + strings.Join(list, ","),
			"--data=" + t.TempDir(), "--database-url=" + n.database}, flags...)
		nodes = append(nodes, n)
	}
	return nodes
}

// launch starts a node and waits until its HTTP side is up.
func (n *node) launch(t *testing.T, flags ...string) {
	t.Helper()
	n.program = prepare(t, append(n.flags, flags...)...)
	if n.path != "" {
		n.cmd.Path = n.path
	}
	require.NoError(t, n.cmd.Start())
	t.Cleanup(n.kill)
	require.Eventually(t, n.findHTTP, patience, time.Millisecond, "log: %s", n.log)
}

// findHTTP reports whether the HTTP side has been up, and sets n.http to its newest address. The kernel assigns a new
// port each time the process restarts itself.
func (n *node) findHTTP() bool {
	logged := n.log.String()
	at := strings.LastIndex(logged, `"msg":"the HTTP side is up"`)
	if at < 0 {
		return false
	}
	_, rest, _ := strings.Cut(logged[at:], `"http":"`)
	n.http, _, _ = strings.Cut(rest, `"`)
	return true
}

// crash kills a node.
func (n *node) crash() { n.kill() }

// get requests a path of the HTTP side; the status is 0 if there is no answer.
func (n *node) get(path string) (status int, body string) {
	n.findHTTP()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	r, err := client.Get("http://" + n.http + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(b)
}

// view returns the cluster as this node reports it, or the zero value if it does not answer.
func (n *node) view() (c remote.Cluster) {
	if status, body := n.get("/api/v1/cluster"); status == http.StatusOK {
		_ = json.Unmarshal([]byte(body), &c)
	}
	return c
}

// becomes waits until a node has a role.
func (n *node) becomes(t *testing.T, role string) {
	t.Helper()
	require.Eventually(t, func() bool { return n.view().Role == role }, patience, lookEvery,
		"node %d is %+v; log: %s", n.number, n.view(), n.log)
}

// leaderOf waits until one of the nodes leads.
func leaderOf(t *testing.T, nodes ...*node) (leader *node) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, n := range nodes {
			if status, _ := n.get("/readyz"); status == http.StatusOK {
				leader = n
			}
		}
		return leader != nil
	}, patience, lookEvery, "nobody leads: %+v; log: %s", nodes[0].view(), nodes[0].log)
	return leader
}

// others returns the nodes except one.
func others(nodes []*node, without *node) (all []*node) {
	for _, n := range nodes {
		if n != without {
			all = append(all, n)
		}
	}
	return all
}

// xmlOf returns the address at which clients reach a node while it leads.
func (n *node) xmlOf() string {
	for _, m := range n.view().Members {
		if m.Node == uint64(n.number) {
			return m.Listen
		}
	}
	return ""
}

// oneDigest waits until all nodes have the same digest for the same record, and returns that record's seq.
func oneDigest(t *testing.T, nodes []*node) (seq uint64) {
	t.Helper()
	var views []remote.Cluster
	require.Eventually(t, func() bool {
		views = views[:0]
		for _, n := range nodes {
			views = append(views, n.view())
		}
		for _, v := range views {
			if v.Digest == "" || v.Digest != views[0].Digest || v.DigestSeq != views[0].DigestSeq || v.DigestSeq != v.Seq {
				return false
			}
		}
		return true
	}, patience, lookEvery, "digests differ: %+v", &views)
	return views[0].Seq
}

// retrying is a set of clients that place orders with refs. They retry each order at all nodes in turn until it is
// answered.
type retrying struct {
	nodes    []*node
	mu       sync.Mutex // guards addrs and ids
	addrs    []string
	ids      map[string]string // order ids by ref
	answered atomic.Int64
	wanted   atomic.Int64 // number of answers at which the clients pause
	failed   atomic.Pointer[string]
	stop     atomic.Bool
	running  sync.WaitGroup
}

// clientPause is the time that clients wait between orders and between tries, to leave the processors to the nodes.
const clientPause = 10 * time.Millisecond

// loadAhead is how many orders are placed in addition to the orders that a test waits for, so that some are in
// flight at its next step.
const loadAhead = 100

// begin starts the clients.
func (r *retrying) begin(clients int) {
	r.ids = make(map[string]string)
	r.wanted.Store(loadAhead)
	r.know()
	for client := range clients {
		r.running.Go(func() {
			for i := 0; !r.stop.Load(); i++ {
				for r.answered.Load() >= r.wanted.Load() && !r.stop.Load() {
					time.Sleep(clientPause)
				}
				ref := fmt.Sprintf("c%d-%d", client, i)
				side := map[bool]string{true: "", false: "-"}[i%2 == 0]
				r.place(ref, fmt.Sprintf(`<transactions id="%d"><order sym="SPY" amount="%s1" limit="10" ref="%s"/></transactions>`,
					1+client%2, side, ref))
				time.Sleep(clientPause)
			}
		})
	}
}

// know updates the clients' list of node addresses.
func (r *retrying) know() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs = nil
	for _, n := range r.nodes {
		r.addrs = append(r.addrs, n.xml)
	}
}

// moved updates the address of a node that has restarted.
func (r *retrying) moved(n *node) {
	r.mu.Lock()
	n.xml = n.xmlOf()
	r.mu.Unlock()
	r.know()
}

// place sends a frame to the nodes in turn until it is answered.
func (r *retrying) place(ref, frame string) {
	for n := 0; ; n++ {
		r.mu.Lock()
		addr := r.addrs[n%len(r.addrs)]
		r.mu.Unlock()
		reply, err := askWithin(addr, frame, 2*time.Second)
		if err != nil || strings.Contains(reply, "the exchange is stopping") || strings.Contains(reply, "caught up") {
			if n > 100_000 {
				text := fmt.Sprintf("%s was never answered: %v", ref, err)
				r.failed.Store(&text)
				return
			}
			time.Sleep(clientPause)
			continue
		}
		answers, err := wire.ParseReply([]byte(reply))
		if err != nil || len(answers) != 1 || answers[0].Kind != "opened" {
			text := fmt.Sprintf("%s: %s %v", ref, reply, err)
			r.failed.Store(&text)
			return
		}
		r.mu.Lock()
		r.ids[ref] = answers[0].ID
		r.mu.Unlock()
		r.answered.Add(1)
		return
	}
}

// askWithin sends one frame over a new connection and returns the reply.
func askWithin(addr, frame string, patience time.Duration) (string, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	return (&conn{c, wire.NewFrameReader(c, 1<<20)}).ask(frame)
}

// more waits until n more orders are answered.
func (r *retrying) more(t *testing.T, n int64) {
	t.Helper()
	until := r.answered.Load() + n
	r.wanted.Store(until + loadAhead)
	require.Eventually(t, func() bool { return r.answered.Load() >= until || r.failed.Load() != nil }, patience,
		time.Millisecond)
	if text := r.failed.Load(); text != nil {
		t.Fatal(*text)
	}
}

// end stops the clients, and requires that each ref names exactly one order on each node.
func (r *retrying) end(t *testing.T) {
	t.Helper()
	r.stop.Store(true)
	r.running.Wait()
	if text := r.failed.Load(); text != nil {
		t.Fatal(*text)
	}
	seen := map[string]string{}
	for ref, id := range r.ids {
		require.Empty(t, seen[id], "%s and %s are both order %s", ref, seen[id], id)
		seen[id] = ref
	}
	for _, n := range r.nodes {
		require.Eventually(t, func() bool {
			return query(t, n.database, "SELECT count(*)::text FROM orders")[0][0] == fmt.Sprint(len(r.ids))
		}, patience, lookEvery, "node %d: %d orders were answered", n.number, len(r.ids))
		rows := query(t, text(t, n.database), "SELECT ref, order_id::text FROM refs")
		require.Len(t, rows, len(r.ids), "node %d", n.number)
	}
}

// setUp creates two accounts, and a symbol of which they have shares.
func setUp(t *testing.T, leader *node) {
	t.Helper()
	c := dial(t, leader.xml)
	reply := c.must(t, `<create><account id="1" balance="1000000000"/><account id="2" balance="1000000000"/>`+
		`<symbol sym="SPY"><account id="1">1000000</account><account id="2">1000000</account></symbol></create>`)
	require.NotContains(t, reply, "error")
	require.NoError(t, c.Close())
}

// startCluster starts three nodes and waits until one leads and the others follow.
func startCluster(t *testing.T, flags ...string) (nodes []*node, leader *node) {
	t.Helper()
	nodes = newCluster(t, flags...)
	for _, n := range nodes {
		n.launch(t)
	}
	leader = leaderOf(t, nodes...)
	for _, n := range others(nodes, leader) {
		n.becomes(t, remote.RoleStandby)
	}
	for _, n := range nodes {
		n.xml = n.xmlOf()
		require.NotEmpty(t, n.xml)
	}
	return nodes, leader
}

// TestKillOfTheLeaderLosesNothing: clients that retry with refs get each order done exactly once, whichever node leads
// and whether the leader is killed or stopped cleanly. All nodes reach the same state.
func TestKillOfTheLeaderLosesNothing(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	setUp(t, leader)
	load := &retrying{nodes: nodes}
	load.begin(4)
	for _, end := range []func(*node){(*node).crash, func(n *node) { n.stop(t) }, (*node).crash} {
		load.more(t, 50)
		end(leader)
		next := leaderOf(t, others(nodes, leader)...)
		load.more(t, 50)
		leader.launch(t)
		leader.becomes(t, remote.RoleStandby)
		leader.xml = leader.xmlOf() // the kernel assigned another port
		load.know()
		leader = next
	}
	load.end(t)
	oneDigest(t, nodes)
	for _, n := range nodes {
		n.stop(t)
		require.Contains(t, n.log.String(), `"digest"`)
	}
}

const buyFive = `<transactions id="2"><order sym="SPY" amount="5" limit="10"/></transactions>`

// TestAStoppedLeaderTellsNothingAndFollowsThen: while the leader's process is paused, the other nodes continue
// without it. When the process resumes, it does not answer requests that it received before, and restarts itself as
// a follower.
func TestAStoppedLeaderTellsNothingAndFollowsThen(t *testing.T) {
	t.Parallel()
	nodes, old := startCluster(t)
	setUp(t, old)
	asks := dial(t, old.xml)
	reply := asks.must(t, `<transactions id="1"><order sym="SPY" amount="-5" limit="10" ref="a"/></transactions>`)
	require.Contains(t, reply, "opened")
	pid := old.cmd.Process.Pid
	goOn := processes.Stop(pid)
	t.Cleanup(goOn)
	_, err := asks.Write(wire.AppendFrame(nil, []byte(`<transactions id="1"><query ref="a"/></transactions>`)))
	require.NoError(t, err, "the kernel still takes it")
	next := leaderOf(t, others(nodes, old)...)
	c := dial(t, next.xml)
	require.Contains(t, c.must(t, buyFive), "opened")

	logged := len(old.log.String())
	goOn()
	last, err := asks.r.Next()
	if err == nil { // the reason why the connection closes, which reveals no state
		require.Contains(t, string(last), "<results><error>the exchange is stopping", "it tells what it knew")
		last, err = asks.r.Next()
	}
	require.Error(t, err, "%s", last)
	require.Eventually(t, func() bool { return strings.Contains(old.log.String()[logged:], "the HTTP side is up") },
		patience, time.Millisecond)
	old.becomes(t, remote.RoleStandby)
	require.Equal(t, pid, old.cmd.Process.Pid)
	require.Contains(t, old.log.String(), `"msg":"this process restarts as a follower","pid":`+fmt.Sprint(pid))
	require.NoError(t, old.cmd.Process.Signal(syscall.Signal(0)), "it is the same process")
	oneDigest(t, nodes)
	status, body := old.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "standby; the leader is "+next.xml+", HTTP "+next.http+"\n", body)
	_, err = net.DialTimeout("tcp", old.xmlOf(), time.Second)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	for _, n := range nodes {
		n.stop(t)
	}
}

// TestANodeWithoutItsPostgresVotesAndStores: a node that starts without its Postgres still completes the majority when
// another node dies, and becomes a standby once Postgres is available.
func TestANodeWithoutItsPostgresVotesAndStores(t *testing.T) {
	t.Parallel()
	nodes := newCluster(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // closed below, so nothing listens at its address
	require.NoError(t, err)
	away := l.Addr().String()
	require.NoError(t, l.Close())
	nodes[2].launch(t, "--database-url=postgres://nobody@"+away+"/none")
	for _, n := range nodes[:2] {
		n.launch(t)
	}
	leader := leaderOf(t, nodes[:2]...)
	leader.xml = leader.xmlOf()
	setUp(t, leader)
	status, body := nodes[2].get("/healthz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "starting: ")
	require.Equal(t, remote.RoleStarting, nodes[2].view().Role)
	require.EqualValues(t, leader.number, nodes[2].view().Leader)
	others(nodes[:2], leader)[0].kill()

	c := dial(t, leader.xml)
	for range 10 {
		require.Contains(t, c.must(t, buyFive), "opened")
	}
	nodes[2].stop(t)
	nodes[2].launch(t)
	nodes[2].becomes(t, remote.RoleStandby)
	require.EqualValues(t, 15, oneDigest(t, []*node{leader, nodes[2]}), "3 of the set up, 2 deposits and 10 orders")
}

// TestADirectoryOfANodeIsRefusedToAServerAlone: a server alone on a node's data directory would be a second leader.
func TestADirectoryOfANodeIsRefusedToAServerAlone(t *testing.T) {
	flags, _ := dataFlags(t)
	dir := strings.TrimPrefix(flags[0], "--data=")
	require.NoError(t, os.MkdirAll(dir+"/raft", 0o700))
	log := launch(t, flags...).fails(t)
	require.Contains(t, log, "would be a second leader")
	require.NoError(t, os.Rename(dir+"/raft", dir+"/CLUSTER")) // the log is lost, but CLUSTER shows that there was one
	log = launch(t, flags...).fails(t)
	require.Contains(t, log, "would be a second leader")
}

// TestALeaderHandsOverWhenItsPostgresLags: another node, whose Postgres keeps up, takes over as leader. The old leader
// does not campaign and follows it.
func TestALeaderHandsOverWhenItsPostgresLags(t *testing.T) {
	t.Parallel()
	nodes, old := startCluster(t, "--max-lag=1000")
	setUp(t, old)
	stuck := allTables(t, old.database)
	defer stuck.Close(background)
	_, err := stuck.Exec(background, "BEGIN; LOCK TABLE order_log IN EXCLUSIVE MODE")
	require.NoError(t, err)
	load := &retrying{nodes: nodes}
	load.begin(8)
	load.more(t, 1) // so that its Postgres is stuck on an order; any records may add to the lag
	deposits := slices.Repeat([]wire.Placement{{Account: "1", Shares: "1"}}, 900)
	frame := new(wire.Create).Symbol("SPY", deposits...).Append(nil)
	require.NotContains(t, dial(t, old.xml).must(t, string(frame)), "error")
	require.Eventually(t, func() bool {
		return load.failed.Load() != nil || strings.Contains(old.log.String(), "so far behind")
	}, patience, 5*time.Millisecond, "%d orders; log: %s", &load.answered, old.log)
	load.more(t, 1)
	leaderOf(t, others(nodes, old)...)
	load.more(t, 50)
	require.Contains(t, old.log.String(), "does not lead while its Postgres is so far behind")
	_, err = stuck.Exec(background, "ROLLBACK")
	require.NoError(t, err)
	// Under load, the Postgres of the new leader may lag as well, so the old one may lead again.
	require.Eventually(t, func() bool {
		return slices.Contains([]string{remote.RoleStandby, remote.RoleLeader}, old.view().Role)
	}, patience, lookEvery, "log: %s", old.log)
	load.end(t)
	oneDigest(t, nodes)
}

// TestNodesWithCertificatesAreACluster: nodes with certificates of one authority form a cluster, and a node with a
// certificate of another authority cannot join.
func TestNodesWithCertificatesAreACluster(t *testing.T) {
	t.Parallel()
	authority, stranger := certtest.NewAuthority(t), certtest.NewAuthority(t)
	nodes := newCluster(t)
	flags := func(a *certtest.Authority, n *node) []string {
		own := a.Peer(fmt.Sprintf("node%d", n.number), time.Hour, fmt.Sprintf("node-%d", n.number))
		return []string{"--peer-cert=" + own.CertFile, "--peer-key=" + own.KeyFile, "--peer-ca=" + authority.File}
	}
	nodes[2].launch(t, flags(stranger, nodes[2])...)
	for _, n := range nodes[:2] {
		n.launch(t, flags(authority, n)...)
	}
	// Founding nodes must all have met each other before one can lead.
	for _, n := range nodes {
		n.becomes(t, remote.RoleStandby)
	}
	require.NotContains(t, nodes[2].log.String(), "a peer is connected")
	require.Eventually(t, func() bool { return strings.Contains(nodes[0].log.String(), "certificate") }, patience,
		time.Millisecond, "the log says why: %s", nodes[0].log)
	status, _ := nodes[0].get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	nodes[2].stop(t)
	nodes[2].launch(t, flags(authority, nodes[2])...)
	leader := leaderOf(t, nodes...)
	leader.xml = leader.xmlOf()
	setUp(t, leader)
	require.EqualValues(t, 5, oneDigest(t, nodes))
}
