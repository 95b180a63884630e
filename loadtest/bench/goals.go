package bench

import (
	"fmt"
	"slices"
	"time"

	"outcry/internal/load/scenario"
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
	idles        = "10,000 idle connections"
	watched      = "200 readers of the market data stream"
	grown        = "10 million orders in history"
)

// Goals returns the jobs that the goals of docs/reference/BENCHMARKS.md are judged by. Those that are
// compared with each other are neighbours. quick ones are shorter and smaller: to see
// that everything works, not for figures.
func Goals(quick bool) (all []Job) {
	set := func(f func(*scenario.Params)) change { return with(seconds(5), f) }
	paused := func(p *scenario.Params) { p.Paused = true }
	for _, x := range []struct {
		name, scenario string
		procs          int
		synced         bool // compared with an echo server that has a journal as well
		change         change
	}{
		{closed, "market", 2, true, seconds(5)},
		{watched, "market", 2, false, set(func(p *scenario.Params) { p.Readers = 200 })},
		{wide, "wide", 2, false, seconds(5)},
		{idles, "market", 2, false, set(func(p *scenario.Params) { p.Idle = 10_000 })},
		{grown, "market", 2, false, set(func(p *scenario.Params) { p.History = 10_000_000 })},
		{closedPaused, "market", 2, true, set(paused)},
		{closedOne, "market", 1, false, seconds(5)},
		{closedFour, "market", 4, false, seconds(5)},
		{deep, "market", 2, false, market(5, 64, 16)},
		{deepOne, "market", 1, false, market(5, 64, 16)},
		{deepFour, "market", 4, false, market(5, 64, 16)},
		{deepPaused, "market", 2, true, with(market(3, 64, 16), paused)},
		{queries, "query10", 2, false, requests(10_000)},
		{single, "market", 2, true, market(3, 1, 1)},
		{half, "market", 2, false, seconds(5)}, // at a rate that closed decides
	} {
		job := jobsOf(x.scenario, x.name, x.procs, x.change)[0]
		job.SyncedEcho = x.synced
		if p := &job.Params; quick {
			p.Duration, p.Requests = min(p.Duration, time.Second), min(p.Requests, 500)
			p.History, p.Idle = p.History/200, p.Idle/10
		}
		all = append(all, job)
	}
	return all
}

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
type round map[string]*Point

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
		func(r round) float64 { return r[half].P99 / r[half].P50 }, 5, true, ""},
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
	{"the same with 16 under way on each connection",
		func(r round) float64 { return r.spread(deepOne, deep, deepFour) }, 0.25, true, ""},
}

// rounds returns the points of goals by round, one that is not whole yet included.
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

// whole returns the rounds that are.
func (d *Data) whole() []round {
	return slices.DeleteFunc(d.rounds(), func(r round) bool { return len(r) < len(Goals(false)) })
}

// Verdict is one goal, judged by the median of all rounds.
type Verdict struct {
	Goal   string
	Spread Spread
	Bound  float64
	AtMost bool // Bound is the most that it may be, not the least that it must be
	Unit   string
	Met    bool
}

// Verdicts judges every goal. There must be a round.
func (d *Data) Verdicts() (all []Verdict) {
	for _, g := range goals {
		v := Verdict{Goal: g.text, Spread: spreadOf(d.whole(), g.figure), Bound: g.bound, AtMost: g.most, Unit: g.unit}
		v.Met = g.met(v.Spread.Median)
		all = append(all, v)
	}
	return all
}

// figure writes a number with as many digits as it is good for.
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
func (d *Data) judged() table {
	t := table{{"goal", "demanded", "median", "least to most", "met"}}
	for _, v := range d.Verdicts() {
		demand, met := "at least ", "yes"
		if v.AtMost {
			demand = "at most "
		}
		if !v.Met {
			met = "NO"
		}
		t.add(v.Goal, demand+figure(v.Bound, v.Unit), figure(v.Spread.Median, v.Unit),
			figure(v.Spread.Min, v.Unit)+" to "+figure(v.Spread.Max, v.Unit), met)
	}
	return t
}

// goalTables returns the tables of goals by their names.
func (d *Data) goalTables() map[string]string {
	made := table{{"run", "round", "requests/s", "of echo (with a journal)", "p50 ms", "p99 ms", "longest ms",
		"echo's p99 ms",
		"µs of server (while sending), Postgres, client", "s behind"}}
	rounds := d.whole()
	for _, job := range Goals(false) {
		for n, points := range rounds {
			p := points[job.Name]
			share := p.share(p.EchoShare)
			if p.SyncedEchoRate > 0 {
				share += " (" + p.share(p.SyncedEchoShare) + ")"
			}
			made.add(job.Name, n+1, figure(p.Rate, ""), share, number(p.P50, 2), number(p.P99, 2), number(p.Max, 1),
				number(p.EchoP99, 2),
				fmt.Sprintf("%.1f (%.1f), %.1f, %.1f", p.ServerCPU, p.ServerCPUSending, p.PostgresCPU, p.ClientCPU),
				number(p.CatchUp, 1))
		}
	}
	about := fmt.Sprintf("%d rounds on %s, with client, server and Postgres on it; %s, revision %s; %.0f minutes in "+
		"all.\n\n    %s\n",
		len(rounds), d.Machine, d.Began.Format("2006-01-02"), d.Revision, d.Seconds/60, d.Command)
	return map[string]string{"about": about, "goals": d.judged().markdown(), "runs": made.markdown()}
}
