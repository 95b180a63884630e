package main

import (
	"time"

	"outcry/internal/exchange"
	"outcry/internal/health"
	"outcry/internal/operate"
	"outcry/internal/sdnotify"
	"outcry/internal/version"
)

// setNotReady says why the exchange takes no orders.
func (s *server) setNotReady(why error) {
	s.notReady.Store(&why)
	s.manager.Tell(sdnotify.Status("%v", why))
}

// started returns why frames cannot be done, nil if they can.
func (s *server) started() error {
	if why := s.notReady.Load(); why != nil {
		return *why
	}
	return s.journal.Err()
}

// ready returns why the exchange takes no orders, nil while it does. Postgres
// being away is no reason, being too far behind is.
func (s *server) ready() error {
	if err := s.started(); err != nil {
		return err
	}
	return s.engine.Refusing()
}

// processStart is when this program began.
var processStart = time.Now()

// statusNow is how the exchange is doing.
func (s *server) statusNow() operate.Status {
	status := operate.Status{Version: version.String(), UptimeSeconds: time.Since(processStart).Seconds(),
		MemoryBytes: health.MemoryBytes()}
	if health.DiskIsKnown {
		d := health.DiskOf(s.config.Data)
		status.Disk = &operate.Disk{Available: d.Available, Size: d.Size}
	}
	if why := s.notReady.Load(); why != nil {
		status.Why = (*why).Error()
		return status
	}
	if err := s.ready(); err != nil {
		status.Why = err.Error()
	}
	status.Ready = status.Why == ""
	status.Exchange = s.exchangeNow()
	return status
}

// exchangeNow is the part of a status that there is once the exchange has started, of which
// feed and health are parts: it is asked for over HTTP only.
func (s *server) exchangeNow() *operate.Exchange {
	stats, applied := s.engine.Stats(), s.projector.Applied() // first: the journal may go on meanwhile
	synced := s.journal.Synced()
	x := &operate.Exchange{
		Journal: operate.Journal{Appended: s.journal.Appended(), Synced: synced,
			Segments: s.journal.SegmentCount(), RoomBytes: s.journal.RoomBytes()},
		Postgres: operate.Postgres{Up: !s.projector.Down(), Applied: applied,
			LagSeconds: s.marks.Lag(applied, time.Now()).Seconds()},
		Load:     s.health.Lately(),
		Accounts: stats.Accounts, Symbols: stats.Symbols, OpenOrders: stats.OpenOrders, HaltedSymbols: stats.Halted,
	}
	x.Postgres.LagRecords = x.Journal.Appended - applied
	if err := s.journal.Room(); err != nil {
		x.Journal.NoRoom = err.Error()
	}
	if err := s.feed.Err(); err != nil {
		x.MarketData = err.Error()
	}
	halts := s.engine.Halts()
	for _, h := range halts[:min(len(halts), operate.HaltedMost)] {
		x.Halted = append(x.Halted, operate.HaltedSymbol{
			Sym: string(h.Symbol), Halt: operate.Halt{Time: exchange.Seconds(h.Since), Reason: h.Reason}})
	}
	return x
}
