// Package health knows how a running exchange is doing: how long ago what Postgres lacks
// was synced, how fast requests were answered lately, and what room is left. It is apart
// from the wiring because operators, market data and containers ask for the same figures.
package health

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"outcry/internal/journal"
	"outcry/internal/operate/remote"
	"outcry/internal/postgres"
	"outcry/internal/process/latency"
	"outcry/internal/view/market"
)

// latelyMax is how old the figures of the last look may be. Market data looks once a
// second.
const latelyMax = 5 * time.Second

// Load counts what clients have done since the server's start, and their present connections.
type Load struct {
	Requests, Orders uint64            // requests that were executed; orders that were accepted
	Connections      int               // open TCP connections
	Hits             map[string]uint64 // how often clients ran into each limit, by the limit's name
	Seconds          *latency.Counts   // how long requests took
}

// Parts are what a Watch looks at.
type Parts struct {
	Load      func() Load // returns the counts of the doors
	Journal   *journal.Journal
	Projector *postgres.Projector
	Marks     *LagMarks
	Ready     func() error // returns why the exchange takes no orders, nil while it does
}

// Watch works out how an exchange is doing from two looks at what it has done.
type Watch struct {
	parts    Parts
	before   Load // at beforeAt, of the one goroutine that looks
	beforeAt time.Time

	mu   sync.Mutex // guards what follows
	at   time.Time
	load remote.Load
}

// NewWatch returns a watch that has looked once.
func NewWatch(p Parts) *Watch {
	return &Watch{parts: p, before: p.Load(), beforeAt: time.Now()}
}

// Look returns how the exchange was doing since the last look. It is for one goroutine.
func (w *Watch) Look() market.Health {
	p, before, now, at := &w.parts, w.before, w.parts.Load(), time.Now()
	took := max(at.Sub(w.beforeAt).Seconds(), 1e-3)
	w.before, w.beforeAt = now, at
	applied := p.Projector.Applied() // first: the journal may go on meanwhile
	lately := now.Seconds.Since(before.Seconds)
	of := market.Health{
		OrdersPerSecond:   float64(now.Orders-before.Orders) / took,
		RequestsPerSecond: float64(now.Requests-before.Requests) / took,
		P50:               lately.Quantile(0.5),
		P99:               lately.Quantile(0.99),
		LagRecords:        p.Journal.Appended() - applied,
		LagSeconds:        p.Marks.Lag(applied, at).Seconds(),
		PostgresUp:        !p.Projector.Down(),
		NotReady:          p.Ready(),
	}
	w.note(&of, &now, at)
	return of
}

// note keeps a look for Lately.
func (w *Watch) note(of *market.Health, now *Load, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	limits := w.load.Limits
	w.at = at
	w.load = remote.Load{OrdersPerSecond: of.OrdersPerSecond, RequestsPerSecond: of.RequestsPerSecond,
		P50Seconds: of.P50, P99Seconds: of.P99, Connections: now.Connections}
	for name, count := range now.Hits {
		if count == 0 {
			continue
		}
		hit := remote.LimitHit{Limit: name, Count: count, Last: at.Unix()}
		for _, before := range limits {
			if before.Limit == name && before.Count == count {
				hit.Last = before.Last
			}
		}
		w.load.Limits = append(w.load.Limits, hit)
	}
	slices.SortFunc(w.load.Limits, func(a, b remote.LimitHit) int {
		return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.Limit, b.Limit))
	})
}

// Lately returns what the last look has found, nil if that is too long ago. It may be
// called from any goroutine.
func (w *Watch) Lately() *remote.Load {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.at) > latelyMax {
		return nil
	}
	load := w.load // whose list does not change any more
	return &load
}
