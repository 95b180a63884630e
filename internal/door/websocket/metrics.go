package websocket

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the counters of WebSocket connections. Metrics is a prometheus.Collector that the program registers. Its
// methods may be called from any goroutine.
type Metrics struct {
	connections               prometheus.Gauge
	accepted, full, cut, dead prometheus.Counter
	bytes, writes             prometheus.Counter
}

// NewMetrics returns metrics that count from zero.
func NewMetrics() *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "outcry_websocket_connections",
			Help: "WebSocket connections that are open."}),
		accepted: counter("outcry_websocket_connections_accepted_total", "WebSocket connections that were opened."),
		full: counter("outcry_websocket_refused_total",
			"WebSocket connections that were refused because the maximum number was open."),
		cut: counter("outcry_websocket_cut_total",
			"WebSocket connections that were cut because their clients were too slow for their subscriptions."),
		dead: counter("outcry_websocket_dead_total",
			"WebSocket connections that were closed because their clients did not respond."),
		writes: counter("outcry_websocket_writes_total", "Writes to WebSocket connections: each sends all waiting frames."),
		bytes:  counter("outcry_websocket_sent_bytes_total", "Bytes sent to WebSocket connections."),
	}
}

func (m *Metrics) opened() {
	m.connections.Inc()
	m.accepted.Inc()
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.connections, m.accepted, m.full, m.cut, m.dead, m.bytes, m.writes}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}
