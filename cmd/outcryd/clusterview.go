package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"outcry/internal/operate/remote"
	"outcry/internal/replica"
	"outcry/internal/replica/core"
	"outcry/internal/replica/peers"
)

const (
	// digestWait bounds how long a request for the cluster's status waits for the digest of a changing
	// state. digestRest is how long the state must be unchanged before its digest is computed, since a
	// digest of an older state would be of no use. digestPoll is how often the state is checked.
	digestWait = time.Second
	digestRest = 100 * time.Millisecond
	digestPoll = 20 * time.Millisecond

	// digestTimeout bounds the computation of a digest, which may continue after the requests for it are answered.
	// For a large state or on a busy machine the computation takes more than digestWait.
	digestTimeout = time.Minute
)

// digests holds the newest digests of the state and the records after which they were computed.
type digests struct {
	working chan struct{} // holds a value while a request waits for a digest or one is computed

	mu     sync.Mutex // guards the fields below; held only for short sections
	digest string
	seq    uint64
	recent []seqDigest // ascending by seq, at most digestsKept, for comparison with other nodes
}

// cluster returns the cluster as this node sees it.
func (m *member) cluster(ctx context.Context) remote.Cluster {
	c := remote.Cluster{Node: uint64(m.server.config.Node), Role: remote.RoleStarting, Members: []remote.Member{}}
	r := m.replica.Load()
	if r == nil {
		c.Why = m.server.why()
		return c
	}
	status := r.Status()
	c.Role, c.Why = m.role(status.Role), m.server.why()
	c.Leader, c.Term = status.Leader, status.Term
	if status.Cluster != (core.Identity{}) {
		c.Cluster = fmt.Sprintf("%x", status.Cluster[:])
	}
	c.Members = m.members(&status)
	if m.loaded.Load() {
		c.Digest, c.DigestSeq = m.digestNow(ctx)
		c.Seq = max(m.seq(), c.DigestSeq)
	}
	return c
}

// members returns the nodes in a status.
func (m *member) members(status *replica.Status) []remote.Member {
	all := []remote.Member{}
	for i := range status.Peers {
		p := &status.Peers[i]
		hello := p.Hello
		if p.ID == status.Node {
			hello = m.hello
		}
		one := remote.Member{Node: p.ID, Learner: p.Learner, Peer: p.Address, Active: p.Active, LagEntries: p.Lag,
			Outside: !p.Known && len(status.Members) > 0,
			Listen:  hello.Listen, HTTP: hello.HTTP, Version: hello.Version}
		if p.Heard {
			one.Differs = m.differs(&hello)
		}
		all = append(all, one)
	}
	return all
}

// differs returns the names of the settings in which another node differs from this node.
func (m *member) differs(other *peers.Hello) (what []string) {
	for _, s := range []struct {
		name string
		same bool
	}{
		{"tokens", m.hello.TokensHash == other.TokensHash},
		{"limits", m.hello.LimitsHash == other.LimitsHash},
		{"segment", m.hello.SegmentBytes == other.SegmentBytes},
	} {
		if !s.same {
			what = append(what, s.name)
		}
	}
	return what
}

// seq returns the last committed record that this node has.
func (m *member) seq() uint64 {
	if e, standby := m.view(); e == nil {
		return standby.Seq()
	}
	return m.replica.Load().Synced()
}

// digestNow returns the digest of the current state if the state is unchanged for digestRest, otherwise the digest
// that was computed last. It waits at most digestWait, however many callers there are.
func (m *member) digestNow(ctx context.Context) (digest string, seq uint64) {
	d := &m.digest
	ctx, cancel := context.WithTimeout(ctx, digestWait)
	defer cancel()
	select {
	case d.working <- struct{}{}:
	case <-ctx.Done():
		return d.last()
	}
	if m.waitIdle(ctx) {
		d.inBackground(ctx, m.workOut)
	} else {
		<-d.working
	}
	return d.last()
}

// waitIdle waits until the state has been unchanged for digestRest and its digest is not known, and then returns true.
// It returns false if the digest is known already, or when ctx ends.
func (m *member) waitIdle(ctx context.Context) bool {
	poll := time.NewTicker(digestPoll)
	defer poll.Stop()
	known, of := m.digest.last()
	for at, since := m.seq(), time.Now(); at != of || known == ""; {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return false
		}
		if now := m.seq(); now != at {
			at, since = now, time.Now()
		} else if time.Since(since) >= digestRest {
			return true
		}
	}
	return false
}

