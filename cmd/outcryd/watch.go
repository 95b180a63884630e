package main

import (
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/health"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/process/logging"
)

// gauge adds a gauge whose value is read at each scrape.
func (m *metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// watchLog adds the count of suppressed log lines.
func (m *metrics) watchLog(l *logging.Log) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "outcry_log_suppressed_lines_total",
		Help: "Lines that were not logged because the same message was logged too often lately.",
	}, func() float64 { return float64(l.Suppressed()) }))
}

// oneIf returns 1 for true and 0 for false.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// watchServer adds the metrics that exist as soon as HTTP is up.
func (m *metrics) watchServer(
	now func() *settings.Config, bounds func() settings.ConnectionBounds, ready func() error,
) {
	m.gauge("outcry_ready",
		"1 while the exchange accepts orders, as /readyz reports, else 0.",
		func() float64 { return oneIf(ready() == nil) })
	m.gauge("outcry_connections_limit",
		"Maximum number of TCP connections: --max-connections, or less if the limit of open files is too low.",
		func() float64 { return float64(bounds().XML) })
	m.gauge("outcry_http_connections_limit",
		"Maximum number of HTTP connections: --max-http-connections, or less if the limit of open files is too low.",
		func() float64 { return float64(bounds().HTTP) })
	m.gauge("outcry_postgres_lag_limit_records",
		"Records that Postgres may be behind before orders are refused, --max-lag.",
		func() float64 { return float64(now().LagMax) })
	data := now().Data
	m.gauge("outcry_last_backup_timestamp_seconds",
		"When outcry-backup.service took the last backup: the time of last-backup in the data directory, "+
			"0 if there is none.",
		func() float64 { return health.Modified(filepath.Join(data, lastBackup)) })
	if !health.DiskIsKnown {
		return // an alert would read 0 as a full disk
	}
	m.gauge("outcry_disk_available_bytes",
		"Free space on the disk of the data directory that the server's user may use.",
		func() float64 { return float64(health.DiskOf(data).Available) })
	m.gauge("outcry_disk_size_bytes",
		"Size of the disk of the data directory.",
		func() float64 { return float64(health.DiskOf(data).Size) })
}

// lastBackup is an empty file of the data directory. Its modification time is the time of the last backup.
const lastBackup = "last-backup"

// watch adds the metrics of a running exchange, which are read at each scrape.
func (m *metrics) watch(
	stats func() engine.Stats, reconcile func() exchange.Imbalance, j *journal.Journal, p *postgres.Projector,
) {
	m.registry.MustRegister(newFigures(stats))
	m.watchJournal(j)
	m.gauge("outcry_postgres_up", "1 while Postgres can be written to, else 0.",
		func() float64 { return oneIf(!p.Down()) })
	m.watchConservation(&conservation{count: reconcile})
}

// watchLag adds the projection's lag in seconds.
func (m *metrics) watchLag(marks *health.LagMarks, p *postgres.Projector) {
	m.gauge("outcry_postgres_lag_seconds",
		"Time since the oldest record that Postgres does not have was synced in the journal, 0 if it has all. "+
			"Records older than the start count from the start.",
		func() float64 { return marks.Lag(p.Applied(), time.Now()).Seconds() })
}

func (m *metrics) watchJournal(j *journal.Journal) {
	m.gauge("outcry_journal_unsynced_records", "Records that are not on stable storage yet.", func() float64 {
		synced := j.Synced() // read first, so that it never exceeds the appended count
		return float64(j.Appended() - synced)
	})
	m.gauge("outcry_journal_unsynced_bytes",
		"Bytes of records that are not on stable storage yet.",
		func() float64 { return float64(j.UnsyncedBytes()) })
	m.gauge("outcry_journal_segments", "Segments of the journal.", func() float64 { return float64(j.SegmentCount()) })
	m.gauge("outcry_journal_room",
		"1 while the journal's next segment exists or is being created; 0 while it cannot be, and orders are refused.",
		func() float64 { return oneIf(j.Room() == nil) })
	m.gauge("outcry_journal_room_bytes",
		"Free bytes in the journal's segments that are ready.",
		func() float64 { return float64(j.RoomBytes()) })
	m.gauge("outcry_journal_reserve_bytes",
		"Part of outcry_journal_room_bytes that only cancels may use.",
		func() float64 { return float64(j.ReserveBytes()) })
}

// figures is a prometheus.Collector of the engine's figures. It calls stats once per scrape, because stats
// visits every symbol.
type figures struct {
	stats func() engine.Stats
	all   []figure
}

