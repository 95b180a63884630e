package main

import (
	"flag"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

var update = flag.Bool("update", false, "write docs/reference; make reference does it for all packages")

// advice has, for each metric, what to do about a bad value, or "" if no value needs action.
var advice = map[string]string{
	// Health.
	"outcry_ready":      "0: `/readyz` says why",
	"outcry_build_info": "more than one revision: a rollout is half done",
	"outcry_cash_imbalance_dollars": "not 0: a bug. Stop, keep data directory and database, run `outcry verify`, " +
		"report it",
	"outcry_share_imbalance_symbols": "not 0: a bug. Stop, keep data directory and database, run `outcry verify`, " +
		"report it",
	"outcry_config_last_reload_successful": "0: the log names the file and the line; what was read before stays " +
		"in force",
	"outcry_config_last_reload_success_timestamp_seconds": "",
	"outcry_log_suppressed_lines_total": "rises: somebody provokes errors; what is logged says " +
		"who",

	// Cluster.
	"outcry_cluster_leads": "0 on all nodes: orders are refused; `GET /api/v1/cluster` of each says what it knows. " +
		"1 on two nodes for longer than an election: a bug",
	"outcry_cluster_follows": "0: the node starts still; `/healthz` says what it waits for",
	"outcry_cluster_leader":  "0, or not the same on all nodes, for longer than a second: they do not reach each other",
	"outcry_cluster_term":    "",
	"outcry_cluster_elections_total": "rises again and again: a network that loses much, a disk that hangs, or " +
		"processors that are short",
	"outcry_cluster_unfit": "1: the disk of the node hangs or is full",
	"outcry_cluster_dropped_messages_total": "rises for long: the disk or the processors of the node do not keep " +
		"up",
	"outcry_cluster_digest_differs": "1: run `outcry verify` on all nodes and replace the one that is wrong; one that a " +
		"majority contradicts stays down by itself",
	"outcry_cluster_certificate_expiry_timestamp_seconds": "near `time()`: make a new one with " +
		"`deploy/peers.sh`; the file is reread by itself",
	"outcry_cluster_spare_voters": "0: the next failure stops trading. Start or replace the nodes that are " +
		"down",
	"outcry_cluster_peer_active":      "0: the node is down, or cut off from the leader",
	"outcry_cluster_peer_lag_entries": "grows: the disk of the node, or the network to it, is too slow",

	// Requests.
	"outcry_request_seconds":       "p99 rises: `outcry_request_stage_seconds` says where",
	"outcry_request_stage_seconds": "the table of stages below",
	"outcry_commands_total": "`no_room`, `no_room_to_cancel`, `database_behind`, `history_unavailable`, `no_memory`, " +
		"`symbol_limit_exceeded`, `account_limit_exceeded`, `account_orders_exceeded`, `open_orders_exceeded`, " +
		"`too_many_fills`: the exchange refuses; `symbol_halted`: an operator has halted it; " +
		"all others are mistakes of clients",
	"outcry_frames_total":        "",
	"outcry_malformed_total":     "rises with a new client: it is wrong",
	"outcry_request_bytes_total": "",
	"outcry_reply_bytes_total":   "",
	"outcry_inbox_tasks":         "stays high: processors are short, or one symbol is hot",

	// Connections and limits.
	"outcry_connections": "near the limit: raise it and `ulimit -n`, or shorten " +
		"`--idle-timeout`",
	"outcry_connections_limit":      "below `--max-connections`: raise `ulimit -n`",
	"outcry_http_connections":       "at the limit: idle ones are closed for new ones; raise it",
	"outcry_http_connections_limit": "below `--max-http-connections`: raise `ulimit -n`",
	"outcry_connections_accepted_total": "rises with each order: a client connects again for each, which is " +
		"slow",
	"outcry_accept_errors_total": "rises: raise `ulimit -n`",
	"outcry_limit_hits_total": "the log names the connection; [BOUNDS](BOUNDS.md) has each limit and its " +
		"flag",
	"outcry_memory_bytes": "stays near its part of `--max-memory`: clients send much and do not " +
		"read",

	// Security.
	"outcry_auth_tokens": "0 with `--auth`: nobody gets in",
	"outcry_auth_refused_total": "rises: a client has an old token, or somebody tries; the log has addresses and " +
		"token ids",
	"outcry_auth_denied_total": "rises: a client asks for what it may not",
	"outcry_tls_handshake_failures_total": "rises: clients without TLS, or without a certificate; the log has " +
		"the reason",
	"outcry_tls_certificate_expiry_timestamp_seconds": "near `time()`: replace the file, which is reread by " +
		"itself; `OutcryCertificateExpires` fires two weeks before",

	// Journal.
	"outcry_journal_sync_seconds": "p99 over some milliseconds on an SSD: see who else uses the disk; " +
		"over 50 ms `OutcrySyncSlow` fires",
	"outcry_journal_batch_records":    "grows when syncs are slow: that keeps the throughput",
	"outcry_journal_batch_bytes":      "grows when syncs are slow",
	"outcry_journal_unsynced_records": "",
	"outcry_journal_unsynced_bytes":   "stays at 64 MiB: the disk does not keep up",
	"outcry_journal_segments":         "grows: Postgres is behind; each takes `--segment` bytes",
	"outcry_journal_room":             "0: the disk is full and orders are refused; make room",
	"outcry_journal_room_bytes":       "below the reserve: only cancels go on",
	"outcry_journal_reserve_bytes":    "",
	"outcry_disk_available_bytes":     "below a tenth of the size: make room before orders are refused",
	"outcry_disk_size_bytes":          "",
	"outcry_last_backup_timestamp_seconds": "hours ago: the timer of `outcry-backup.service` does not run, " +
		"or the backup fails",

	// Postgres.
	"outcry_postgres_up": "0: trading continues; the log has the reason. Bring it back before the lag reaches its " +
		"limit",
	"outcry_postgres_lag_records": "half of the limit: orders are slowed down; all of it: they are " +
		"refused",
	"outcry_postgres_lag_limit_records": "",
	"outcry_postgres_lag_seconds":       "usually 0.1; grows: Postgres is slower than the orders",
	"outcry_postgres_batch_seconds":     "long: `pg_stat_activity` shows what the database waits for",
	"outcry_postgres_batch_records":     "",
	"outcry_postgres_rows_total":        "",
	"outcry_postgres_retries_total":     "rises: the connection or the server breaks; the log has the error",

	// Market.
	"outcry_orders_total":            "",
	"outcry_cancels_total":           "",
	"outcry_instructed_orders_total": "",
	"outcry_amends_total":            "",
	"outcry_switches_armed":          "",
	"outcry_executions_total":        "",
	"outcry_traded_shares_total":     "a float: near, not for the books",
	"outcry_traded_dollars_total":    "a float: near, not for the books",
	"outcry_accounts":                "near `--max-accounts`: raise it",
	"outcry_symbols":                 "near `--max-symbols`: raise it",
	"outcry_symbols_halted": "not 0: `outcry status` names them, with the reason and since " +
		"when",
	"outcry_open_orders": "grows for ever: clients leave orders behind; each takes some 110 " +
		"bytes",
	"outcry_account_view_up": "0: `<account>`, `<orders>` and `<fills>` are answered with errors: the log has the " +
		"reason; trading continues, the next start brings it back",
	"outcry_account_view_lag_records": "grows: processors are short",
	"outcry_market_feed_up": "0 long after a start: the log has the reason; trading continues, the next start " +
		"brings it back",
	"outcry_market_feed_lag_records":      "grows: processors are short",
	"outcry_stream_readers":               "near `--max-stream-readers`: raise it",
	"outcry_stream_readers_refused_total": "rises: more pages are open than planned",
	"outcry_stream_readers_cut_off_total": "rises: networks that do not keep up",
	"outcry_websocket_connections":        "near `--max-connections`, of which they are a part: raise it",
	"outcry_websocket_connections_accepted_total": "rises with each order: a client connects again for each, " +
		"which is slow",
	"outcry_websocket_refused_total":    "rises: raise `--max-connections`",
	"outcry_websocket_cut_total":        "rises: clients do not keep up with what they subscribe to",
	"outcry_websocket_dead_total":       "rises: networks that fail, or clients that do not answer pings",
	"outcry_websocket_sent_bytes_total": "",
	"outcry_websocket_writes_total":     "",
	"outcry_closed_orders_in_memory":    "far over twice `--closed-orders`: Postgres is behind",
	"outcry_refs_in_memory":             "far over `--refs`: Postgres is behind; each takes some 150 bytes",
	"outcry_ref_filter_bytes":           "",
	"outcry_refs_repeated_total":        "rises fast: clients lose connections, or send twice",
	"outcry_refs_asked_total": "rises with every order for long after a start: the filter could not be read from " +
		"Postgres yet",

	// The Go runtime and the process.
	"go_sched_latencies_seconds":       "p99 over a millisecond: processors are short",
	"go_sched_pauses_total_gc_seconds": "over some milliseconds: memory is short, see `--memory-limit`",
	"go_gc_duration_seconds":           "as `go_sched_pauses_total_gc_seconds`",
	"go_goroutines": "grows without connections: a leak. Two for each connection, one for each symbol with " +
		"work",
	"go_threads": "grows: see `go_goroutines`",
	"go_memstats_heap_inuse_bytes": "grows for ever: see `outcry_open_orders`, `outcry_closed_orders_in_memory`, " +
		"`outcry_memory_bytes`",
	"process_cpu_seconds_total":     "near GOMAXPROCS seconds a second: the exchange is at its limit",
	"process_open_fds":              "near `process_max_fds`: raise `ulimit -n`",
	"process_start_time_seconds":    "changes often: a restart loop",
	"process_resident_memory_bytes": "near the machine's: lower the bounds; see [BOUNDS](BOUNDS.md)",
}

// stages gives, for each stage of outcry_request_stage_seconds, the causes of long times.
var stages = [][]string{
	{"stage", "long because of"},
	{"decode", "large frames: see `outcry_memory_bytes`, `--max-memory`"},
	{
		"inbox",
		"one hot symbol, too few processors (`go_sched_latencies_seconds`), or `outcry_postgres_lag_records` over " +
			"half its limit, which slows sessions down",
	},
	{"match", "deep sweeps of the book; waiting for room in the journal"},
	{"encode", "queries of orders that only Postgres has; if write is long too, clients that do not read"},
	{"journal", "`outcry_journal_sync_seconds`; with `--ack postgres` `outcry_postgres_batch_seconds`; " +
		"too few processors; if write is long too, clients that do not read"},
	{"write", "clients that do not read"},
}

const metricsHead = `# Metrics

Everything that ` + "`/metrics`" + ` of the HTTP side shows, made by ` + "`make reference`" + ` from a running server.
[METRICS](../METRICS.md) has what to watch and how to scrape. All metrics are there from the first scrape of a server
that is ready, with all their labels; those of ` + "`outcry_cluster_`" + ` are a node's of a cluster only. No client
can add a series: a test holds each label to a closed set of values. Times are in seconds, sizes in
bytes, and counters count since the start.

Histograms of durations come in the native and the classic form. Prometheus takes the native one with
` + "`--enable-feature=native-histograms`" + `, from version 3.9 on with ` + "`scrape_native_histograms: true`" + `. A
percentile is exact to 9 % in the native form, and to a factor of 2 in the classic one.

A frame may hold many commands, and frames that have arrived together are executed together; each command counts with
the time of all of them. What a frame waits in the kernel's buffer, or behind a full batch, is not in it.

`

// family is one metric in a page of Prometheus' text format.
type family struct {
	kind, help string
	labels     map[string][]string // values by label
}

// familiesOf parses a page in Prometheus' text format.
func familiesOf(page string) map[string]*family {
	all, name := map[string]*family{}, ""
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			var help string
			name, help, _ = strings.Cut(rest, " ")
			all[name] = &family{help: strings.TrimSuffix(help, "."), labels: map[string][]string{}}
		} else if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, rest, _ = strings.Cut(rest, " ")
			all[name].kind = rest
		} else {
			for _, label := range regexp.MustCompile(`[{,](\w+)="([^"]*)"`).FindAllStringSubmatch(line, -1) {
				if values := all[name].labels[label[1]]; !slices.Contains(values, label[2]) {
					all[name].labels[label[1]] = append(values, label[2])
				}
			}
		}
	}
	return all
}

