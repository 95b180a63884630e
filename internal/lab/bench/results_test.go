package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"outcry/internal/lab/guard"
	"outcry/internal/lab/load"
)

// notMeasured replaces a table without data.
const notMeasured = "Not measured yet.\n"

// resultTables returns the tables of docs/RESULTS.md and docs/RELIABILITY.md, by name.
func (m *measured) resultTables() map[string]string {
	all := map[string]string{"machine": notMeasured, "summary": notMeasured,
		"published": notMeasured, "missed": notMeasured, "faults": notMeasured, "cluster": notMeasured}
	all["anchors"], all["guard"] = anchorsTable(m.anchors), guardTable(m.guard)
	if m.full != nil {
		all["machine"] = m.full.measuredOn()
		all["summary"], all["published"] = m.full.summary(), m.full.published(false)
	}
	if m.goals != nil {
		all["missed"] = m.goals.missed()
	}
	if m.torture != nil {
		all["faults"] = m.torture.table()
	}
	if m.failover != nil {
		all["cluster"] = failoverTable(m.failover)
	}
	return all
}

// guardTable returns the comparison with an earlier revision.
func guardTable(r *guard.Report) string {
	if r == nil {
		return notMeasured
	}
	return r.Brief().Markdown()
}

// guardSection returns the section about the comparison with an earlier revision.
func guardSection(r *guard.Report) string {
	return fmt.Sprintf("Base is %.12s, head %s; %d rounds of %s, in turns on %s, %s. Median (least to most); "+
		"processor time is an order's, until Postgres has every record.\n\n    %s\n\n%s", r.Base, r.Head, r.Rounds,
		r.Duration, r.Machine, r.Began.Format("2006-01-02"), r.Command, r.Table().Markdown())
}

// measuredOn describes on which machine, when and how often the figures in RESULTS were measured.
func (d *Data) measuredOn() string {
	var least, most int
	revisions := map[string]bool{}
	count := func(c *Cell) {
		if c == nil {
			return
		}
		if n := len(c.Points); least == 0 {
			least, most = n, n
		} else {
			least, most = min(least, n), max(most, n)
		}
		for _, p := range c.Points {
			revisions[p.Revision] = true
		}
	}
	for _, x := range shown {
		count(d.cell(x.scenario, x.variant, 2))
	}
	for _, x := range experiments {
		for _, variant := range x.variants {
			for _, procs := range x.procs {
				count(d.cell(x.scenario, variant, procs))
			}
		}
	}
	runs := fmt.Sprintf("the median of %d runs", most)
	switch {
	case most < 2:
		runs = "of one run"
	case least < most:
		runs = fmt.Sprintf("the median of %d to %d runs", least, most)
	}
	return fmt.Sprintf("On %s, with clients and Postgres on it; %s, revision %s. A figure is %s; where these differ by "+
		"more than a fifth, the least and the most.\n", d.Machine, d.Began.Format("2006-01-02"),
		strings.Join(slices.Sorted(maps.Keys(revisions)), ", "), runs)
}

// shown are the runs that RESULTS shows.
var shown = []struct{ text, scenario, variant string }{
	{"1 client, one order at a time", "market", "1 client"},
	{"64 clients, one at a time", "market", "64 clients"},
	{"64 clients, 16 under way each", "market", "64 clients × 16"},
	{"the same in one symbol", "hot", "64 clients × 16"},
	{"10,000 orders/s, whatever happens", "market", "256 clients, 10000/s"},
}

// cell returns the cell of a scenario's variant at a number of processors, or nil if it was not measured.
func (d *Data) cell(scenario, variant string, procs int) *Cell {
	for _, c := range d.Cells() {
		if c.Scenario == scenario && c.Variant == variant && c.GOMAXPROCS == procs {
			return &c
		}
	}
	return nil
}

func rateOf(p *Point) float64    { return p.Rate }
func p50Of(p *Point) float64     { return p.P50 }
func p99Of(p *Point) float64     { return p.P99 }
func shareOf(p *Point) float64   { return 100 * p.EchoShare }
func secondsOf(p *Point) float64 { return p.Seconds }
func serverOf(p *Point) float64  { return p.ServerCPU }
func clientOf(p *Point) float64  { return p.ClientCPU }

// headline formats a figure of a cell for RESULTS: the median, or the minimum and maximum if the runs differ too
// much; "-" without data. A mark shows that GOMAXPROCS exceeds the machine's processors.
func (c *Cell) headline(figure func(*Point) float64, decimals int) string {
	if c == nil {
		return "-"
	}
	write := func(f float64) string {
		if decimals == 0 {
			return grouped(f)
		}
		return number(f, decimals)
	}
	return c.Of(figure).Headline(write) + strings.TrimPrefix(c.procs(), fmt.Sprint(c.GOMAXPROCS))
}

