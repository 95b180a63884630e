package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
	"outcry/internal/operate/recovery"
	"outcry/internal/operate/remote"
	"outcry/internal/operate/settings"
	"outcry/internal/process/version"
	"outcry/internal/replica"
	"outcry/internal/replica/core"
	"outcry/internal/replica/peers"
)

// journalGather is how long a node gathers committed records before it syncs its journal. No reply waits
// for that sync, since a majority of the nodes has the records in its Raft logs.
const journalGather = 10 * time.Millisecond

// member is the part of a server that exists only on a node of a cluster. While the node follows the
// leader, the server has neither an engine nor sessions. It takes over when it is elected leader, and its
// process restarts when it loses the leadership. A server alone has a nil *member; methods that accept a
// nil receiver do nothing then.
type member struct {
	server   *server
	hello    peers.Hello                     // what this node tells its peers; set when the replica is opened
	former   former                          // earlier runs of the process, before it restarted itself
	replica  atomic.Pointer[replica.Replica] // nil before it is opened
	loaded   atomic.Bool                     // the state is loaded and follows the journal
	fit      atomic.Bool                     // its Postgres lags little enough for this node to lead
	led      atomic.Bool                     // this node leads, or did
	asked    atomic.Bool                     // an operator has requested a transfer of the leadership
	digest   digests
	compared comparison

	// certificates are for connections to other nodes. They are set when the replica is opened; nil without
	// --peer-cert
	certificates *auth.Certificates

	// Only the goroutine that starts and runs the server uses the fields up to leading.
	restore    *replica.Restore                    // nil if no restore is pending
	event      exchange.Event                      // memory for the event that the standby applies
	records    *trail.Follower[exchange.KeptEvent] // has the records that the standby has not applied yet
	unfollow   context.CancelFunc
	followed   chan struct{} // closed once the goroutine of follow has ended
	uncampaign context.CancelFunc
	// leading is closed once this node is the leader; nil before the state is loaded and after the takeover
	leading <-chan struct{}

	mu      sync.RWMutex // guards the fields below; a takeover holds it while it replaces the standby
	standby *engine.Standby
	engine  *engine.Engine
}

// newMember returns the server's member, or nil for a server alone.
func newMember(s *server) *member {
	if !s.config.Clustered() {
		return nil
	}
	m := &member{server: s, former: takeFormer(), uncampaign: func() {},
		digest: digests{working: make(chan struct{}, 1)}}
	m.former.rename()
	return m
}

// startMember opens Raft's log first, so that this node can vote and store entries at once. Then it opens
// the database, which may take long, and then it follows the leader.
func (s *server) startMember(ctx context.Context) (err error) {
	m := s.member
	options := s.journalOptions()
	options.Gather = journalGather
	if err = m.openJournal(options); err != nil {
		return err
	}
	s.trail = engine.NewTrail(s.journal)
	s.marks.Synced(s.journal.Appended(), time.Now())
	r, err := m.open()
	if err != nil {
		return err
	}
	m.replica.Store(r)
	s.metrics.watchCluster(m)
	ctx, cancel := m.whileFit(ctx)
	defer cancel(nil)
	if err := m.load(ctx); err != nil {
		if why := context.Cause(ctx); why != nil {
			return why
		}
		return err
	}
	m.follow()
	m.leading = r.Leading()
	m.loaded.Store(true)
	s.setNotReady(following{m})
	campaigning, end := context.WithCancel(context.Background())
	m.uncampaign = end
	s.running.Go(func() { m.campaign(campaigning) })
	s.running.Go(func() { m.compare(campaigning) })
	s.log.Info("this node follows", "node", s.config.Node, "seq", m.standby.Seq(), "pid", os.Getpid(),
		"data", s.config.Data, "version", version.String())
	s.manager.Tell("READY=1", s.status())
	return nil
}

