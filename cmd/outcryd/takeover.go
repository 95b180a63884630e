package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"outcry/internal/door/websocket"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// errDeposed says that this node has lost the leadership. Its memory may hold results that were never
// committed, so the process must restart.
var errDeposed = errors.New("this node no longer leads")

const (
	// fitEvery is how often a node checks whether its Postgres lags little enough for the node to lead.
	fitEvery = 100 * time.Millisecond

	// transferTimeout bounds how long a stop tries to transfer the leadership. The transfer takes
	// milliseconds if another node can lead.
	transferTimeout = 3 * time.Second

	// figuresTimeout bounds how long a request for a leader's figures waits until they are committed.
	figuresTimeout = time.Second
)

// follow starts a goroutine that applies the leader's records and compares its own results with the recorded
// results.
func (m *member) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	m.unfollow, m.followed = cancel, make(chan struct{})
	m.server.running.Go(func() {
		defer close(m.followed)
		err := m.apply(ctx, func() bool { return true })
		if err != nil && ctx.Err() == nil {
			m.server.ended <- err
		}
	})
}

// apply applies records while more returns true, until ctx ends. If a record's result differs from what was
// recorded, it marks this node broken and returns the error.
func (m *member) apply(ctx context.Context, more func() bool) error {
	for more() {
		if !m.led.Load() { // a leader must not wait: its Postgres may catch up only once it leads
			if err := m.standby.WaitRoom(ctx); err != nil {
				return err
			}
		}
		seq, event, err := m.records.Next(ctx)
		if err != nil {
			if errors.Is(err, exchange.ErrEvent) { // this program cannot decode a record that the leader has made
				m.replica.Load().Break(err)
			}
			return err
		}
		if err := m.standby.Apply(seq, event.Event(&m.event)); err != nil {
			if !errors.Is(err, engine.ErrStopped) {
				m.replica.Load().Break(err)
			}
			return err
		}
		m.noteDigest(seq)
	}
	return nil
}

// stopFollowing ends the goroutine of follow and waits for it.
func (m *member) stopFollowing() {
	if m.unfollow != nil {
		m.unfollow()
		<-m.followed
	}
}

// campaign decides whether this node may lead: it may not while its Postgres is too far behind. A leader whose
// Postgres is too far behind hands over if another node may lead. campaign also logs changes of the leader. It ends
// with ctx.
func (m *member) campaign(ctx context.Context) {
	s, r := m.server, m.replica.Load()
	tick := time.NewTicker(fitEvery)
	defer tick.Stop()
	say := time.NewTicker(sayEvery)
	defer say.Stop()
	var leader uint64
	var logged string
	for may := false; ; {
		if now := r.Status().Leader; now != leader {
			leader = now
			what := "the cluster has another leader"
			if leader == 0 {
				what = "no leader is known"
			}
			s.log.Info(what, "leader", leader, "term", r.Status().Term)
			s.manager.Tell(s.status())
		}
		most := lagMost(uint64(s.settings().LagMax), m.led.Load(), may)
		applied := s.projector.Applied() // read first, because the journal may grow in between
		lag := s.journal.Appended() - applied
		if fit := lag < most; fit != may {
			may = fit
			m.fit.Store(may)
			r.MayCampaign(may)
			if !may {
				s.log.Warn("this node does not lead while its Postgres is so far behind", "lag_records", lag)
			}
		}
		select {
		case <-tick.C:
		case <-say.C:
			if away := r.Founders(); away != logged {
				logged = away
				if away != "" {
					s.log.Warn("the cluster is founded once all of --peers are reached", "not_reached", away)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// lagMost returns how many records the Postgres of a node may be behind for the node to lead. For the
// leader the limit is below the lag at which orders are refused. For other nodes it is lower, since they
// must be a better choice than a leader that hands over. A node that may not lead must fall well below the
// limit first, so that the decision does not alternate.
func lagMost(lagMax uint64, leads, may bool) uint64 {
	most := lagMax / 4 * 3
	if !leads {
		most = lagMax / 2
	}
	if !may {
		most = most / 3 * 2
	}
	return most
}

// takeOver turns the standby into the exchange: it applies what was committed before this node's
// leadership, hands the state to an engine, and opens the XML port. It also returns nil if the leadership
// or ctx ends during the takeover.
func (m *member) takeOver(ctx context.Context) error {
	s, r := m.server, m.replica.Load()
	begun := time.Now()
	m.leading = nil
	m.led.Store(true)
	m.stopFollowing()
	ctx, cancel := m.whileFit(ctx)
	defer cancel(nil)
	last := r.Appended()
	if err := m.apply(ctx, func() bool { return m.standby.Seq() < last }); err != nil {
		if ctx.Err() != nil {
			return nil // runUntil handles the cause
		}
		return err
	}
	if r.Err() != nil || m.standby.Seq() != last {
		return nil // the leadership ended before the standby stopped, so the standby has records of the next leader
	}
	m.records.Close()
	m.records = nil
	o := s.engineOptions(r)
	o.Standby, o.Readers = m.standby, r.Readers
	m.mu.Lock()
	s.engine = engine.New(o)
	s.engine.SetLimits(engineLimits(s.settings()))
	m.engine = s.engine
	m.mu.Unlock()
	if err := s.resumeEngine(ctx); err != nil {
		if ctx.Err() != nil || r.Err() != nil {
			return nil // runUntil handles the cause
		}
		return err
	}
	if err := s.startSessions(); err != nil {
		return err
	}
	if s.sockets != nil { // what a connection can do is fixed when it opens
		s.sockets.End(websocket.CodeGoingAway, "this node leads from now on; connect again")
	}
	s.log.Info("this node leads", "node", s.config.Node, "seq", last, "took", time.Since(begun).String())
	return nil
}

// view returns the engine if this node leads, else nil and the standby.
func (m *member) view() (*engine.Engine, *engine.Standby) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.engine, m.standby
}

// stats returns the figures of this node's engine or standby. A leader's figures may be published once confirmed
// returns nil.
func (m *member) stats() engine.Stats {
	e, standby := m.view()
	if e == nil {
		return standby.Stats()
	}
	return e.Stats()
}

// halts returns the symbols that accept no orders. A leader's list may be published once confirmed returns nil.
func (m *member) halts() []engine.HaltedSymbol {
	e, standby := m.view()
	if e == nil {
		return standby.Halts()
	}
	return e.Halts()
}

// confirmed returns nil once all figures that the caller has read may be published: everything that this
// leader has done is committed, and it still leads. It returns at once if that is so already, and waits at
// most figuresTimeout. A node that does not lead and a server alone need no confirmation.
func (m *member) confirmed() error {
	if m == nil {
		return nil
	}
	e, _ := m.view()
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), figuresTimeout)
	defer cancel()
	if err := e.Durable(ctx, e.Mark()); err != nil {
		return fmt.Errorf("this node cannot confirm that it leads: %w", err)
	}
	return nil
}

// figures returns a gatherer of the node's metrics that shows only committed figures.
func (m *member) figures(of prometheus.Gatherer) prometheus.Gatherer {
	if m == nil {
		return of
	}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := of.Gather()
		if confirmErr := m.confirmed(); confirmErr != nil {
			return nil, confirmErr
		}
		return all, err
	})
}

