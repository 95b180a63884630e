package bench

import (
	"slices"
	"time"

	"outcry/internal/lab/load"
)

// Names of the runs from which goals are judged. Each round has every run once.
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
	idles        = "10,000 idle connections"
	watched      = "200 readers of the market data stream"
	grown        = "10 million orders in history"
)

// Goals returns the jobs that the goals of docs/reference/BENCHMARKS.md need. Jobs whose figures are
// compared are next to each other. With quick, jobs are shorter and smaller: they show that everything
// works, and their figures mean nothing.
func Goals(quick bool) (all []Job) {
	for _, x := range []struct {
		name   string
		procs  int
		synced bool // also compare with an echo server that has a journal
		text   string
	}{
		{closed, 2, true, "market -duration 5s"},
		{watched, 2, false, "market -duration 5s -readers 200"},
		{wide, 2, false, "wide -duration 5s"},
		{idles, 2, false, "market -duration 5s -idle 10000"},
		{grown, 2, false, "market -duration 5s -history 10000000"},
		{closedPaused, 2, true, "market -duration 5s -paused"},
		{closedOne, 1, false, "market -duration 5s"},
		{closedFour, 4, false, "market -duration 5s"},
		{deep, 2, false, "market -duration 5s -depth 16"},
		{deepOne, 1, false, "market -duration 5s -depth 16"},
		{deepFour, 4, false, "market -duration 5s -depth 16"},
		{deepPaused, 2, true, "market -duration 3s -depth 16 -paused"},
		{queries, 2, false, "query10 -requests 10000"},
		{single, 2, true, "market -duration 3s -clients 1"},
		{half, 2, false, "market -duration 5s"}, // at a rate that the result of closed determines
	} {
		job := jobs(x.text)[0]
		job.Name, job.GOMAXPROCS, job.SyncedEcho = x.name, x.procs, x.synced
		if p := &job.Params; quick {
			p.Duration, p.Requests = min(p.Duration, time.Second), min(p.Requests, 500)
			p.History, p.Idle = p.History/200, p.Idle/10
		}
		all = append(all, job)
	}
	return all
}

// goal is a ratio or another figure that a round must reach.
type goal struct {
	Goal   string
	figure func(round) float64 // computes the figure from the runs of one round
	bound  float64
	most   bool // the bound is an upper bound
	unit   string
}

// round holds the measurements of one round, by the names of their runs.
type round map[string]*Point

func (r round) echoShare(name string) float64 { return r[name].EchoShare }

// against returns the throughput of one run relative to another's.
func (r round) against(name, other string) float64 { return r[name].Rate / r[other].Rate }

// spread returns the relative difference between the highest and the lowest server processor time a
// request in the runs.
func (r round) spread(names ...string) float64 {
	least, most := r[names[0]].ServerCPU, r[names[0]].ServerCPU
	for _, name := range names {
		least, most = min(least, r[name].ServerCPU), max(most, r[name].ServerCPU)
	}
	return most/least - 1
}

var goals = []goal{
	{"64 clients, one order at a time: share of the echo server's rate",
		func(r round) float64 { return r.echoShare(closed) }, 0.45, false, ""},
	{"the same: share of the rate of an echo server with a journal (since decision 17)",
		func(r round) float64 { return r[closed].SyncedEchoShare }, 0.55, false, ""},
	{"the same: seconds until Postgres has everything",
		func(r round) float64 { return r[closed].CatchUp }, 5, true, "s"},
	{"the same with Postgres paused: share of the echo server's rate",
		func(r round) float64 { return r.echoShare(closedPaused) }, 0.6, false, ""},
	{"the same with Postgres paused: share of the rate of an echo server with a journal (since decision 17)",
		func(r round) float64 { return r[closedPaused].SyncedEchoShare }, 0.7, false, ""},
	{"64 × 16 with Postgres paused: answered a second",
		func(r round) float64 { return r[deepPaused].Rate }, 400_000, false, "/s"},
	{"64 × 16 with Postgres running: answered a second",
		func(r round) float64 { return r[deep].Rate }, 120_000, false, "/s"},
	{"64 × 16 with Postgres running: seconds until Postgres has everything",
		func(r round) float64 { return r[deep].CatchUp }, 5, true, "s"},
	{"64 × 16 with Postgres paused: the server's processor time an order",
		func(r round) float64 { return r[deepPaused].ServerCPUSending }, 2.5, true, "µs"},
	{"16 connections, ten queries a frame: share of the echo server's rate",
		func(r round) float64 { return r.echoShare(queries) }, 0.6, false, ""},
	{"one client: p50 as a multiple of an echo and a sync",
		func(r round) float64 { return r[single].P50 / (r[single].EchoP50 + r[single].SyncMedian) }, 1.5, true, ""},
	{"at half of capacity: p99 as a multiple of p50",
		func(r round) float64 { return r[half].P99 / r[half].P50 }, 6, true, ""},
	{"10,000 symbols: share of the rate with 100",
		func(r round) float64 { return r.against(wide, closed) }, 0.8, false, ""},
	{"10,000 idle connections: share of the rate without",
		func(r round) float64 { return r.against(idles, closed) }, 0.95, false, ""},
	{"200 readers of the market data stream: share of the rate without",
		func(r round) float64 { return r.against(watched, closed) }, 0.95, false, ""},
	{"10 million orders in history: share of the rate without",
		func(r round) float64 { return r.against(grown, closed) }, 0.95, false, ""},
	{"processor time a request at GOMAXPROCS 1, 2, 4: most over least, less 1",
		func(r round) float64 { return r.spread(closedOne, closed, closedFour) }, 0.25, true, ""},
	{"the same with 16 in flight on each connection",
		func(r round) float64 { return r.spread(deepOne, deep, deepFour) }, 0.25, true, ""},
}

// rounds returns the points of goals by round, including an incomplete round.
func (d *Data) rounds() (all []round) {
	for _, p := range d.Points {
		if p.Run == "" {
			continue
		}
		for len(all) < p.Repetition {
			all = append(all, round{})
		}
		all[p.Repetition-1][p.Run] = p
	}
	return all
}

// whole returns the complete rounds.
func (d *Data) whole() []round {
	return slices.DeleteFunc(d.rounds(), func(r round) bool { return len(r) < len(Goals(false)) })
}

// Verdict is one goal, judged by the median of all rounds.
type Verdict struct {
	goal
	Spread load.Spread
	Met    bool
}

// Verdicts judges every goal. The data must have at least one complete round.
func (d *Data) Verdicts() (all []Verdict) {
	for _, g := range goals {
		spread := load.SpreadOf(d.whole(), g.figure)
		met := spread.Median >= g.bound
		if g.most {
			met = spread.Median <= g.bound
		}
		all = append(all, Verdict{g, spread, met})
	}
	return all
}

// figure formats a number with the digits that are meaningful for its unit.
func figure(f float64, unit string) string {
	switch {
	case f >= 1000:
		return grouped(f) + unit
	case unit == "":
		return number(f, 2)
	}
	return number(f, 1) + " " + unit
}

// judged returns the table of goals.
func (d *Data) judged() load.Table {
	t := load.Table{{"goal", "demanded", "median", "least to most", "met"}}
	for _, v := range d.Verdicts() {
		demand := map[bool]string{false: "at least ", true: "at most "}[v.most]
		t.Add(v.Goal, demand+figure(v.bound, v.unit), figure(v.Spread.Median, v.unit),
			figure(v.Spread.Min, v.unit)+" to "+figure(v.Spread.Max, v.unit), map[bool]string{false: "NO", true: "yes"}[v.Met])
	}
	return t
}