// summary returns a table of each run's rate at each number of processors. Figures other than rates are shown at
// the highest number.
func (d *Data) summary() string {
	most, head := 1, []string{"load", "requests/s at GOMAXPROCS 1"}
	for _, procs := range []int{2, 4} {
		if len(d.Points) > 0 && procs <= d.Points[0].Processors {
			most, head = procs, append(head, fmt.Sprint(procs))
		}
	}
	t := load.Table{append(head, "p50 ms", "p99 ms", "% of echo", "µs of server", "of client")}
	for _, x := range shown {
		row, last := []any{x.text}, d.cell(x.scenario, x.variant, most)
		for procs := 1; procs <= most; procs *= 2 {
			row = append(row, d.cell(x.scenario, x.variant, procs).headline(rateOf, 0))
		}
		share := "-"
		if last != nil && last.Points[0].Params.Rate == 0 {
			share = last.headline(shareOf, 0)
		}
		t.Add(append(row, last.headline(p50Of, 2), last.headline(p99Of, 2), share, last.headline(serverOf, 0),
			last.headline(clientOf, 0))...)
	}
	return t.Markdown()
}

// experiments are the experiments of earlier systems, published or not, which are compared with our results for
// each variant at each number of processors.
var experiments = []struct {
	system          string
	text, published string
	scenario        string
	variants        []string
	procs           []int
	figure          func(*Point) float64
	decimals        int
	unit            string
	result          bool // also shown in RESULTS
}{
	{"first", "one client, on 1, 2, 4 cores", "176, 181, 184/s", "cores", []string{"1 client"}, []int{1, 2, 4}, rateOf, 0,
		"/s", true},
	{"first", "64 clients, by 1 to 4 threads of the server", notKnownHere, "threads", []string{"64 clients"},
		[]int{1, 2, 3, 4}, rateOf, 0, "/s", false},
	{"first", "100, 500 and 1,000 clients at once, a connection each", "-", "burst",
		[]string{"100 clients", "500 clients", "1000 clients"}, []int{2}, rateOf, 0, "/s", false},
	{"first", "5,000 and 10,000 at once, a connection each", "550/s beyond 5,000", "burst",
		[]string{"5000 clients", "10000 clients"}, []int{2}, rateOf, 0, "/s", true},
	{"second", "five kinds, from 4, 20, 50, 200 clients", "362, 603, 623, 512/s", "mix5",
		[]string{"4 clients", "20 clients", "50 clients", "200 clients"}, []int{2}, rateOf, 0, "/s", true},
	{"second", "the same, connections that stay", "-", "mix5-persistent",
		[]string{"4 clients", "20 clients", "50 clients", "200 clients"}, []int{2}, rateOf, 0, "/s", true},
	{"second", "2 × 1,000 of them, on 1 to 4 cores", "4.7 to 6.3 s on 1 and 2, about 1 s on 3 and 4", "mix5",
		[]string{"2 clients"}, []int{1, 2, 3, 4}, secondsOf, 2, " s", false},
	{"second", "the same, connections that stay", "-", "mix5-persistent", []string{"2 clients"}, []int{1, 2, 3, 4},
		secondsOf, 2, " s", false},
	{"third", "10,000 users, on 1, 2, 4 cores", "852, 580, 400 s", "populate", []string{"1 client"}, []int{1, 2, 4},
		secondsOf, 1, " s", true},
	{"third", "40,000 queries over 1 and 16 connections", "35.7, 36.8 s", "query10", []string{"1 client", "16 clients"},
		[]int{2}, secondsOf, 2, " s", false},
	{"third", "the same over 4, without and with pauses", notKnownHere, "query10",
		[]string{"4 clients", "4 clients, pauses of 1ms"}, []int{2}, secondsOf, 2, " s", false},
	{"third", "its second server", notKnownHere, "", nil, nil, nil, 0, "", false},
	{"fourth", "81 clients, 1,000 queries each, on 1, 2, 4 cores", "88, 70, 61 s; 44 s at best", "query81",
		[]string{"81 clients"}, []int{1, 2, 4}, secondsOf, 2, " s", true},
	{"fifth", "1,000 accounts at once, p50, on 1 to 4 cores", "falls up to 3, rises at 4", "accounts",
		[]string{"1000 clients"}, []int{1, 2, 3, 4}, p50Of, 0, " ms", false},
	{"fifth", "5,000 accounts at once, p50, on 1 to 4 cores", "falls up to 3, rises at 4", "accounts",
		[]string{"5000 clients"}, []int{1, 2, 3, 4}, p50Of, 0, " ms", false},
	{"fifth", "10,000 accounts at once, p50, on 1 to 4 cores", "falls up to 3, rises at 4", "accounts",
		[]string{"10000 clients"}, []int{1, 2, 3, 4}, p50Of, 0, " ms", true},
}