// open opens the replica with this node's settings.
func (m *member) open() (*replica.Replica, error) {
	s, c := m.server, m.server.config
	security, err := m.peerSecurity()
	if err != nil {
		return nil, err
	}
	tokens, err := tokensHash(c)
	if err != nil {
		return nil, err
	}
	m.hello = peers.Hello{
		Version: version.String(), EventVersion: exchange.EventVersion, SegmentBytes: c.SegmentBytes,
		Listen:     m.advertised(c.AdvertiseListen, s.xmlAddr.Addr),
		HTTP:       m.advertised(c.AdvertiseHTTP, s.httpAddr),
		TokensHash: tokens, LimitsHash: c.LimitsHash(),
	}
	return replica.Open(replica.Options{
		Data: c.Data, Node: uint64(c.Node), Peers: c.Peers, TLS: security, Journal: s.journal, Join: c.Join,
		Trail: s.trail, KeepBytes: c.KeepForMembers, Log: s.log, Hello: m.hello, Backup: m.serveBackup, Ask: m.answer,
	})
}

// peerSecurity returns the certificates for connections between nodes, and watches their files for changes.
func (m *member) peerSecurity() (peers.Security, error) {
	s, c := m.server, m.server.config
	if c.PeerCert == "" {
		return peers.Security{}, nil
	}
	certificates, err := auth.LoadCertificates(c.PeerCert, c.PeerKey, c.PeerCA, s.log)
	if err != nil {
		return peers.Security{}, fmt.Errorf("--peer-cert: %w", err)
	}
	if err := certificates.Unfit(); err != nil {
		s.log.Warn("the other nodes refuse this certificate; a new one is used as soon as the files contain it",
			"error", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	end := s.guards.end
	s.guards.end = func() { end(); cancel() }
	s.running.Go(func() { certificates.Run(ctx) })
	m.certificates = certificates
	return peers.Security{Certificates: certificates}, nil
}

// tokensHash returns a hash of the files of tokens and keys, or "" if there are none.
func tokensHash(c *settings.Config) (string, error) {
	if !c.Auth {
		return "", nil
	}
	b, err := os.ReadFile(filepath.Join(c.Data, auth.TokensFile))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	keys, errKeys := os.ReadFile(filepath.Join(c.Data, auth.KeysFile))
	if errors.Is(errKeys, os.ErrNotExist) {
		errKeys = nil
	}
	if len(b)+len(keys) == 0 {
		return "", errors.Join(err, errKeys)
	}
	sum := sha256.Sum256(append(b, keys...))
	return hex.EncodeToString(sum[:8]), errors.Join(err, errKeys)
}

// advertised returns the address that clients should use: the setting if it is not empty, otherwise the address on
// which the server listens. If that is all interfaces, the host is that of this node's address for peers.
func (m *member) advertised(setting string, at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if setting != "" || !ok {
		return setting
	}
	host := tcp.IP.String()
	if tcp.IP == nil || tcp.IP.IsUnspecified() {
		c := m.server.config
		host, _, _ = net.SplitHostPort(c.Peers[uint64(c.Node)]) // Parse has checked the address
	}
	return net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}

// whileFit returns a context that ends with ctx, or when the replica or the journal fails or this node loses the
// leadership. The context's cause says which of these happened.
func (m *member) whileFit(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	r, j := m.replica.Load(), m.server.journal
	go func() {
		select {
		case <-r.Failed():
			cancel(r.Err())
		case <-j.Failed():
			cancel(j.Err())
		case <-r.Deposed():
			cancel(errDeposed)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// load restores and opens the database and makes the standby from its state.
func (m *member) load(ctx context.Context) (err error) {
	s := m.server
	if err := m.restoreDatabase(ctx); err != nil {
		return err
	}
	s.database, err = recovery.OpenDatabase(ctx, s.config, s.journal, s.log, s.setNotReady)
	if err != nil {
		return err
	}
	m.former.reap()
	if err = recovery.FollowMember(ctx, s.config, s.database, s.log); err != nil {
		return err
	}
	state, seq, err := s.load(ctx)
	if err != nil {
		return err
	}
	if m.records, err = s.trail.Follow(trail.FollowOptions{After: seq, HoldMax: math.MaxUint64}); err != nil {
		return err
	}
	now := s.settings()
	m.mu.Lock()
	m.standby = engine.NewStandby(engine.StandbyOptions{State: state, Seq: seq,
		Projection: s.projector, History: s.history,
		ClosedOrdersMax: now.ClosedOrdersMax, RefsMax: now.RefsMax, BacklogMax: now.LagMax})
	m.mu.Unlock()
	s.metrics.watch(m.stats, m.reconcile, s.journal, s.projector)
	s.runFollowers()
	s.metrics.watchLag(&s.marks, s.projector)
	return nil
}

// refuseData returns an error if the server must not use its data directory: the directory belongs to a broken
// node, or the server would run alone on the directory of a cluster's node.
func (s *server) refuseData() error {
	if s.member == nil {
		return recovery.RefuseAlone(s.config)
	}
	return replica.RefuseBroken(s.config.Data)
}

// clusterView returns the function that answers GET /api/v1/cluster, or nil for a server alone.
func (s *server) clusterView() func(context.Context) remote.Cluster {
	if s.member == nil {
		return nil
	}
	return s.member.cluster
}

// aliveView returns the function that answers GET /healthz, or nil for a server alone.
func (s *server) aliveView() func() (string, error) {
	if s.member == nil {
		return nil
	}
	return s.member.alive
}

// beganAgain reports whether this is a node of a cluster whose process has restarted itself.
func (m *member) beganAgain() bool { return m != nil && len(m.former.times) > 0 }

// follows reports whether this is a node of a cluster whose state is loaded.
func (m *member) follows() bool { return m != nil && m.loaded.Load() }

// setLimits applies changed limits to the standby. The engine's limits are set elsewhere.
func (m *member) setLimits(c *settings.Config) {
	if m != nil && m.standby != nil {
		m.standby.SetLimits(engineLimits(c))
	}
}

// err returns why the replica has failed or this node has lost the leadership. It returns nil for a server
// alone.
func (m *member) err() error {
	if m == nil || m.replica.Load() == nil {
		return nil
	}
	return m.replica.Load().Err()
}

// becomesLeader returns a channel that is closed once this node is the leader. It returns nil for a server
// alone and after the takeover. deposed and failed return channels that are closed when this node has lost
// the leadership or its replica has failed; they return nil for a server alone.
func (m *member) becomesLeader() <-chan struct{} {
	if m == nil {
		return nil
	}
	return m.leading
}

func (m *member) deposed() <-chan struct{} {
	if m == nil {
		return nil
	}
	return m.replica.Load().Deposed()
}

func (m *member) failed() <-chan struct{} {
	if m == nil {
		return nil
	}
	return m.replica.Load().Failed()
}

// following is the error of a node that accepts no orders because it does not lead. Its text names the leader at the
// time of the call.
type following struct{ m *member }

// Error returns this node's role and where the leader is.
func (f following) Error() string {
	status := f.m.replica.Load().Status()
	role := f.m.role(status.Role)
	if status.Leader == 0 {
		text := role + "; no leader is known"
		if away := f.m.replica.Load().Founders(); away != "" {
			text += "; the cluster is founded once all of --peers are reached; not reached yet: " + away
		}
		return text
	}
	if status.Leader == status.Node {
		return "this node is about to lead"
	}
	for _, p := range status.Peers {
		if p.ID == status.Leader && p.Hello.Listen != "" {
			named := role + "; the leader is " + p.Hello.Listen
			if p.Hello.HTTP != "" {
				named += ", HTTP " + p.Hello.HTTP // useful because this text is mostly read over HTTP
			}
			return named
		}
	}
	return fmt.Sprintf("%s; the leader is node %d", role, status.Leader)
}

// role returns the name of this node's role for r, its role in Raft.
func (m *member) role(r core.Role) string {
	switch {
	case !m.loaded.Load():
		return remote.RoleStarting
	case r == core.Learner:
		return remote.RoleLearner
	case m.server.notReady.Load() == nil:
		return remote.RoleLeader
	}
	return remote.RoleStandby
}

// alive returns the role of a node that leads or follows. The error says why the node does neither.
func (m *member) alive() (string, error) {
	if !m.loaded.Load() {
		return "", fmt.Errorf("%s: %w", remote.RoleStarting, *m.server.notReady.Load())
	}
	if err := m.err(); err != nil {
		return "", err
	}
	if why := m.replica.Load().Removed(); why != "" {
		return "", errors.New(why)
	}
	return m.role(m.replica.Load().Status().Role), nil
}
