package main

import (
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/operate/health"
	"outcry/internal/operate/remote"
	"outcry/internal/process/sdnotify"
	"outcry/internal/process/version"
)

// setNotReady sets the reason why the exchange accepts no orders.
func (s *server) setNotReady(why error) {
	s.notReady.Store(&why)
	s.manager.Tell(sdnotify.Status("%v", why))
}

// started returns why frames cannot be processed, or nil if they can.
func (s *server) started() error {
	if why := s.notReady.Load(); why != nil {
		return *why
	}
	if err := s.member.err(); err != nil {
		return err
	}
	return s.journal.Err()
}

// why returns why the exchange accepts no orders, or "" while it accepts them.
func (s *server) why() string {
	if err := s.ready(); err != nil {
		return err.Error()
	}
	return ""
}

// ready returns why the exchange accepts no orders, or nil while it accepts them. Being unable to reach Postgres is
// not a reason, but a Postgres that is too far behind is.
func (s *server) ready() error {
	if err := s.started(); err != nil {
		return err
	}
	return s.engine.Refusing()
}

// processStart is when this program started.
var processStart = time.Now()

// statusNow returns the current status of the exchange.
func (s *server) statusNow() remote.Status {
	status := remote.Status{Version: version.String(), UptimeSeconds: time.Since(processStart).Seconds(),
		MemoryBytes: health.MemoryBytes()}
	if health.DiskIsKnown {
		d := health.DiskOf(s.config.Data)
		status.Disk = &remote.Disk{Available: d.Available, Size: d.Size}
	}
	status.Why = s.why()
	status.Ready = status.Why == ""
	if s.notReady.Load() == nil || s.member.follows() {
		status.Exchange = s.exchangeNow()
	}
	if err := s.member.confirmed(); err != nil {
		status.Ready, status.Why, status.Exchange = false, err.Error(), nil
	}
	return status
}

// exchangeNow returns the part of the status that exists once the exchange has started. It uses feed and
// health, which exist only with HTTP; only HTTP handlers call it.
func (s *server) exchangeNow() *remote.Exchange {
	stats, applied := s.stats(), s.projector.Applied() // read first, because the journal may grow in between
	synced := s.journal.Synced()
	x := &remote.Exchange{
		Journal: remote.Journal{Appended: s.journal.Appended(), Synced: synced,
			Segments: s.journal.SegmentCount(), RoomBytes: s.journal.RoomBytes()},
		Postgres: remote.Postgres{Up: !s.projector.Down(), Applied: applied,
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
	halts := s.halts()
	for _, h := range halts[:min(len(halts), remote.HaltedMost)] {
		x.Halted = append(x.Halted, remote.HaltedSymbol{
			Sym: string(h.Symbol), Halt: remote.Halt{Time: exchange.Seconds(h.Since), Reason: h.Reason}})
	}
	return x
}

// stats returns the engine's figures, or the standby's.
func (s *server) stats() engine.Stats {
	if s.member != nil {
		return s.member.stats()
	}
	return s.engine.Stats()
}

// halts returns the symbols that accept no orders.
func (s *server) halts() []engine.HaltedSymbol {
	if s.member != nil {
		return s.member.halts()
	}
	return s.engine.Halts()
}
