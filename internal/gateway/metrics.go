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
	limitLengthLine
	limitMemory
	limitReply
	limitFrameTime
	limitIdle
	limitWriteTime
	limits
)

var limitNames = [limits]string{"connections", "frame", "length_line", "memory", "reply", "frame_timeout", "idle_timeout", "write_timeout"}

// Metrics are what the gateway counts. It is a prometheus.Collector, to be
// registered by whoever wires the program, and may be used from any goroutine.
type Metrics struct {
	commands     *prometheus.CounterVec
	frames       prometheus.Counter
	malformed    prometheus.Counter
	requestBytes prometheus.Counter
	replyBytes   prometheus.Counter
	seconds      prometheus.Histogram
	connections  prometheus.Gauge
	accepted     prometheus.Counter
	acceptErrors prometheus.Counter
	limitHits    *prometheus.CounterVec
	memory       *prometheus.GaugeVec

	// Children of the vectors, so that counting looks nothing up.
	byKind  [exchange.CancelOrder + 1][]prometheus.Counter
	byLimit [limits]prometheus.Counter

	arriving, working, huge prometheus.Gauge // of memory
}

// NewMetrics returns metrics that count from zero.
func NewMetrics() *Metrics {
	m := &Metrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "outcry_commands_total",
			Help: "Commands that were executed, by kind and by what they came to: ok or the reason of a reject."}, []string{"kind", "outcome"}),
		frames:       newCounter("outcry_frames_total", "Whole frames that were executed."),
		malformed:    newCounter("outcry_malformed_total", "Errors in replies that no command led to: malformed documents, elements and values."),
		requestBytes: newCounter("outcry_request_bytes_total", "Bytes of XML in the frames that were executed."),
		replyBytes:   newCounter("outcry_reply_bytes_total", "Bytes of the replies that were sent."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "outcry_request_seconds",
			Help: "Time from a whole frame to its reply handed to the kernel, the journal's sync included. " +
				"Pipelined frames that are executed together are observed once.",
			Buckets:                     prometheus.ExponentialBuckets(50e-6, 2, 16),
			NativeHistogramBucketFactor: 1.1}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "outcry_connections",
			Help: "TCP connections that are open, without those over the limit."}),
		accepted:     newCounter("outcry_connections_accepted_total", "TCP connections that were accepted, without those over the limit."),
		acceptErrors: newCounter("outcry_accept_errors_total", "Connections that could not be accepted, for want of file descriptors or memory."),
		limitHits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "outcry_limit_hits_total",
			Help: "How often a client ran into a limit of the gateway. frame: too large. length_line: it is no length. " +
				"memory, reply: once for each reply with queries that are not answered, or frame that is not taken."}, []string{"limit"}),
		memory: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "outcry_memory_bytes",
			Help: "Memory that large frames and replies hold of what there is for all connections. " +
				"arriving: frames that are not whole yet. working: frames until they are executed, replies until they are sent. huge: the same for the largest frames."}, []string{"part"}),
	}
	for kind := exchange.OpenAccount; kind <= exchange.CancelOrder; kind++ {
		for reason := exchange.OK; known(reason); reason++ {
			m.byKind[kind] = append(m.byKind[kind], m.commands.WithLabelValues(kind.String(), reason.String()))
		}
	}
	m.arriving, m.working, m.huge = m.memory.WithLabelValues("arriving"), m.memory.WithLabelValues("working"), m.memory.WithLabelValues("huge")
	for l, name := range limitNames {
		m.byLimit[l] = m.limitHits.WithLabelValues(name)
	}
	return m
}

func newCounter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// known tells whether there is such a reason; they are numbered without a gap.
func known(r exchange.RejectReason) bool { return r.String() != "unknown" }

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.commands, m.frames, m.malformed, m.requestBytes, m.replyBytes,
		m.seconds, m.connections, m.accepted, m.acceptErrors, m.limitHits, m.memory}
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

// opened counts a session that begins.
func (m *Metrics) opened() {
	m.connections.Inc()
	m.accepted.Inc()
}

// executed counts the commands and frames of a batch. Neighbours that came to the
// same are counted in one step.
func (m *Metrics) executed(b *batch) {
	for first := 0; first < len(b.commands); {
		kind, reason := b.commands[first].Kind, b.results[first].Reason
		next := first + 1
		for next < len(b.commands) && b.commands[next].Kind == kind && b.results[next].Reason == reason {
			next++
		}
		m.byKind[kind][reason].Add(float64(next - first))
		first = next
	}
	malformed := 0
	for i := range b.requests[:b.frames] {
		malformed += b.requests[i].Refused()
	}
	m.malformed.Add(float64(malformed))
	m.frames.Add(float64(b.frames))
	m.requestBytes.Add(float64(b.bytes))
}

// answered counts replies of so many bytes that were sent together, and how long
// they took.
func (m *Metrics) answered(begun time.Time, bytes int) {
	m.seconds.Observe(time.Since(begun).Seconds())
	m.replyBytes.Add(float64(bytes))
}
