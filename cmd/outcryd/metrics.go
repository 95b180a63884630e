package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"outcry/internal/engine"
	"outcry/internal/gateway"
	"outcry/internal/journal"
	"outcry/internal/market"
	"outcry/internal/postgres"
)

// metrics are everything that /metrics shows, in a registry of their own.
type metrics struct {
	registry *prometheus.Registry
	gateway  *gateway.Metrics
	stream   *market.Metrics

	syncSeconds  prometheus.Histogram
	syncRecords  prometheus.Histogram
	syncBytes    prometheus.Counter
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
		registry:     prometheus.NewRegistry(),
		gateway:      gateway.NewMetrics(),
		stream:       market.NewMetrics(),
		syncSeconds:  histogram("outcry_journal_sync_seconds", "Time to write and sync a batch of the journal.", 25e-6, 16),
		syncRecords:  histogram("outcry_journal_batch_records", "Records that shared a sync of the journal.", 1, 16),
		syncBytes:    counter("outcry_journal_bytes_total", "Bytes written to the journal."),
		batchSeconds: histogram("outcry_postgres_batch_seconds", "Time to write a batch to Postgres, retries included.", 500e-6, 16),
		batchRecords: histogram("outcry_postgres_batch_records", "Journal records in a batch written to Postgres.", 1, 17),
		batchRows:    counter("outcry_postgres_rows_total", "Rows written to Postgres."),
		retries:      counter("outcry_postgres_retries_total", "Batches that could not be written to Postgres and were tried again."),
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(), m.gateway, m.stream, m.syncSeconds, m.syncRecords, m.syncBytes,
		m.batchSeconds, m.batchRecords, m.batchRows, m.retries)
	return m
}

// synced is told of each batch of the journal.
func (m *metrics) synced(records, bytes int, took time.Duration) {
	m.syncSeconds.Observe(took.Seconds())
	m.syncRecords.Observe(float64(records))
	m.syncBytes.Add(float64(bytes))
}

// projected is told of each batch in Postgres.
func (m *metrics) projected(records int, rows int64, took time.Duration) {
	m.batchSeconds.Observe(took.Seconds())
	m.batchRecords.Observe(float64(records))
	m.batchRows.Add(float64(rows))
}

// watch adds what is read when somebody looks.
func (m *metrics) watch(e *engine.Engine, j *journal.Journal, p *postgres.Projector) {
	plain := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge := func(name, help string, value func(engine.Stats) float64) {
		plain(name, help, func() float64 { return value(e.Stats()) })
	}
	gauge("outcry_accounts", "Accounts.", func(s engine.Stats) float64 { return float64(s.Accounts) })
	gauge("outcry_symbols", "Symbols.", func(s engine.Stats) float64 { return float64(s.Symbols) })
	gauge("outcry_open_orders", "Orders that rest in a book.", func(s engine.Stats) float64 { return float64(s.OpenOrders) })
	gauge("outcry_closed_orders_in_memory", "Closed orders that memory still holds.", func(s engine.Stats) float64 { return float64(s.ClosedOrders) })
	gauge("outcry_inbox_tasks", "Runs of commands that wait for the goroutine of their symbol.", func(s engine.Stats) float64 { return float64(s.Inbox) })
	gauge("outcry_postgres_lag_records", "Journal records that Postgres does not have yet.", func(s engine.Stats) float64 { return float64(s.Lag) })
	gauge("outcry_journal_unsynced_records", "Records that are not on stable storage yet.",
		func(engine.Stats) float64 { return float64(j.Appended()) - float64(j.Synced()) })
	gauge("outcry_journal_segments", "Segments of the journal.", func(engine.Stats) float64 { return float64(j.SegmentCount()) })
	plain("outcry_journal_unsynced_bytes", "Bytes of records that are not on stable storage yet.", func() float64 { return float64(j.UnsyncedBytes()) })
	plain("outcry_journal_room", "1 while the journal's next segment is there or being made; 0 while it cannot be made, and orders are refused.", func() float64 {
		if j.Room() != nil {
			return 0
		}
		return 1
	})
	plain("outcry_journal_room_bytes", "Bytes that the journal's segments that are ready can still take.", func() float64 { return float64(j.RoomBytes()) })
	plain("outcry_journal_reserve_bytes", "Part of outcry_journal_room_bytes that only cancels may use.", func() float64 { return float64(j.ReserveBytes()) })
	gauge("outcry_postgres_up", "1 while Postgres can be written, else 0.", func(engine.Stats) float64 {
		if p.Down() {
			return 0
		}
		return 1
	})
	m.watchConservation(&conservation{count: e.Reconcile})
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "outcry_executions_total",
		Help: "Matches of two orders since the start."}, func() float64 { return float64(e.Stats().Executions) }))
}
