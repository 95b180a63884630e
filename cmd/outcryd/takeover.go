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

// errDeposed says that this node leads no more, so that its memory may hold what is in
// nobody's history: the process has to begin again.
var errDeposed = errors.New("this node leads no more")

const (
	// fitEvery is how often a node looks whether its Postgres lets it lead.
	fitEvery = 100 * time.Millisecond

	// transferTimeout bounds how long a stop tries to hand over the leadership. It takes
	// milliseconds if there is a node that may have it.
	transferTimeout = 3 * time.Second

	// figuresTimeout bounds how long figures of a leader wait until they may be told.
	figuresTimeout = time.Second
)

// follow begins to do again what the leader has done, and to compare what comes out.
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

// apply applies records while there may be more, until ctx ends. An error that says that a
// record does not come out as recorded has made this node stay down.
func (m *member) apply(ctx context.Context, more func() bool) error {
	for more() {
		if !m.led.Load() { // else it would wait for what only leading it mends
			if err := m.standby.WaitRoom(ctx); err != nil {
				return err
			}
		}
		seq, record, err := m.records.Next(ctx)
		if err != nil {
			return err
		}
		if err := m.standby.Apply(seq, record); err != nil {
			if !errors.Is(err, engine.ErrStopped) {
				m.replica.Load().Break(err)
			}
			return err
		}
		m.noteDigest(seq)
	}
	return nil
}

// stopFollowing ends follow, and waits for that.
func (m *member) stopFollowing() {
	if m.unfollow != nil {
		m.unfollow()
		<-m.followed
	}
}

// campaign says whether this node may lead: not while its Postgres is too far behind. A
// leader whose is hands over, if another node may lead. It tells people who leads, and ends
// with ctx.
func (m *member) campaign(ctx context.Context) {
	s, r := m.server, m.replica.Load()
	tick := time.NewTicker(fitEvery)
	defer tick.Stop()
	say := time.NewTicker(sayEvery)
	defer say.Stop()
	var leader uint64
	var told string
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
		applied := s.projector.Applied() // first: the journal may go on meanwhile
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
			if away := r.Founders(); away != told {
				told = away
				if away != "" {
					s.log.Warn("the cluster is founded once all of --peers are reached", "not_reached", away)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// lagMost returns how many records the Postgres of a node may be behind that may lead: of one
// that leads fewer than those at which orders are refused; of another one fewer still, since
// it would be no better than the leader that hands over to it. A node that may not lead has to
// be well below, so that it does not go to and fro.
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

// takeOver makes the standby the exchange: it applies what was committed before this
// node's leadership, hands its state to an engine, and opens the XML port. It returns nil
// too if the leadership ends meanwhile, or ctx.
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
			return nil // runUntil sees why
		}
		return err
	}
	if r.Err() != nil || m.standby.Seq() != last {
		return nil // the leadership was over before the standby stopped: it has records of the next one
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
			return nil // runUntil sees why
		}
		return err
	}
	if err := s.startSessions(); err != nil {
		return err
	}
	if s.sockets != nil { // what a connection can do does not change while it lasts
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

// stats are the figures of what this node has. A leader's may be told once confirmed says so.
func (m *member) stats() engine.Stats {
	e, standby := m.view()
	if e == nil {
		return standby.Stats()
	}
	return e.Stats()
}

// halts are the symbols that take no orders, of which the same is true.
func (m *member) halts() []engine.HaltedSymbol {
	e, standby := m.view()
	if e == nil {
		return standby.Halts()
	}
	return e.Halts()
}

// confirmed returns nil once all figures that its caller has read may be told: what a leader
// has done is committed, and it leads still. It takes no time where that is so already, and at
// most figuresTimeout.
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

// figures gathers metrics of a node, of which none tells what is not committed.
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

// last returns the last record of the state of the server's engine. Those of the next leader
// may be in the journal as well.
func (m *member) last() uint64 {
	if m == nil {
		return 0
	}
	return m.replica.Load().Appended()
}

// tellsAll reports whether everything that the engine has done is committed, so that its
// state may be told: always so for a server alone.
func (m *member) tellsAll() bool {
	return m == nil || m.replica.Load().Appended() == m.replica.Load().Synced()
}

// reconcile counts cash and shares on the node that leads. One that follows has them
// compared with each record.
func (m *member) reconcile() exchange.Imbalance {
	if e, _ := m.view(); e != nil {
		return e.Reconcile()
	}
	return exchange.Imbalance{}
}

// show returns an order as Engine.Show does, of a node that follows at the record of its
// market data or later.
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

// stopCampaigning keeps a node that stops from becoming the leader now. One that leads stays
// it until leave: clients get the replies to what they have sent.
func (m *member) stopCampaigning() {
	if m == nil || m.replica.Load() == nil {
		return
	}
	m.uncampaign()
	if !m.led.Load() {
		m.replica.Load().MayCampaign(false)
	}
}

// came ends the standby, and returns what its state came to, for the log; nil if it is the
// engine's.
func (m *member) came() []any {
	if m == nil || m.standby == nil {
		return nil
	}
	digest, seq, err := m.standby.Digest()
	m.standby.Close()
	if err != nil { // or a record did not fit
		return nil
	}
	return []any{"seq", seq, "digest", fmt.Sprintf("%x", digest)}
}

// leave gives up the leadership, if this node has it, and ends what it has of the cluster.
// The journal gets no records any more then.
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
			log.Info("the leadership is handed over", "took", time.Since(begun).String())
		}
	}
	m.stopFollowing()
	if m.records != nil {
		m.records.Close()
	}
	return r.Close()
}