type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*engine.Stats) float64
}

func newFigures(stats func() engine.Stats) *figures {
	c := &figures{stats: stats}
	add := func(kind prometheus.ValueType, name, help string, value func(*engine.Stats) float64) {
		c.all = append(c.all, figure{prometheus.NewDesc(name, help, nil, nil), kind, value})
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	add(gauge, "outcry_accounts", "Accounts.", func(s *engine.Stats) float64 { return float64(s.Accounts) })
	add(gauge, "outcry_symbols", "Symbols.", func(s *engine.Stats) float64 { return float64(s.Symbols) })
	add(gauge, "outcry_symbols_halted", "Symbols that accept no orders until an operator resumes them.",
		func(s *engine.Stats) float64 { return float64(s.Halted) })
	add(gauge, "outcry_open_orders", "Orders that rest in a book.",
		func(s *engine.Stats) float64 { return float64(s.OpenOrders) })
	add(gauge, "outcry_closed_orders_in_memory", "Closed orders that memory still holds.",
		func(s *engine.Stats) float64 { return float64(s.ClosedOrders) })
	add(gauge, "outcry_inbox_tasks", "Runs of commands that wait for the goroutine of their symbol.",
		func(s *engine.Stats) float64 { return float64(s.Inbox) })
	add(gauge, "outcry_postgres_lag_records", "Journal records that Postgres does not have yet.",
		func(s *engine.Stats) float64 { return float64(s.Lag) })
	add(gauge, "outcry_refs_in_memory", "Refs in memory.",
		func(s *engine.Stats) float64 { return float64(s.Refs) })
	add(gauge, "outcry_ref_filter_bytes", "Memory of the filter that knows which refs were never used.",
		func(s *engine.Stats) float64 { return float64(s.RefFilter) })
	add(counter, "outcry_refs_repeated_total",
		"Commands that repeated a used ref and got its first answer, since the start.",
		func(s *engine.Stats) float64 { return float64(s.RefsRepeated) })
	add(counter, "outcry_refs_asked_total", "Refs that were looked up in Postgres since the start.",
		func(s *engine.Stats) float64 { return float64(s.RefsAsked) })
	add(counter, "outcry_orders_total", "Orders that were accepted since the start.",
		func(s *engine.Stats) float64 { return float64(s.Orders) })
	add(counter, "outcry_executions_total", "Matches of two orders since the start.",
		func(s *engine.Stats) float64 { return float64(s.Executions) })
	add(counter, "outcry_cancels_total", "Orders that were canceled since the start.",
		func(s *engine.Stats) float64 { return float64(s.Cancels) })
	add(counter, "outcry_traded_shares_total", "Shares traded since the start, all symbols together.",
		func(s *engine.Stats) float64 { return s.TradedShares })
	add(counter, "outcry_traded_dollars_total", "Dollars that were paid for traded shares, the notional, since the start.",
		func(s *engine.Stats) float64 { return s.TradedDollars })
	add(counter, "outcry_amends_total", "Amends since the start that changed an order.",
		func(s *engine.Stats) float64 { return float64(s.Instructions.Amends) })
	add(gauge, "outcry_switches_armed", "Accounts with an armed dead man's switch.",
		func(s *engine.Stats) float64 { return float64(s.Switches) })
	c.all = append(c.all, instructionFigures()...)
	return c
}

// instructionFigures returns the counters of orders with instructions.
func instructionFigures() (all []figure) {
	for kind, value := range map[string]func(*engine.Stats) int64{
		"ioc":    func(s *engine.Stats) int64 { return s.Instructions.IOC },
		"fok":    func(s *engine.Stats) int64 { return s.Instructions.FOK },
		"post":   func(s *engine.Stats) int64 { return s.Instructions.Post },
		"market": func(s *engine.Stats) int64 { return s.Instructions.Market },
		"cod":    func(s *engine.Stats) int64 { return s.Instructions.OnDisconnect },
	} {
		desc := prometheus.NewDesc("outcry_instructed_orders_total",
			"Orders accepted since the start, by instruction: an order counts once for each instruction that it has.",
			nil, prometheus.Labels{"kind": kind})
		all = append(all, figure{desc, prometheus.CounterValue, func(s *engine.Stats) float64 { return float64(value(s)) }})
	}
	return all
}

// Describe implements prometheus.Collector.
func (c *figures) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.all {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *figures) Collect(ch chan<- prometheus.Metric) {
	s := c.stats()
	for _, f := range c.all {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(&s))
	}
}
