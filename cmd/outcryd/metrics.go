package main

import (
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"outcry/internal/door"
	"outcry/internal/door/web"
	"outcry/internal/process/version"
)

// metrics holds all metrics of /metrics, in a registry that only this server uses. docs/reference/METRICS.md describes
// each metric and what to do about bad values.
//
// To add one, add a field here or a gauge in watch.go, a line of advice in metrics_reference_test.go and, if it has a
// new label, a line in metrics_test.go; then run make reference.
type metrics struct {
	registry *prometheus.Registry
	sessions *door.Metrics
	stream   *web.Metrics
	reload   *reloadMetrics

	syncSeconds  prometheus.Histogram
	syncRecords  prometheus.Histogram
	syncBytes    prometheus.Histogram
	batchSeconds prometheus.Histogram
	batchRecords prometheus.Histogram
	batchRows    prometheus.Counter
	retries      prometheus.Counter
}

func newMetrics() *metrics {
	histogram := func(name, help string, first float64, buckets int) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(first, 2, buckets), NativeHistogramBucketFactor: 1.1})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		registry:    prometheus.NewRegistry(),
		sessions:    door.NewMetrics(),
		stream:      web.NewMetrics(),
		reload:      newReloadMetrics(),
		syncSeconds: histogram("outcry_journal_sync_seconds", "Time to write and sync a batch of the journal.", 25e-6, 16),
		syncRecords: histogram("outcry_journal_batch_records", "Records that shared a sync of the journal.", 1, 16),
		syncBytes:   histogram("outcry_journal_batch_bytes", "Bytes that shared a sync of the journal.", 64, 20),
		batchSeconds: histogram("outcry_postgres_batch_seconds",
			"Time to write a batch to Postgres, retries included.", 500e-6, 16),
		batchRecords: histogram("outcry_postgres_batch_records", "Journal records in a batch written to Postgres.", 1, 17),
		batchRows:    counter("outcry_postgres_rows_total", "Rows written to Postgres."),
		retries: counter("outcry_postgres_retries_total",
			"Batches that could not be written to Postgres and were tried again."),
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(runtimeMetrics...)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(), buildInfo(),
		m.sessions, m.stream, m.syncSeconds, m.syncRecords, m.syncBytes,
		m.batchSeconds, m.batchRecords, m.batchRows, m.retries,
		m.reload.time)
	return m
}

// runtimeMetrics are additional metrics of the Go runtime that explain slow requests: the time that
// goroutines wait for a processor, and garbage collection pauses.
var runtimeMetrics = []collectors.GoRuntimeMetricsRule{
	{Matcher: regexp.MustCompile(`^/sched/(latencies|pauses/total/gc):seconds$`)},
}

// buildInfo returns the metric with the commit that the program was built from. go_build_info has only the
// module's version.
func buildInfo() prometheus.Collector {
	revision, modified := version.Commit()
	changed := strconv.FormatBool(modified)
	if revision == "" {
		revision, changed = "unknown", "unknown"
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "outcry_build_info",
		Help: "1; the labels have the commit that the program was built from, whether files differed from it, " +
			"and the version of Go.",
		ConstLabels: prometheus.Labels{"revision": revision, "modified": changed, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}

// synced records a synced batch of the journal.
func (m *metrics) synced(records, bytes int, took time.Duration) {
	m.syncSeconds.Observe(took.Seconds())
	m.syncRecords.Observe(float64(records))
	m.syncBytes.Observe(float64(bytes))
}

// projected records a batch written to Postgres.
func (m *metrics) projected(records int, rows int64, took time.Duration) {
	m.batchSeconds.Observe(took.Seconds())
	m.batchRecords.Observe(float64(records))
	m.batchRows.Add(float64(rows))
}
