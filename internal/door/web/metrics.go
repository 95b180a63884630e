package web

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts the readers of the stream. It is a prometheus.Collector, which cmd/outcryd registers. It may be used
// from any goroutine.
type Metrics struct {
	readers         prometheus.Gauge
	refused, cutOff prometheus.Counter
}

// NewMetrics returns metrics with all counts zero.
func NewMetrics() *Metrics {
	return &Metrics{
		readers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "outcry_stream_readers",
			Help: "Readers of the market data stream."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "outcry_stream_readers_refused_total",
			Help: "Readers of the stream that were refused because the maximum number was connected."}),
		cutOff: prometheus.NewCounter(prometheus.CounterOpts{Name: "outcry_stream_readers_cut_off_total",
			Help: "Readers of the stream that were cut off because they read nothing."}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.readers, m.refused, m.cutOff} {
		c.Collect(ch)
	}
}
