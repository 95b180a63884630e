package guard

import (
	"fmt"
	"io"
	"time"

	"outcry/internal/lab/anchors"
	"outcry/internal/lab/load"
)

// Report is the result of a run.
type Report struct {
	Command    string // how the run can be repeated
	Began      time.Time
	Base, Head string // revisions; harness.Changed is appended to Head if files differ from it
	Rounds     int
	Duration   time.Duration // of each measurement
	Loads      []anchors.Shape
	Machine    string
	Pairs      []Pair
}

// Pair is one round of a load: a measurement of each program.
type Pair struct {
	At     anchors.Shape
	Points [2]*anchors.Point // of base and head
}

// figure is one of the compared figures.
type figure struct {
	name   string
	digits int
	of     func(*anchors.Point) float64
}

var (
	rate     = &figure{"orders/s", 0, func(p *anchors.Point) float64 { return p.Rate }}
	server   = &figure{"µs of the server", 2, func(p *anchors.Point) float64 { return p.ServerCPU }}
	postgres = &figure{"µs of Postgres", 2, func(p *anchors.Point) float64 { return p.PostgresCPU }}
	both     = &figure{"µs of both", 2, func(p *anchors.Point) float64 { return p.ServerCPU + p.PostgresCPU }}
)

// goals are the largest ratios of a figure to the same figure of Recorded that the project has set itself.
var goals = []struct {
	at     anchors.Shape
	figure *figure
	most   float64
}{{pipelined, server, 0.85}, {pipelined, both, 0.80}, {single, server, 0.90}}

// ratios returns the ratio of head to base in each round of a load. It leaves out rounds in which base's figure is 0:
// the kernel counts processor time in ticks of 10 ms.
func (r *Report) ratios(at anchors.Shape, f *figure) (all []float64) {
	for _, p := range r.Pairs {
		if before := f.of(p.Points[base]); p.At == at && before > 0 {
			all = append(all, f.of(p.Points[head])/before)
		}
	}
	return all
}

// spread formats the median, minimum and maximum of figures.
func spread(all []float64, digits int) string {
	if len(all) == 0 {
		return "–"
	}
	s := of(all)
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, s.Median, digits, s.Min, digits, s.Max)
}

// Table returns all figures of both revisions, and the ratios of each round.
func (r *Report) Table() load.Table {
	t := load.Table{{"load", "figure", "base", "head", "head/base of each round"}}
	for _, at := range r.Loads {
		for _, f := range []*figure{rate, server, postgres, both} {
			var sides [2][]float64
			for _, p := range r.Pairs {
				for s, point := range p.Points {
					if p.At == at {
						sides[s] = append(sides[s], f.of(point))
					}
				}
			}
			t.Add(at, f.name, spread(sides[base], f.digits), spread(sides[head], f.digits), spread(r.ratios(at, f), 2))
		}
	}
	return t
}

// Brief returns a table with a row for each load: the medians of base and head, and the median of the rounds' ratios.
func (r *Report) Brief() load.Table {
	t := load.Table{{"load", rate.name, server.name, postgres.name, both.name}}
	for _, at := range r.Loads {
		row := []any{at}
		for _, f := range []*figure{rate, server, postgres, both} {
			var medians [2]float64
			for s := range medians {
				var all []float64
				for _, p := range r.Pairs {
					if p.At == at {
						all = append(all, f.of(p.Points[s]))
					}
				}
				if len(all) > 0 {
					medians[s] = of(all).Median
				}
			}
			ratio := "–"
			if ratios := r.ratios(at, f); len(ratios) > 0 {
				ratio = fmt.Sprintf("%.2f", of(ratios).Median)
			}
			row = append(row, fmt.Sprintf("%.*f→%.*f (×%s)", f.digits, medians[base], f.digits, medians[head], ratio))
		}
		t.Add(row...)
	}
	return t
}

// Write writes all figures for a terminal, and which goals are met if Base is Recorded.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "base is %.12s, head is %s; in turns on %s\n"+
		"median (least to most) of %d runs of %s; processor time is an order's, until Postgres has every record\n",
		r.Base, r.Head, r.Machine, r.Rounds, r.Duration)
	r.Table().Write(w)
	if r.Base != Recorded {
		return
	}
	fmt.Fprintln(w, "\ngoals, for the median of head/base; a missed goal does not fail the run")
	for _, g := range goals {
		fmt.Fprintf(w, "%s, %s: at most %.2f: %s\n", g.at, g.figure.name, g.most, verdict(r.ratios(g.at, g.figure), g.most))
	}
}

// verdict describes whether the median of ratios meets a goal, a maximum.
func verdict(ratios []float64, most float64) string {
	if len(ratios) == 0 {
		return "not measured"
	}
	median := of(ratios).Median
	if median <= most {
		return fmt.Sprintf("met with %.2f", median)
	}
	return fmt.Sprintf("missed with %.2f", median)
}

// of returns the spread of figures, of which there must be at least one.
func of(figures []float64) load.Spread {
	return load.SpreadOf(figures, func(f float64) float64 { return f })
}
