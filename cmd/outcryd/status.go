package main

import (
	"cmp"
	runtimemetrics "runtime/metrics"
	"slices"
	"sync"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/market"
	"outcry/internal/operate"
)

// latelyMax is how old the figures of the last look may be. Market data looks once a
// second.
const latelyMax = 5 * time.Second

// lately is how the exchange was doing when that was last looked at. Its methods may be
// called from any goroutine. The zero value has not looked.
type lately struct {
	mu   sync.Mutex // guards what follows
	at   time.Time
	load operate.Load
}

// note takes in a look.
func (l *lately) note(of *market.Health, now *counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits := l.load.Limits
	l.at = now.at
	l.load = operate.Load{OrdersPerSecond: of.OrdersPerSecond, RequestsPerSecond: of.RequestsPerSecond,
		P50Seconds: of.P50, P99Seconds: of.P99, Connections: now.connections}
	for name, count := range now.hits {
		if count == 0 {
			continue
		}
		hit := operate.LimitHit{Limit: name, Count: count, Last: now.at.Unix()}
		for _, before := range limits {
			if before.Limit == name && before.Count == count {
				hit.Last = before.Last
			}
		}
		l.load.Limits = append(l.load.Limits, hit)
	}
	slices.SortFunc(l.load.Limits, func(a, b operate.LimitHit) int {
		return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.Limit, b.Limit))
	})
}

// now returns what was noted last, nil where that is too long ago.
func (l *lately) now() *operate.Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) > latelyMax {
		return nil
	}
	load := l.load // whose list does not change any more
	return &load
}

// processStart is when this program began.
var processStart = time.Now()

// statusNow is how the exchange is doing.
func (s *server) statusNow() operate.Status {
	status := operate.Status{Version: version(), UptimeSeconds: time.Since(processStart).Seconds(), MemoryBytes: memoryBytes()}
	if diskIsKnown {
		d := diskOf(s.config.Data)
		status.Disk = &operate.Disk{Available: d.available, Size: d.size}
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

// exchangeNow is the part of a status that there is once the exchange has started.
func (s *server) exchangeNow() *operate.Exchange {
	stats, applied := s.engine.Stats(), s.projector.Applied() // first: the journal may go on meanwhile
	synced := s.journal.Synced()
	x := &operate.Exchange{
		Journal:  operate.Journal{Appended: s.journal.Appended(), Synced: synced, Segments: s.journal.SegmentCount(), RoomBytes: s.journal.RoomBytes()},
		Postgres: operate.Postgres{Up: !s.projector.Down(), Applied: applied, LagSeconds: s.marks.lag(applied, time.Now()).Seconds()},
		Load:     s.lately.now(),
		Accounts: stats.Accounts, Symbols: stats.Symbols, OpenOrders: stats.OpenOrders, HaltedSymbols: stats.Halted,
	}
	x.Postgres.LagRecords = x.Journal.Appended - applied
	if err := s.journal.Room(); err != nil {
		x.Journal.NoRoom = err.Error()
	}
	if s.feed != nil {
		if err := s.feed.Err(); err != nil {
			x.MarketData = err.Error()
		}
	}
	halts := s.engine.Halts()
	for _, h := range halts[:min(len(halts), operate.HaltedMost)] {
		x.Halted = append(x.Halted, operate.HaltedSymbol{Sym: string(h.Symbol), Halt: operate.Halt{Time: exchange.Seconds(h.Since), Reason: h.Reason}})
	}
	return x
}

// memoryBytes returns how much memory the process has of the system.
func memoryBytes() uint64 {
	samples := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	runtimemetrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
