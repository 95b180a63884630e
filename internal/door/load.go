package door

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"outcry/internal/exchange"
	"outcry/internal/process/latency"
)

// Load is what sessions have done since the start, and how many connections there are.
type Load struct {
	Requests, Orders uint64            // frames that were executed; orders that were accepted
	Connections      int               // over TCP
	Hits             map[string]uint64 // how often clients ran into each limit, by its name
	Seconds          *latency.Counts   // how long requests took
}

// Load returns the load so far.
func (m *Metrics) Load() Load {
	l := Load{
		Requests:    uint64(valueOf(m.frames).GetCounter().GetValue()),
		Orders:      uint64(valueOf(m.byKind[exchange.PlaceOrder][exchange.OK]).GetCounter().GetValue()),
		Connections: int(valueOf(m.connections).GetGauge().GetValue()),
		Hits:        make(map[string]uint64, limits),
		Seconds:     m.seconds.Counts(),
	}
	for limit, name := range limitNames {
		l.Hits[name] = uint64(valueOf(m.byLimit[limit]).GetCounter().GetValue())
	}
	return l
}

// valueOf reads one metric, which cannot fail.
func valueOf(m prometheus.Metric) *dto.Metric {
	var d dto.Metric
	_ = m.Write(&d)
	return &d
}
