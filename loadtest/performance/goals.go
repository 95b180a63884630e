package performance

import (
	"time"

	"outcry/internal/load/scenario"
	"outcry/loadtest/sweep"
)

// The runs that goals are judged by. Each is made once a round.
const (
	closed       = "64 clients, one at a time"
	closedPaused = "64 clients, one at a time, Postgres paused"
	closedOne    = "64 clients, one at a time, GOMAXPROCS 1"
	closedFour   = "64 clients, one at a time, GOMAXPROCS 4"
	deep         = "64 × 16"
	deepPaused   = "64 × 16, Postgres paused"
	deepOne      = "64 × 16, GOMAXPROCS 1"
	deepFour     = "64 × 16, GOMAXPROCS 4"
	queries      = "16 clients, ten queries a frame"
	single       = "one client"
	half         = "at half of capacity"
	wide         = "10,000 symbols"
	idle         = "10,000 idle connections"
	watched      = "200 readers of the market data stream"
	grown        = "10 million orders in history"
)

// run is one measurement of a round.
type run struct {
	name, scenario string
	procs          int
	change         func(*scenario.Params)
}

// market sends for some seconds.
func market(seconds, clients, depth int) func(*scenario.Params) {
	return func(p *scenario.Params) {
		p.Duration, p.Clients, p.Depth = time.Duration(seconds)*time.Second, clients, depth
	}
}

func paused(change func(*scenario.Params)) func(*scenario.Params) {
	return func(p *scenario.Params) {
		change(p)
		p.Paused = true
	}
}

// runs are those of a round, but for half, whose rate depends on closed. Runs that are
// compared with each other are neighbours.
var runs = []run{
	{closed, "market", 2, market(5, 64, 1)},
	{watched, "market", 2, func(p *scenario.Params) { market(5, 64, 1)(p); p.Readers = 200 }},
	{wide, "wide", 2, market(5, 64, 1)},
	{idle, "market", 2, func(p *scenario.Params) { market(5, 64, 1)(p); p.Idle = 10_000 }},
	{grown, "market", 2, func(p *scenario.Params) { market(5, 64, 1)(p); p.History = 10_000_000 }},
	{closedPaused, "market", 2, paused(market(5, 64, 1))},
	{closedOne, "market", 1, market(5, 64, 1)},
	{closedFour, "market", 4, market(5, 64, 1)},
	{deep, "market", 2, market(5, 64, 16)},
	{deepOne, "market", 1, market(5, 64, 16)},
	{deepFour, "market", 4, market(5, 64, 16)},
	{deepPaused, "market", 2, paused(market(3, 64, 16))},
	{queries, "query10", 2, func(p *scenario.Params) { p.Requests = 10_000 }},
	{single, "market", 2, market(3, 1, 1)},
}

// synced are the runs that are compared with an echo server that has a journal as well.
var synced = []string{closed, closedPaused, deepPaused, single}

// goal is a ratio or a figure that a round has to reach.
type goal struct {
	text string
	// figure is worked out of the runs of one round.
	figure func(round) float64
	bound  float64
	most   bool // the figure may be bound at the most, and not at the least
	unit   string
}

// met reports whether a figure reaches the bound.
func (g *goal) met(figure float64) bool {
	if g.most {
		return figure <= g.bound
	}
	return figure >= g.bound
}

// round holds the measurements of one round by the names of the runs.
type round map[string]*sweep.Point

func (r round) echoShare(name string) float64 { return r[name].EchoShare }

// against returns one run's throughput as a part of another's.
func (r round) against(name, other string) float64 { return r[name].Rate / r[other].Rate }

// spread returns how far apart, as a part of the least, the server's processor time
// a request is in three runs.
func (r round) spread(names ...string) float64 {
	least, most := r[names[0]].ServerCPU, r[names[0]].ServerCPU
	for _, name := range names {
		least, most = min(least, r[name].ServerCPU), max(most, r[name].ServerCPU)
	}
	return most/least - 1
}

var goals = []goal{
	{"64 clients, one order at a time: share of the echo server's rate", func(r round) float64 { return r.echoShare(closed) }, 0.45, false, ""},
	{"the same: share of the rate of an echo server with a journal (since decision 17)", func(r round) float64 { return r[closed].SyncedEchoShare }, 0.55, false, ""},
	{"the same: seconds until Postgres has everything", func(r round) float64 { return r[closed].CatchUp }, 5, true, "s"},
	{"the same with Postgres paused: share of the echo server's rate", func(r round) float64 { return r.echoShare(closedPaused) }, 0.6, false, ""},
	{"the same with Postgres paused: share of the rate of an echo server with a journal (since decision 17)", func(r round) float64 { return r[closedPaused].SyncedEchoShare }, 0.7, false, ""},
	{"64 × 16 with Postgres paused: answered a second", func(r round) float64 { return r[deepPaused].Rate }, 400_000, false, "/s"},
	{"64 × 16 with Postgres running: answered a second", func(r round) float64 { return r[deep].Rate }, 120_000, false, "/s"},
	{"64 × 16 with Postgres running: seconds until Postgres has everything", func(r round) float64 { return r[deep].CatchUp }, 5, true, "s"},
	{"64 × 16 with Postgres paused: the server's processor time an order", func(r round) float64 { return r[deepPaused].ServerCPUSending }, 2.5, true, "µs"},
	{"16 connections, ten queries a frame: share of the echo server's rate", func(r round) float64 { return r.echoShare(queries) }, 0.6, false, ""},
	{"one client: p50 as a multiple of an echo and a sync", func(r round) float64 { return r[single].P50 / (r[single].EchoP50 + r[single].SyncMedian) }, 1.5, true, ""},
	{"at half of capacity: p99 as a multiple of p50", func(r round) float64 { return r[half].P99 / r[half].P50 }, 5, true, ""},
	{"10,000 symbols: share of the rate with 100", func(r round) float64 { return r.against(wide, closed) }, 0.8, false, ""},
	{"10,000 idle connections: share of the rate without", func(r round) float64 { return r.against(idle, closed) }, 0.95, false, ""},
	{"200 readers of the market data stream: share of the rate without", func(r round) float64 { return r.against(watched, closed) }, 0.95, false, ""},
	{"10 million orders in history: share of the rate without", func(r round) float64 { return r.against(grown, closed) }, 0.95, false, ""},
	{"processor time a request at GOMAXPROCS 1, 2, 4: most over least, less 1", func(r round) float64 { return r.spread(closedOne, closed, closedFour) }, 0.25, true, ""},
	{"the same with 16 under way on each connection", func(r round) float64 { return r.spread(deepOne, deep, deepFour) }, 0.25, true, ""},
}
