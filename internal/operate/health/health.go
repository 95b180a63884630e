// Package health measures how a running exchange is doing: how far Postgres lags, how fast requests were recently
// answered, and how much room is left. Operators, market data and containers use the same figures, so they are not
// computed in cmd/outcryd.
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
)

// latelyMax is the greatest age of the figures that Lately returns. Market data calls Look once a second.
const latelyMax = 5 * time.Second

// Load counts what clients have done since the server's start, and their present connections.
type Load struct {
	Requests, Orders uint64            // requests that were executed; orders that were accepted
	Connections      int               // open TCP connections
	Hits             map[string]uint64 // how often clients ran into each limit, by the limit's name
	Seconds          *latency.Counts   // how long requests took
}

// Parts are the parts of the exchange that a Watch reads.
type Parts struct {
	Load      func() Load // returns the counts of the doors
	Journal   *journal.Journal
	Projector *postgres.Projector
	Marks     *LagMarks
	Ready     func() error // returns why the exchange accepts no orders, or nil
}

// Figures are the state of the exchange, measured over about the last second.
type Figures struct {
	OrdersPerSecond, RequestsPerSecond float64
	P50, P99                           float64 // duration of requests in seconds
	LagRecords                         uint64  // number of journal records that Postgres does not have yet
	LagSeconds                         float64 // how long Postgres has been behind
	PostgresUp                         bool
	NotReady                           error // why orders are not accepted; nil while they are
}

// Watch computes the state of an exchange from the difference between two readings of its counters.
type Watch struct {
	parts    Parts
	before   Load // the reading at beforeAt; used only by the goroutine that calls Look
	beforeAt time.Time

	mu   sync.Mutex // guards the fields below
	at   time.Time
	load remote.Load
}

// NewWatch returns a watch that has already read the figures once.
func NewWatch(p Parts) *Watch {
	return &Watch{parts: p, before: p.Load(), beforeAt: time.Now()}
}

// Look returns how the exchange has been doing since the last call. It is for one goroutine.
func (w *Watch) Look() Figures {
	p, before, now, at := &w.parts, w.before, w.parts.Load(), time.Now()
	took := max(at.Sub(w.beforeAt).Seconds(), 1e-3)
	w.before, w.beforeAt = now, at
	applied := p.Projector.Applied() // read before the journal, which may grow in between
	lately := now.Seconds.Since(before.Seconds)
	of := Figures{
		OrdersPerSecond:   float64(now.Orders-before.Orders) / took,
		RequestsPerSecond: float64(now.Requests-before.Requests) / took,
		P50:               lately.Quantile(0.5),
		P99:               lately.Quantile(0.99),
		LagRecords:        p.Journal.Appended() - applied,
		LagSeconds:        p.Marks.Lag(applied, at).Seconds(),
		PostgresUp:        !p.Projector.Down(),
		NotReady:          p.Ready(),
	}
	w.store(&of, &now, at)
	return of
}

// store stores the result of a Look for Lately.
func (w *Watch) store(of *Figures, now *Load, at time.Time) {
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

// Lately returns the result of the last Look, or nil if that is older than latelyMax. It may be called from
// any goroutine.
func (w *Watch) Lately() *remote.Load {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.at) > latelyMax {
		return nil
	}
	load := w.load // safe to share: the list in it is not modified any more
	return &load
}
