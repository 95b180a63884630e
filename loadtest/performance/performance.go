// Package performance judges an exchange by what it is to reach: ratios of figures
// that are measured in one go on one machine, round after round.
package performance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"outcry/internal/load/scenario"
	"outcry/loadtest/harness"
	"outcry/loadtest/sweep"
)

// halfClients carry the frames at half of capacity.
const halfClients = 64

// Report is what all rounds came to.
type Report struct {
	Command  string    `json:"command"`
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"`
	Revision string    `json:"revision"`
	Machine  string    `json:"machine"`
	Rounds   []round   `json:"rounds"`
}

// Options say how much is measured.
type Options struct {
	Command string
	Dir     string // for the data of the runs, which is removed
	Rounds  int
	Quick   bool      // shorter and smaller: to see that everything works, not for figures
	Out     io.Writer // is told of each measurement
}

// Run makes the rounds. An error ends it; the rounds before are in the report.
func Run(ctx context.Context, programs sweep.Programs, o Options) (*Report, error) {
	root, err := harness.Root(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Command: o.Command, Began: time.Now().UTC(), Revision: harness.Revision(ctx, root), Machine: harness.Machine()}
	measure := func(points round, x run, n int) error {
		p, err := o.measure(ctx, programs, x, n)
		if err == nil {
			points[x.name] = p
		}
		return err
	}
	for n := range o.Rounds {
		points := round{}
		for _, x := range runs {
			if err := measure(points, x, n); err != nil {
				return r, err
			}
		}
		rate := max(1, int(points[closed].Rate/2))
		last := run{half, "market", 2, func(p *scenario.Params) { market(5, halfClients, 1)(p); p.Rate = rate }}
		if err := measure(points, last, n); err != nil {
			return r, err
		}
		r.Rounds = append(r.Rounds, points)
		r.Seconds = time.Since(r.Began).Seconds()
	}
	return r, nil
}

// measure makes one measurement of round n.
func (o *Options) measure(ctx context.Context, programs sweep.Programs, x run, n int) (*sweep.Point, error) {
	s, ok := scenario.Find(x.scenario)
	if !ok {
		return nil, fmt.Errorf("performance: there is no scenario %q", x.scenario)
	}
	job := sweep.Job{Scenario: s, Params: s.Defaults, GOMAXPROCS: x.procs, Repetition: n + 1, Seed: uint64(n + 1), SyncedEcho: slices.Contains(synced, x.name)}
	x.change(&job.Params)
	if p := &job.Params; o.Quick {
		p.Duration, p.Requests, p.History, p.Idle = min(p.Duration, time.Second), min(p.Requests, 500), p.History/200, p.Idle/10
	}
	p, err := sweep.Measure(ctx, programs, o.Dir, job, sweep.Watch{})
	if err == nil {
		err = p.Failure()
	}
	if err != nil {
		return nil, fmt.Errorf("performance: %s: %w", x.name, err)
	}
	fmt.Fprintf(o.Out, "round %d  %-45s %9.0f/s  %5s of echo  p50 %7.3f ms  p99 %7.3f ms  server %5.1f µs (%.1f while sending)  Postgres %5.1f µs  client %4.1f µs  %.1f s behind\n", n+1, x.name,
		p.Rate, sweep.ShareText(p.Params, p.EchoShare), p.P50, p.P99, p.ServerCPU, p.ServerCPUSending, p.PostgresCPU, p.ClientCPU, p.CatchUp)
	return p, nil
}

// Verdict is one goal, judged by the median of all rounds.
type Verdict struct {
	Goal             string
	Median, Min, Max float64
	Bound            float64
	AtMost           bool // Bound is the most that it may be, not the least that it must be
	Unit             string
	Met              bool
}

// Verdicts judges every goal. There must be a round.
func (r *Report) Verdicts() (all []Verdict) {
	for i := range goals {
		g := &goals[i]
		var figures []float64
		for _, points := range r.Rounds {
			figures = append(figures, g.figure(points))
		}
		slices.Sort(figures)
		n := len(figures)
		v := Verdict{Goal: g.text, Median: (figures[(n-1)/2] + figures[n/2]) / 2, Min: figures[0], Max: figures[n-1], Bound: g.bound, AtMost: g.most, Unit: g.unit}
		v.Met = g.met(v.Median)
		all = append(all, v)
	}
	return all
}

// texts returns a verdict as the columns of a table.
func (v *Verdict) texts() []string {
	demand, met := "at least ", "yes"
	if v.AtMost {
		demand = "at most "
	}
	if !v.Met {
		met = "NO"
	}
	return []string{v.Goal, demand + figure(v.Bound, v.Unit), figure(v.Median, v.Unit), figure(v.Min, v.Unit) + " to " + figure(v.Max, v.Unit), met}
}

// figure writes a number with as many digits as it is good for.
func figure(f float64, unit string) string {
	switch {
	case f >= 1000:
		return sweep.Grouped(f) + unit
	case unit == "":
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
}

// WriteTable writes the verdicts for people.
func (r *Report) WriteTable(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, "\ngoal\tdemanded\tmedian\tleast to most\tmet")
	for _, v := range r.Verdicts() {
		fmt.Fprintln(t, strings.Join(v.texts(), "\t"))
	}
}

// Tables returns the tables of docs/PERFORMANCE.md by their names.
func (r *Report) Tables() map[string]string {
	var judged, made strings.Builder
	judged.WriteString("| goal | demanded | median | least to most | met |\n| --- | --- | --- | --- | --- |\n")
	for _, v := range r.Verdicts() {
		judged.WriteString("| " + strings.Join(v.texts(), " | ") + " |\n")
	}
	made.WriteString("| run | round | requests/s | of echo (with a journal) | p50 ms | p99 ms | longest ms | echo's p99 ms | µs of server (while sending), Postgres, client | s behind |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, name := range append(names(), half) {
		for n, points := range r.Rounds {
			p := points[name]
			share := sweep.ShareText(p.Params, p.EchoShare)
			if p.SyncedEchoRate > 0 {
				share += " (" + sweep.ShareText(p.Params, p.SyncedEchoShare) + ")"
			}
			fmt.Fprintf(&made, "| %s | %d | %s | %s | %.2f | %.2f | %.1f | %.2f | %.1f (%.1f), %.1f, %.1f | %.1f |\n", name, n+1, figure(p.Rate, ""), share,
				p.P50, p.P99, p.Max, p.EchoP99, p.ServerCPU, p.ServerCPUSending, p.PostgresCPU, p.ClientCPU, p.CatchUp)
		}
	}
	about := fmt.Sprintf("%d rounds on %s, with client, server and Postgres on it; %s, revision %s; %.0f minutes in all.\n\n    %s\n",
		len(r.Rounds), r.Machine, r.Began.Format("2006-01-02"), r.Revision, r.Seconds/60, r.Command)
	return map[string]string{"about": about, "goals": judged.String(), "runs": made.String()}
}

func names() (all []string) {
	for _, x := range runs {
		all = append(all, x.name)
	}
	return all
}

// WriteJSON writes the whole report. The error is w's.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}
