package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"outcry/internal/door/web"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/health"
	"outcry/internal/process/version"
	"outcry/internal/view/market"
)

// streamWriteTimeout is how long a write to a reader of the market data stream may block.
const streamWriteTimeout = 5 * time.Second

// newMarketAPI returns the market data API over HTTP. It has no data until runFeed attaches the feed.
func (s *server) newMarketAPI() *web.API {
	return web.NewAPI(web.APIOptions{
		Started: s.started,
		Order: func(ctx context.Context, id exchange.OrderID, after, most int) (exchange.PublicOrder, bool, error) {
			if s.member != nil {
				return s.member.show(ctx, id, after, most)
			}
			return s.engine.Show(ctx, id, after, most)
		},
		Health:  s.lookAtHealth,
		Orders:  s.orderEntry(),
		Version: version.String(), ReadersMax: s.settings().ReadersMax, WriteTimeout: streamWriteTimeout,
		Log: s.log, Metrics: s.metrics.stream,
	})
}

// orderEntry returns how clients reach the XML port, which is bound before HTTP starts.
func (s *server) orderEntry() web.OrderEntry {
	at := s.xmlAddr.Addr.(*net.TCPAddr)
	return web.OrderEntry{
		Port: at.Port, Local: at.IP.IsLoopback(), TLS: s.guards.tls() != nil, Tokens: s.guards.tokens != nil,
	}
}

// newFeed makes the market data feed, which starts from the database's state and then reads the journal. It
// does nothing if HTTP is off, since the feed would have no readers.
func (s *server) newFeed(state *exchange.Snapshot) error {
	if s.market == nil {
		return nil
	}
	records, err := s.newFollower(state.Seq)
	if err != nil {
		return fmt.Errorf("market data after record %d: %w", state.Seq, err)
	}
	o := market.Options{Records: records, CatchUp: s.journal.Appended(), Log: s.log,
		Publish: s.market.Publish, Candles: s.olderCandles, Stored: s.stored}
	snap := &market.Snapshot{Seq: state.Seq, Symbols: state.Symbols, Orders: state.Orders,
		Traded: s.database.Traded, Trades: s.database.Trades, Candles: s.database.Candles}
	s.database.Traded, s.database.Trades, s.database.Candles = nil, nil, nil
	s.feed = market.NewFeed(o, snap)
	return nil
}

// olderCandles returns candles from the database, which is open before the feed receives requests for candles.
func (s *server) olderCandles(
	ctx context.Context, sym exchange.Symbol, i exchange.Interval, from, to int64, limit int,
) ([]exchange.Candle, error) {
	return s.history.Candles(ctx, sym, i, from, to, limit)
}

// stored returns the seq of the last record that the database includes.
func (s *server) stored() uint64 { return s.projector.Applied() }

// lookAtHealth returns the health of the exchange. Only the feed's goroutine may call it.
func (s *server) lookAtHealth() web.Health {
	h := web.Health(s.health.Look())
	if err := s.member.confirmed(); err != nil {
		return web.Health{NotReady: err} // the figures may not be committed
	}
	return h
}

// runFeed starts the feed, which ends with ctx. The engine or the standby must exist.
func (s *server) runFeed(ctx context.Context) {
	if s.feed == nil {
		return
	}
	s.health = health.NewWatch(health.Parts{
		Load:    func() health.Load { return health.Load(s.metrics.sessions.Load()) },
		Journal: s.journal, Projector: s.projector, Marks: &s.marks, Ready: s.ready})
	s.metrics.watchFeed(s.feed, s.journal)
	s.running.Go(func() { s.feed.Run(ctx) })
	s.market.Attach(s.feed)
	s.doors.feed.Store(s.feed)
}

// watchFeed adds the metrics of the feed, which are read at each scrape.
func (m *metrics) watchFeed(f *market.Feed, j *journal.Journal) {
	m.gauge("outcry_market_feed_up",
		"1 while there is market data, 0 before the feed is up to date and after it has failed.",
		func() float64 { return oneIf(f.Err() == nil) })
	m.gauge("outcry_market_feed_lag_records", "Journal records that market data does not include yet.", func() float64 {
		seq := f.Seq() // read first, because the journal may grow in between
		return float64(j.Appended() - seq)
	})
}
