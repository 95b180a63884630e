package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"outcry/internal/exchange"
)

// limit is a bound of the gateway that a client can run into.
type limit int

const (
	limitConnections limit = iota
	limitFrame
	limitFrameTime
	limitIdle
	limitWriteTime
	limits
)

var limitNames = [limits]string{"connections", "frame", "frame_timeout", "idle_timeout", "write_timeout"}

// Metrics are what the gateway counts. It is a prometheus.Collector.
type Metrics struct {
	commands    *prometheus.CounterVec
	frames      prometheus.Counter
	refused     prometheus.Counter
	seconds     prometheus.Histogram
	connections prometheus.Gauge
	accepted    prometheus.Counter
	limitHits   *prometheus.CounterVec

	// Children of the vectors, so that counting looks nothing up.
	byKind  [exchange.CancelOrder + 1][]prometheus.Counter
	byLimit [limits]prometheus.Counter
}

// NewMetrics returns metrics that count from zero.
func NewMetrics() *Metrics {
	m := &Metrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "outcry_commands_total",
			Help: "Commands that were executed, by kind and by what they came to: ok or the reason of a reject."}, []string{"kind", "outcome"}),
		frames: prometheus.NewCounter(prometheus.CounterOpts{Name: "outcry_frames_total",
			Help: "Whole frames that arrived."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "outcry_malformed_total",
			Help: "Errors in replies that no command led to: malformed documents, elements and values."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "outcry_request_seconds",
			Help:                        "Time from a whole frame to its reply handed to the kernel, the journal's sync included.",
			Buckets:                     prometheus.ExponentialBuckets(50e-6, 2, 16),
			NativeHistogramBucketFactor: 1.1}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "outcry_connections",
			Help: "TCP connections that are open."}),
		accepted: prometheus.NewCounter(prometheus.CounterOpts{Name: "outcry_connections_accepted_total",
			Help: "TCP connections that were accepted, without those over the limit."}),
		limitHits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "outcry_limit_hits_total",
			Help: "How often a client ran into a limit of the gateway."}, []string{"limit"}),
	}
	for kind := exchange.OpenAccount; kind <= exchange.CancelOrder; kind++ {
		for reason := exchange.OK; reason <= exchange.HistoryUnavailable; reason++ {
			m.byKind[kind] = append(m.byKind[kind], m.commands.WithLabelValues(kind.String(), reason.String()))
		}
	}
	for l, name := range limitNames {
		m.byLimit[l] = m.limitHits.WithLabelValues(name)
	}
	return m
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.commands, m.frames, m.refused, m.seconds, m.connections, m.accepted, m.limitHits}
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

func (m *Metrics) hit(l limit) { m.byLimit[l].Inc() }

// count counts the commands and frames of a job that was executed.
func (m *Metrics) count(j *job) {
	for i := range j.commands {
		m.byKind[j.commands[i].Kind][j.results[i].Reason].Inc()
	}
	m.frames.Add(float64(j.frames))
	for i := range j.requests[:j.frames] {
		if n := j.requests[i].Refused(); n > 0 {
			m.refused.Add(float64(n))
		}
	}
}

// took notes how long the frames of a job took to be answered.
func (m *Metrics) took(j *job) {
	seconds := time.Since(j.begun).Seconds()
	for range j.frames {
		m.seconds.Observe(seconds)
	}
}
