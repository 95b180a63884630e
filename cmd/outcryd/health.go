package main

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"outcry/internal/market"
)

// health works out how the exchange is doing from two looks at its metrics. It is
// for one goroutine.
type health struct {
	server  *server
	gateway *prometheus.Registry // the gateway's metrics alone: the others cost more to gather
	before  counts
}

// counts are what has happened since the start, and how many connections there are.
type counts struct {
	at               time.Time
	connections      int
	hits             map[string]uint64 // how often clients ran into each limit
	orders, requests float64
	seconds          map[float64]float64 // upper bound of a bucket → requests that took so long
	factor           float64             // by which the bounds of a bucket differ
}

// newHealth returns what tells how the exchange is doing since it was last asked.
func (s *server) newHealth() func() market.Health {
	h := &health{server: s, gateway: prometheus.NewRegistry()}
	h.gateway.MustRegister(s.metrics.gateway)
	h.before = h.count()
	return h.now
}

// now tells how it was since the last call.
func (h *health) now() market.Health {
	s, before, now := h.server, h.before, h.count()
	h.before = now
	took := max(now.at.Sub(before.at).Seconds(), 1e-3)
	applied := s.projector.Applied() // first: the journal may go on meanwhile
	of := market.Health{
		OrdersPerSecond:   (now.orders - before.orders) / took,
		RequestsPerSecond: (now.requests - before.requests) / took,
		LagRecords:        s.journal.Appended() - applied,
		PostgresUp:        !s.projector.Down(),
		NotReady:          s.ready(),
	}
	lately := counts{seconds: maps.Clone(now.seconds), factor: now.factor}
	for bound, n := range before.seconds {
		lately.seconds[bound] -= n
	}
	of.P50, of.P99 = lately.quantile(0.5), lately.quantile(0.99)
	of.LagSeconds = s.marks.lag(applied, now.at).Seconds()
	s.lately.note(&of, &now)
	return of
}

// count reads the gateway's metrics.
func (h *health) count() counts {
	c := counts{at: time.Now(), seconds: make(map[float64]float64), hits: make(map[string]uint64), factor: 2}
	families, _ := h.gateway.Gather() // what can be gathered; nothing of it can fail
	for _, family := range families {
		for _, m := range family.Metric {
			switch family.GetName() {
			case "outcry_frames_total":
				c.requests += m.GetCounter().GetValue()
			case "outcry_connections":
				c.connections = int(m.GetGauge().GetValue())
			case "outcry_limit_hits_total":
				c.hits[m.Label[0].GetValue()] = uint64(m.GetCounter().GetValue())
			case "outcry_commands_total":
				if hasLabel(m, "kind", "order") && hasLabel(m, "outcome", "ok") {
					c.orders += m.GetCounter().GetValue()
				}
			case "outcry_request_seconds":
				c.addHistogram(m.GetHistogram())
			}
		}
	}
	return c
}

func hasLabel(m *dto.Metric, name, value string) bool {
	return slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == name && l.GetValue() == value })
}

// addHistogram adds the buckets of a native histogram: their bounds grow by the
// factor that its schema says.
func (c *counts) addHistogram(h *dto.Histogram) {
	c.factor = math.Exp2(math.Exp2(-float64(h.GetSchema())))
	index, i, n := int32(0), 0, int64(0)
	for _, span := range h.PositiveSpan {
		index += span.GetOffset()
		for range span.GetLength() {
			n += h.PositiveDelta[i]
			c.seconds[math.Exp2(float64(index)*math.Exp2(-float64(h.GetSchema())))] += float64(n)
			index++
			i++
		}
	}
}

// quantile returns how long a part q of the requests took at the most, 0 where there
// were none.
func (c *counts) quantile(q float64) float64 {
	bounds := slices.Sorted(maps.Keys(c.seconds))
	var all, sum float64
	for _, n := range c.seconds {
		all += n
	}
	if all <= 0 {
		return 0
	}
	for _, bound := range bounds {
		n := c.seconds[bound]
		if sum += n; sum >= q*all && n > 0 {
			least := bound / c.factor
			return least + (bound-least)*(1-(sum-q*all)/n)
		}
	}
	return bounds[len(bounds)-1]
}