// inBackground starts the computation of a digest, bounded by digestTimeout, and waits for it until ctx
// ends. The caller has put a value into d.working, which is removed when the computation ends.
func (d *digests) inBackground(ctx context.Context, workOut func(context.Context)) {
	working, cancel := context.WithTimeout(context.WithoutCancel(ctx), digestTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { <-d.working }()
		defer cancel()
		workOut(working)
	}()
	select {
	case <-ctx.Done():
	case <-done:
	}
}

// workOut computes the digest of the state and keeps it. Records that arrive during the computation are not
// part of it.
func (m *member) workOut(ctx context.Context) {
	e, standby := m.view()
	if e == nil {
		if digest, seq, err := standby.Digest(); err == nil {
			m.digest.keep(fmt.Sprintf("%x", digest), seq)
		}
		return
	}
	if digest, seq, ok := e.Digest(ctx); ok {
		m.digest.keep(fmt.Sprintf("%x", digest), seq)
	}
}

// watchCluster adds the metrics of a cluster's node, which are read at each scrape.
func (m *metrics) watchCluster(node *member) {
	r := node.replica.Load()
	m.gauge("outcry_cluster_leads", "1 while this node leads its cluster and accepts orders, else 0.",
		func() float64 { return oneIf(node.server.notReady.Load() == nil && node.err() == nil) })
	m.gauge("outcry_cluster_follows", "1 while this node has loaded its state and leads or follows, 0 while it starts.",
		func() float64 { return oneIf(node.loaded.Load() && node.err() == nil) })
	m.gauge("outcry_cluster_leader", "Number of the leading node as far as this one knows, 0 if unknown.",
		func() float64 { return float64(r.Status().Leader) })
	m.gauge("outcry_cluster_term", "Raft's term: it rises with each election.",
		func() float64 { return float64(r.Status().Term) })
	m.gauge("outcry_cluster_unfit", "1 while this node should not lead because its disk hangs or is full, else 0.",
		func() float64 { return oneIf(r.Status().Unfit != nil) })
	m.gauge("outcry_cluster_digest_differs",
		"1 while the state of another node is known to differ from this one's after the same record, else 0.",
		func() float64 { return oneIf(node.compared.differs.Load()) })
	m.gauge("outcry_cluster_certificate_expiry_timestamp_seconds",
		"When the certificate for the other nodes expires, in seconds since the Unix epoch; 0 without one.",
		func() float64 {
			if node.certificates == nil {
				return 0
			}
			return float64(node.certificates.Expires().Unix())
		})
	m.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "outcry_cluster_elections_total",
			Help: "Elections that this node has begun since it started."},
			func() float64 { return float64(r.Status().Elections) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "outcry_cluster_dropped_messages_total",
			Help: "Messages of other nodes that this one dropped for lack of room since it started. Raft sends them again."},
			func() float64 { return float64(r.Status().Dropped) }),
		&peerFigures{status: r.Status})
}

// peerFigures is a prometheus.Collector of what a leader knows about the other nodes.
type peerFigures struct{ status func() replica.Status }

var (
	peerLag = prometheus.NewDesc("outcry_cluster_peer_lag_entries",
		"Entries of Raft's log that a node does not have on its disk yet. Only the leader reports it.", []string{"node"}, nil)
	peerActive = prometheus.NewDesc("outcry_cluster_peer_active",
		"1 if a node has answered this one lately, else 0. Only the leader reports it.", []string{"node"}, nil)
	spareVoters = prometheus.NewDesc("outcry_cluster_spare_voters",
		"Number of voting nodes that may fail before the rest is too few for a majority. Only the leader "+
			"reports it.", nil, nil)
)

// Describe implements prometheus.Collector.
func (*peerFigures) Describe(ch chan<- *prometheus.Desc) {
	ch <- peerLag
	ch <- peerActive
	ch <- spareVoters
}

// Collect implements prometheus.Collector.
func (f *peerFigures) Collect(ch chan<- prometheus.Metric) {
	status := f.status()
	if status.Role != core.Leader {
		return
	}
	voters, active := 0, 0
	for i := range status.Peers {
		p := &status.Peers[i]
		if p.Known && !p.Learner {
			voters++
			if p.Active || p.ID == status.Node {
				active++
			}
		}
		if p.Known && p.ID != status.Node {
			node := fmt.Sprint(p.ID)
			ch <- prometheus.MustNewConstMetric(peerLag, prometheus.GaugeValue, float64(p.Lag), node)
			ch <- prometheus.MustNewConstMetric(peerActive, prometheus.GaugeValue, oneIf(p.Active), node)
		}
	}
	ch <- prometheus.MustNewConstMetric(spareVoters, prometheus.GaugeValue, float64(max(0, active-voters/2-1)))
}
