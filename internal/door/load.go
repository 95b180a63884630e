package door

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"outcry/internal/exchange"
	"outcry/internal/process/latency"
)

// Load is what the sessions have done since the start, and the present number of connections.
type Load struct {
	Requests, Orders uint64            // frames that were executed; orders that were accepted
	Connections      int               // open TCP connections
	Hits             map[string]uint64 // how often clients ran into each limit, by the limit's name
	Seconds          *latency.Counts   // how long requests took
}

// Load returns the present values.
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

// valueOf reads one metric. Write cannot fail for the metrics of this package.
func valueOf(m prometheus.Metric) *dto.Metric {
	var d dto.Metric
	_ = m.Write(&d)
	return &d
}