// last returns the seq of the last record that this node appended as the leader, or 0 for a server alone.
// The journal may also have records of the next leader.
func (m *member) last() uint64 {
	if m == nil {
		return 0
	}
	return m.replica.Load().Appended()
}

// allCommitted reports whether all records of the engine are committed, so that its state may be published. It is
// always true for a server alone.
func (m *member) allCommitted() bool {
	return m == nil || m.replica.Load().Appended() == m.replica.Load().Synced()
}

// reconcile counts cash and shares on the leader. A follower returns no imbalance: it compares its results
// with each record instead.
func (m *member) reconcile() exchange.Imbalance {
	if e, _ := m.view(); e != nil {
		return e.Reconcile()
	}
	return exchange.Imbalance{}
}

// show returns an order as Engine.Show does. A follower first waits until it has applied the last record
// that its market data includes.
func (m *member) show(
	ctx context.Context, id exchange.OrderID, after, most int,
) (exchange.PublicOrder, bool, error) {
	e, standby := m.view()
	if e != nil {
		return e.Show(ctx, id, after, most)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for seen := m.server.feed.Seq(); standby.Seq() < seen; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return exchange.PublicOrder{}, false, fmt.Errorf("record %d is not applied yet: %w", seen, ctx.Err())
		}
	}
	return standby.Show(ctx, id, after, most)
}

// stopCampaigning keeps a node that is stopping from becoming the leader. A node that already leads remains the leader
// until leave, so that clients receive the replies to their requests.
func (m *member) stopCampaigning() {
	if m == nil || m.replica.Load() == nil {
		return
	}
	m.uncampaign()
	if !m.led.Load() {
		m.replica.Load().MayCampaign(false)
	}
}

// closeStandby closes the standby and returns the seq and digest of its state, for the log. It returns nil if the
// state belongs to the engine.
func (m *member) closeStandby() []any {
	if m == nil || m.standby == nil {
		return nil
	}
	digest, seq, err := m.standby.Digest()
	m.standby.Close()
	if err != nil { // also if a record did not match
		return nil
	}
	return []any{"seq", seq, "digest", fmt.Sprintf("%x", digest)}
}

// leave transfers the leadership, if this node has it, stops following, and closes the replica. The journal
// receives no more records after that.
func (m *member) leave(ctx context.Context) error {
	if m == nil || m.replica.Load() == nil {
		return nil
	}
	r, log := m.replica.Load(), m.server.log
	if r.Status().Leader == r.Status().Node && r.Err() == nil {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(ctx, transferTimeout)
		defer cancel()
		if err := r.Transfer(ctx, 0); err != nil {
			log.Warn("no other node has taken the leadership; the others elect one without this node", "error", err)
		} else {
			log.Info("the leadership was handed over", "took", time.Since(begun).String())
		}
	}
	m.stopFollowing()
	if m.records != nil {
		m.records.Close()
	}
	return r.Close()
}
