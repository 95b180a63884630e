package door

import (
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"outcry/internal/exchange"
	"outcry/internal/process/latency"
	"outcry/internal/process/stopwatch"
)

// limit is a bound that a client can run into.
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
	limitRateConnection
	limitRateAccount
	limitFollowers
	limitHTTPConnections
	// The limits below belong to the exchange; a command that exceeds one is rejected.
	limitSymbols
	limitFills
	limitLag
	limitRoom
	limitCancelRoom
	limitAccounts
	limitAccountOrders
	limitOpenOrders
	limits
)

var limitNames = [limits]string{
	limitConnections:     "connections",
	limitFrame:           "frame",
	limitLengthLine:      "length_line",
	limitMemory:          "memory",
	limitReply:           "reply",
	limitFrameTime:       "frame_timeout",
	limitIdle:            "idle_timeout",
	limitWriteTime:       "write_timeout",
	limitRateConnection:  "rate_connection",
	limitRateAccount:     "rate_account",
	limitFollowers:       "followers",
	limitHTTPConnections: "http_connections",
	limitSymbols:         "symbols",
	limitFills:           "fills",
	limitLag:             "lag",
	limitRoom:            "journal_room",
	limitCancelRoom:      "cancel_room",
	limitAccounts:        "accounts",
	limitAccountOrders:   "account_orders",
	limitOpenOrders:      "open_orders",
}

// stage is a part of the time that a request takes.
type stage int

const (
	stageDecode stage = iota
	stageInbox        // the exchange measures this and stageMatch (Executed)
	stageMatch
	stageEncode
	stageJournal
	stageWrite
	stages
)

var stageNames = [stages]string{"decode", "inbox", "match", "encode", "journal", "write"}

// unanswered lists the reasons for which a session leaves a query unanswered, although the exchange executed
// it.
var unanswered = [...]exchange.RejectReason{exchange.ReplyTooLong, exchange.NoMemory}

// limitOf maps the reason of a refused command to the limit that it ran into.
var limitOf = map[exchange.RejectReason]limit{
	exchange.SymbolLimitExceeded: limitSymbols,
	exchange.TooManyFills:        limitFills,
	exchange.DatabaseBehind:      limitLag,
	exchange.NoRoom:              limitRoom,
	exchange.NoRoomToCancel:      limitCancelRoom,

	exchange.AccountLimitExceeded:  limitAccounts,
	exchange.AccountOrdersExceeded: limitAccountOrders,
	exchange.OpenOrdersExceeded:    limitOpenOrders,
}

// outcome is the result of a command as the histogram of latencies labels it. The counter of commands is
// labeled with each reason.
type outcome uint8

const (
	outcomeOK       outcome = iota
	outcomeRejected         // the client's mistake
	outcomeRefused          // temporarily unavailable, or over a limit
	outcomes
)

var outcomeNames = [outcomes]string{"ok", "rejected", "refused"}

func outcomeOf(r exchange.RejectReason) outcome {
	switch {
	case r == exchange.OK:
		return outcomeOK
	case r.IsRefusal():
		return outcomeRefused
	}
	return outcomeRejected
}

// Metrics counts the activity of sessions. It is a prometheus.Collector, which the program registers. It may be used
// from any goroutine.
type Metrics struct {
	commands     *prometheus.CounterVec
	frames       prometheus.Counter
	malformed    prometheus.Counter
	requestBytes prometheus.Counter
	replyBytes   prometheus.Counter
	seconds      *latency.Family
	stages       *latency.Family
	connections  prometheus.Gauge
	accepted     prometheus.Counter
	acceptErrors prometheus.Counter
	limitHits    *prometheus.CounterVec
	memory       *prometheus.GaugeVec

	handshakeFailures, authRefused, authDenied prometheus.Counter

	// The fields below are children of the vectors, so that counting needs no lookup by label.
	byKind  [exchange.ListFills + 1][math.MaxUint8 + 1]prometheus.Counter // by kind and reason
	byLimit [limits]prometheus.Counter
	latency [exchange.ListFills + 1][outcomes]*latency.Histogram
	byStage [stages]*latency.Histogram

	arriving, working, huge, recalling prometheus.Gauge // children of the vector memory
}