// notKnownHere marks figures that an earlier system may have published.
const notKnownHere = "not known"

// published returns the comparison with figures published for earlier servers of this protocol: only the
// rows of RESULTS, or all.
func (d *Data) published(all bool) string {
	t := load.Table{{"system", "experiment", "published", "Outcry"}}
	for _, x := range experiments {
		if !all && !x.result {
			continue
		}
		var figures []string
		for _, variant := range x.variants {
			for _, procs := range x.procs {
				figures = append(figures, d.cell(x.scenario, variant, procs).headline(x.figure, x.decimals))
			}
		}
		text := "-"
		if figures != nil {
			text = strings.Join(figures, ", ") + x.unit
		}
		t.Add(x.system, x.text, x.published, text)
	}
	if !all {
		for i := range t {
			t[i] = t[i][1:]
		}
	}
	return t.Markdown()
}

// reasons explain missed goals, by the beginning of a goal's text.
var reasons = map[string]string{
	"64 clients, one order at a time: share of the echo server's rate": "sockets and syncs; the echo server has no syncs",
	"the same with Postgres paused: share of the echo server's rate":   "all clients wait for one sync",
	"64 × 16 with Postgres paused: answered a second":                  "both processors are busy",
	"64 × 16 with Postgres paused: the server's processor time":        "the same",
	"16 connections, ten queries a frame":                              "the client checks replies as long",
	"at half of capacity: p99 as a multiple of p50":                    "Postgres takes a processor for milliseconds",
	"10,000 idle connections":                                          "within the noise",
}

// notKnown is used for a missed goal without a known reason.
const notKnown = "not known yet"

// missed lists the missed goals with their reasons.
func (d *Data) missed() string {
	t := load.Table{{"goal", "demanded", "measured", "why"}}
	for i, v := range d.Verdicts() {
		if v.Met {
			continue
		}
		why := notKnown
		for goal, reason := range reasons {
			if strings.HasPrefix(v.Goal, goal) {
				why = reason
			}
		}
		t = append(t, append(d.judged()[i+1][:3:3], why))
	}
	return t.Markdown()
}

// goalTables returns the tables of goals, by name.
func (d *Data) goalTables() map[string]string {
	made := load.Table{{"run", "round", "requests/s", "of echo (with a journal)", "p50 ms", "p99 ms", "longest ms",
		"echo's p99 ms",
		"µs of server (while sending), Postgres, client", "s behind"}}
	rounds := d.whole()
	for _, job := range Goals(false) {
		for n, points := range rounds {
			p := points[job.Name]
			made.Add(job.Name, n+1, figure(p.Rate, ""), p.shares(), number(p.P50, 2), number(p.P99, 2), number(p.Max, 1),
				number(p.EchoP99, 2),
				fmt.Sprintf("%.1f (%.1f), %.1f, %.1f", p.ServerCPU, p.ServerCPUSending, p.PostgresCPU, p.ClientCPU),
				number(p.CatchUp, 1))
		}
	}
	about := fmt.Sprintf("%d rounds on %s, with client, server and Postgres on it; %s, revision %s; %.0f minutes in "+
		"all.\n\n    %s\n",
		len(rounds), d.Machine, d.Began.Format("2006-01-02"), d.Revision, d.Seconds/60, d.Command)
	return map[string]string{"about": about, "goals": d.judged().Markdown(), "runs": made.Markdown()}
}

// page describes a soak in a sentence and a table of six moments.
func (s *Soak) page(d *Data) string {
	verdict := "Nothing grew, and the exchange held what clients were told."
	if len(s.Findings) > 0 {
		verdict = "FINDINGS: " + strings.Join(s.Findings, "; ") + "."
	}
	half := ""
	if s.Capacity > 0 {
		half = fmt.Sprintf("half of the %s a second that a short run over 64 connections reached; ", grouped(s.Capacity))
	}
	return fmt.Sprintf("%s requests, %s a second, %s%s, revision %s. %s\n\n    %s\n\n%s", grouped(float64(s.Requests)),
		grouped(float64(s.Rate)), half, d.Began.Format("2006-01-02"), d.Revision, verdict, d.Command, s.samples(6).Markdown())
}