// TestReferenceOfMetrics generates docs/reference/METRICS.md from a real server's metrics and from advice. advice must
// contain each of our metrics and no others.
func TestReferenceOfMetrics(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	found := familiesOf(scrape(t, start(t, flags...)))
	_, leader := startCluster(t)
	for name, f := range familiesOf(scrape(t, leader.program)) {
		if strings.HasPrefix(name, "outcry_cluster_") {
			found[name] = f
		} else {
			require.Contains(t, found, name, "a node has what a server alone has, and what is of a cluster")
		}
	}
	for name := range advice {
		require.Contains(t, found, name, "there is no such metric")
	}
	named := func(prefix string, is bool) string {
		rows := [][]string{{"metric", "type", "labels", "what it is", "what to do about it"}}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if strings.HasPrefix(name, prefix) != is {
				continue
			}
			text, known := advice[name]
			require.True(t, known || !is, "%s: say in the table of advice what to do about it", name)
			if text == "" {
				text = "-"
			}
			f := found[name]
			rows = append(rows, []string{"`" + name + "`", f.kind, f.labelText(name), f.help, text})
		}
		return doctest.Table(rows)
	}
	page := metricsHead + named("outcry_", true) + "\n## Stages of a request\n\n" + doctest.Table(stages) +
		"\n## The Go runtime and the process\n\n" + named("outcry_", false)
	require.NoError(t, doctest.Reference("../../docs/reference/METRICS.md", page, *update))
}

// labelText returns the labels of a metric, with their values if they are the same in every process.
func (f *family) labelText(name string) string {
	var all []string
	for _, label := range slices.Sorted(maps.Keys(f.labels)) {
		switch {
		case label == "le" || label == "quantile":
		case strings.HasSuffix(name, "_info") || label == "node":
			all = append(all, "`"+label+"`")
		default:
			slices.Sort(f.labels[label])
			all = append(all, "`"+label+"`: "+strings.Join(f.labels[label], ", "))
		}
	}
	if all == nil {
		return "-"
	}
	return strings.Join(all, "; ")
}
