package bench

import (
	"fmt"
	"strings"

	"outcry/internal/load"
	"outcry/internal/load/scenario"
)

// notMeasured stands in the place of a table without data.
const notMeasured = "Not measured yet.\n"

// resultTables returns the tables of docs/RESULTS.md and docs/RELIABILITY.md by their names.
func (m *measured) resultTables() map[string]string {
	all := map[string]string{"machine": notMeasured, "summary": notMeasured,
		"published": notMeasured, "missed": notMeasured, "faults": notMeasured, "cluster": notMeasured}
	if m.full != nil {
		all["machine"] = fmt.Sprintf("Measured on %s, with clients, server and Postgres on it; %s.\n", m.full.Machine,
			m.full.Began.Format("2006-01-02"))
		all["summary"], all["published"] = m.full.summary(), m.full.published()
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

// shown are the runs that RESULTS shows.
var shown = []struct{ text, scenario, variant string }{
	{"1 client, one request at a time", "cores", "1 client"},
	{"64 clients, one at a time", "market", "64 clients"},
	{"64 clients, 16 under way each", "market", "64 clients × 16"},
	{"the same in one symbol", "hot", "64 clients × 16"},
	{"200 clients, all kinds of requests", "mix5", "200 clients"},
	{"81 clients, queries", "query81", "81 clients"},
	{"5,000 clients, a connection each", "burst", "5000 clients"},
	{"10,000 requests/s, whatever happens", "market", "256 clients, 10000/s"},
}

// cell returns a scenario's variant at some number of processors, nil if it was not measured.
func (d *Data) cell(scenario, variant string, procs int) *Cell {
	for _, c := range d.Cells() {
		if c.Scenario == scenario && c.Variant == variant && c.GOMAXPROCS == procs {
			return &c
		}
	}
	return nil
}

func (c *Cell) median(figure func(*Point) float64) float64 { return c.Of(figure).Median }

func rateOf(p *Point) float64    { return p.Rate }
func p50Of(p *Point) float64     { return p.P50 }
func p99Of(p *Point) float64     { return p.P99 }
func shareOf(p *Point) float64   { return p.EchoShare }
func secondsOf(p *Point) float64 { return p.Seconds }

// summary has how fast it is, and how that scales. What is no rate is at GOMAXPROCS 2.
func (d *Data) summary() string {
	t := load.Table{{"load", "requests/s at GOMAXPROCS 1", "2", "4", "p50 ms", "p99 ms", "of an echo server"}}
	for _, x := range shown {
		row := []any{x.text}
		for _, procs := range []int{1, 2, 4} {
			if c := d.cell(x.scenario, x.variant, procs); c != nil {
				row = append(row, grouped(c.median(rateOf)))
			}
		}
		if c := d.cell(x.scenario, x.variant, 2); c != nil && len(row) == 4 {
			t.Add(append(row, number(c.median(p50Of), 2), number(c.median(p99Of), 2),
				c.Points[0].share(c.median(shareOf)))...)
		}
	}
	return t.Markdown()
}

// published compares with what earlier servers of this protocol published.
func (d *Data) published() string {
	t := load.Table{{"experiment", "published", "Outcry"}}
	for _, x := range []struct {
		text     string
		scenario string
		variants []string // each with a figure at GOMAXPROCS 2, or one at 1, 2 and 4
		seconds  bool     // the figures are these, not rates
	}{
		{"1 client", "cores", []string{"1 client"}, false},
		{"all kinds of requests", "mix5", []string{"4 clients", "20 clients", "50 clients", "200 clients"}, false},
		{"a connection each", "burst", []string{"5000 clients", "10000 clients"}, false},
		{"40,000 queries, ten a request", "query10", []string{"1 client", "16 clients"}, true},
		{"81 clients, 1,000 queries each", "query81", []string{"81 clients"}, true},
	} {
		var figures []string
		for _, variant := range x.variants {
			for _, procs := range []int{1, 2, 4} {
				c := d.cell(x.scenario, variant, procs)
				switch {
				case c == nil || len(x.variants) > 1 && procs != 2:
				case x.seconds:
					figures = append(figures, number(c.median(secondsOf), 2)+" s")
				default:
					figures = append(figures, grouped(c.median(rateOf)))
				}
			}
		}
		was, _, _ := strings.Cut(namedScenario(x.scenario).Published, ";")
		text := strings.Join(figures, ", ")
		if !x.seconds && text != "" {
			text += " requests/s"
		}
		t.Add(x.text, was, text)
	}
	return t.Markdown()
}

// namedScenario returns the scenario of a name, which there must be.
func namedScenario(name string) scenario.Scenario {
	for _, x := range scenario.All() {
		if x.Name == name {
			return x
		}
	}
	panic("bench: there is no scenario " + name)
}

// reasons say why a goal is missed, by the beginning of its text.
var reasons = map[string]string{
	"64 clients, one order at a time: share of the echo server's rate": "sockets and syncs; the echo server has no syncs",
	"the same with Postgres paused: share of the echo server's rate":   "all clients wait for one sync",
	"64 × 16 with Postgres paused: answered a second":                  "both processors are busy",
	"64 × 16 with Postgres paused: the server's processor time":        "the same",
	"16 connections, ten queries a frame":                              "the client checks replies as long",
	"at half of capacity: p99 as a multiple of p50":                    "Postgres takes a processor for milliseconds",
	"10,000 idle connections":                                          "within the noise",
}

// notKnown stands in the place of a reason that is not in the table.
const notKnown = "not known yet"

// missed has the goals that are missed, and why.
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

// goalTables returns the tables of goals by their names.
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

// page tells of a soak in a sentence and a table of six moments.
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