// NewMetrics returns metrics that start from zero.
func NewMetrics() *Metrics {
	m := &Metrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "outcry_commands_total",
			Help: "Commands that were executed, by kind and outcome: ok or the reason of a reject, or why a " +
				"query was not answered."}, []string{"kind", "outcome"}),
		frames: newCounter("outcry_frames_total", "Whole frames that were executed."),
		malformed: newCounter("outcry_malformed_total",
			"Errors in replies without a command: malformed documents, elements and values."),
		requestBytes: newCounter("outcry_request_bytes_total", "Bytes of XML in the frames that were executed."),
		replyBytes:   newCounter("outcry_reply_bytes_total", "Bytes of the replies that were sent."),
		seconds: latency.NewFamily("outcry_request_seconds",
			"Time from a complete frame until its reply is handed to the kernel, including the sync of the journal, "+
				"counted once for each command by kind and outcome: ok, rejected (the client's mistake), refused (the exchange "+
				"could not). "+
				"Commands of frames that are executed together all have the time from the first frame to the last reply.",
			30*time.Microsecond, 4*time.Second, "kind", "outcome"),
		stages: latency.NewFamily("outcry_request_stage_seconds",
			fmt.Sprintf("Where the time of a request goes, of one in %d batches of frames that are executed together. "+
				"decode: decoding its commands. inbox: waiting for the goroutines of its symbols, both ways. "+
				"match: matching in them. "+
				"encode: making the replies. journal: until they are durable. write: handing them to the kernel.",
				stopwatch.Sample),
			time.Microsecond, 4*time.Second, "stage"),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "outcry_connections",
			Help: "TCP connections that are open, without those over the limit."}),
		accepted: newCounter("outcry_connections_accepted_total",
			"TCP connections that were accepted, without those over the limit."),
		acceptErrors: newCounter("outcry_accept_errors_total",
			"Connections that could not be accepted, for lack of file descriptors or memory."),
		limitHits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "outcry_limit_hits_total",
			Help: "How often a client ran into a limit. frame: too large. length_line: not a length. " +
				"rate_connection: it is read more slowly. rate_account: commands that are refused. " +
				"followers: it waits, or an order is refused, as followers of the journal lag because of it. " +
				"memory, reply: once for each reply with queries that are not answered, or frame that is not accepted. " +
				"symbols, fills, lag, journal_room, cancel_room: commands that are refused."}, []string{"limit"}),
		handshakeFailures: newCounter("outcry_tls_handshake_failures_total",
			"TCP connections to the XML port whose TLS handshake failed or took too long."),
		authRefused: newCounter("outcry_auth_refused_total",
			"TCP connections and HTTP requests without a valid token."),
		authDenied: newCounter("outcry_auth_denied_total",
			"Commands and HTTP requests that the token of their sender does not allow."),
		memory: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "outcry_memory_bytes",
			Help: "Memory that large frames and replies use, of all connections together. " +
				"arriving: frames that are incomplete. working: frames until they are executed, replies until they are " +
				"sent. huge: the same for the largest frames. " +
				"recalling: frames that were executed, while their replies wait for the database."}, []string{"part"}),
	}
	m.countKinds()
	for s, name := range stageNames {
		m.byStage[s] = m.stages.Histogram(name)
	}
	m.arriving, m.working = m.memory.WithLabelValues("arriving"), m.memory.WithLabelValues("working")
	m.huge, m.recalling = m.memory.WithLabelValues("huge"), m.memory.WithLabelValues("recalling")
	for l, name := range limitNames {
		m.byLimit[l] = m.limitHits.WithLabelValues(name)
	}
	return m
}

// countKinds makes the counters and histograms of each kind of command.
func (m *Metrics) countKinds() {
	for kind := exchange.OpenAccount; kind <= exchange.ListFills; kind++ {
		if kind == exchange.ShowOrder {
			continue // no session sends this command
		}
		for reason := exchange.OK; known(reason); reason++ {
			m.byKind[kind][reason] = m.commands.WithLabelValues(kind.String(), reason.String())
		}
		for o, name := range outcomeNames {
			m.latency[kind][o] = m.seconds.Histogram(kind.String(), name)
		}
	}
	for _, reason := range unanswered {
		for _, kind := range []exchange.CommandKind{exchange.QueryOrder, exchange.ShowAccount, exchange.ListOrders,
			exchange.ListFills} {
			m.byKind[kind][reason] = m.commands.WithLabelValues(kind.String(), reason.String())
		}
	}
}

func newCounter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// known reports whether r is a reason that the exchange can return. Such reasons are numbered without a gap.
func known(r exchange.RejectReason) bool { return r.String() != "unknown" && !r.OfSession() }

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.commands, m.frames, m.malformed, m.requestBytes, m.replyBytes,
		m.seconds, m.stages, m.connections, m.accepted, m.acceptErrors, m.limitHits, m.memory,
		m.handshakeFailures, m.authRefused, m.authDenied}
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

// Refused counts a request over another transport without a valid token.
func (m *Metrics) Refused() { m.authRefused.Inc() }

// HTTPFull counts a connection over HTTP that was refused because the limit of connections was reached.
func (m *Metrics) HTTPFull() { m.hit(limitHTTPConnections) }

// Denied counts a request over another transport that its token does not allow.
func (m *Metrics) Denied() { m.authDenied.Inc() }

// opened counts a new session.
func (m *Metrics) opened() {
	m.connections.Inc()
	m.accepted.Inc()
}

// Executed records how long a batch waited for the goroutines of its symbols, and how long these worked on it. The
// engine chooses the sampled calls.
func (m *Metrics) Executed(inbox, match time.Duration) {
	m.byStage[stageInbox].Observe(inbox, 1)
	m.byStage[stageMatch].Observe(match, 1)
}

// outcome returns the outcome of n commands with reason r. It counts the limit that they ran into, if any.
func (m *Metrics) outcome(r exchange.RejectReason, n int) outcome {
	if r == exchange.OK {
		return outcomeOK // the common case; it needs no lookup in limitOf
	}
	if l, ok := limitOf[r]; ok {
		m.byLimit[l].Add(float64(n))
	}
	return outcomeOf(r)
}

// lap ends stage s of a batch, and begins the next stage.
func (m *Metrics) lap(w *stopwatch.Watch, s stage) {
	if w.Measures() {
		m.byStage[s].Observe(w.Lap(), 1)
	}
}

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
