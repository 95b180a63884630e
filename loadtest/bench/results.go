package bench

import (
	"fmt"
	"strings"

	"outcry/internal/load/scenario"
)

// notMeasured stands in the place of a table without data.
const notMeasured = "Not measured yet.\n"

// resultTables returns the tables of docs/RESULTS.md and docs/RELIABILITY.md by their names.
// The error names a missed goal that has no reason.
func (m *measured) resultTables() (map[string]string, error) {
	all := map[string]string{"machine": notMeasured, "summary": notMeasured, "scaling": notMeasured,
		"published": notMeasured, "missed": notMeasured, "faults": notMeasured}
	if m.full != nil {
		all["machine"] = fmt.Sprintf("Measured on %s, with clients, server and Postgres on it; %s.\n", m.full.Machine,
			m.full.Began.Format("2006-01-02"))
		all["summary"], all["scaling"] = m.full.summary(), m.full.scaling()
		all["published"] = m.full.published()
	}
	if m.goals != nil {
		missed, err := m.goals.missed()
		if err != nil {
			return nil, err
		}
		all["missed"] = missed
	}
	if m.torture != nil {
		all["faults"] = m.torture.table()
	}
	return all, nil
}

// shown are the runs that RESULTS shows.
var shown = []struct{ text, scenario, variant string }{
	{"one client, one request after another", "cores", "1 client"},
	{"64 clients, one request at a time each", "market", "64 clients"},
	{"64 clients, 16 requests under way on each", "market", "64 clients × 16"},
	{"the same, all in one symbol", "hot", "64 clients × 16"},
	{"64 clients, a million orders resting", "deep", "64 clients"},
	{"200 clients, creates, orders, queries, cancels", "mix5", "200 clients"},
	{"81 clients, queries only", "query81", "81 clients"},
	{"5,000 clients that connect, order and leave at once", "burst", "5000 clients"},
	{"10,000 requests a second, whatever the exchange does", "market", "256 clients, 10000/s"},
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
func serverOf(p *Point) float64  { return p.ServerCPU }

// summary has how fast it is, at GOMAXPROCS 2.
func (d *Data) summary() string {
	t := table{{"load", "requests/s", "p50 ms", "p99 ms", "of an echo server"}}
	for _, x := range shown {
		if c := d.cell(x.scenario, x.variant, 2); c != nil {
			t.add(x.text, grouped(c.median(rateOf)), number(c.median(p50Of), 2), number(c.median(p99Of), 2),
				c.Points[0].share(c.median(shareOf)))
		}
	}
	return t.markdown()
}

// scaling has requests a second and the server's processor time by GOMAXPROCS.
func (d *Data) scaling() string {
	t := table{{"load", "GOMAXPROCS 1", "2", "4", "µs of the server a request at 1, 2, 4"}}
	for _, x := range shown[:len(shown)-1] { // the last one's rate is given
		row, times := []any{x.text}, []string{}
		for _, procs := range []int{1, 2, 4} {
			if c := d.cell(x.scenario, x.variant, procs); c != nil {
				row = append(row, grouped(c.median(rateOf)))
				times = append(times, number(c.median(serverOf), 0))
			}
		}
		if len(row) == 4 {
			t.add(append(row, strings.Join(times, ", "))...)
		}
	}
	return t.markdown()
}

// published compares with what earlier servers of this protocol published.
func (d *Data) published() string {
	t := table{{"experiment", "published", "Outcry"}}
	for _, x := range []struct {
		scenario string
		variants []string // each with a figure at GOMAXPROCS 2, or one at 1, 2 and 4
		seconds  bool     // the figures are these, not rates
	}{
		{"cores", []string{"1 client"}, false},
		{"mix5", []string{"4 clients", "20 clients", "50 clients", "200 clients"}, false},
		{"burst", []string{"5000 clients", "10000 clients"}, false},
		{"query10", []string{"1 client", "16 clients"}, true},
		{"query81", []string{"81 clients"}, true},
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
		s := namedScenario(x.scenario)
		was, _, _ := strings.Cut(s.Published, ";")
		text := strings.Join(figures, ", ")
		if !x.seconds && text != "" {
			text += " requests/s"
		}
		t.add(s.About, was, text)
	}
	return t.markdown()
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
	"64 clients, one order at a time: share of the echo server's rate": "half of a request's time is the kernel's, " +
		"for sockets and a share of a sync, which an echo server does without",
	"the same with Postgres paused: share of the echo server's rate": "all clients wait for the same sync",
	"64 × 16 with Postgres paused: answered a second":                "decoding, matching, journal and sockets share both processors with the clients; no part stands out",
	"64 × 16 with Postgres paused: the server's processor time":      "the same",
	"16 connections, ten queries a frame": "ten books answer in turn, and the client needs almost as much " +
		"processor time to check them",
	"at half of capacity: p99 as a multiple of p50": "a batch in Postgres takes one of the two processors for some " +
		"milliseconds; the echo server's own p99 is as far from its p50",
	"10,000 idle connections": "within the noise of three rounds",
}

// missed has the goals that are missed, and why. The error names one without a reason.
func (d *Data) missed() (string, error) {
	t := table{{"goal", "demanded", "measured", "why"}}
	for i, v := range d.Verdicts() {
		if v.Met {
			continue
		}
		why := ""
		for goal, reason := range reasons {
			if strings.HasPrefix(v.Goal, goal) {
				why = reason
			}
		}
		if why == "" {
			return "", fmt.Errorf("bench: the goal %q is missed: say why in results.go", v.Goal)
		}
		t = append(t, append(d.judged()[i+1][:3:3], why))
	}
	return t.markdown(), nil
}
