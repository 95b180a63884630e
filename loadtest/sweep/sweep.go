package sweep

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"outcry/internal/load/scenario"
	"outcry/loadtest/harness"
)

// Plan is what a sweep measures: every job at every number of processors, so many
// times.
type Plan struct {
	Jobs        []Job
	GOMAXPROCS  []int
	Repetitions int
	Seed        uint64
}

// Report is a whole sweep.
type Report struct {
	Command     string    `json:"command"`
	Began       time.Time `json:"began"`
	Seconds     float64   `json:"seconds"`
	Revision    string    `json:"revision"`
	Machine     string    `json:"machine"`
	Repetitions int       `json:"repetitions"`
	Points      []*Point  `json:"points"`
}

// Order returns the measurements in the order in which they are made: a whole
// round of all of them before any is repeated, so that a machine that gets slower
// or faster meanwhile hits all alike; and within a round the numbers of processors
// in turn, each round beginning with another one.
func (p Plan) Order() (jobs []Job) {
	for rep := range p.Repetitions {
		for _, job := range p.Jobs {
			for i := range p.GOMAXPROCS {
				j := job
				j.GOMAXPROCS = p.GOMAXPROCS[(i+rep)%len(p.GOMAXPROCS)]
				j.Repetition, j.Seed = rep+1, p.Seed+uint64(rep)
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// Run makes all measurements, and tells each on out. An error ends it; what was
// measured before is in the report.
func (p Plan) Run(ctx context.Context, programs Programs, dir, command string, out io.Writer) (*Report, error) {
	root, err := harness.Root(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Command: command, Began: time.Now().UTC(), Revision: harness.Revision(ctx, root), Machine: harness.Machine(), Repetitions: p.Repetitions}
	jobs := p.Order()
	for n, job := range jobs {
		point, err := Measure(ctx, programs, dir, job, Watch{})
		if err != nil {
			return r, fmt.Errorf("%s at GOMAXPROCS=%d: %w", job.Scenario.Name, job.GOMAXPROCS, err)
		}
		r.Points = append(r.Points, point)
		r.Seconds = time.Since(r.Began).Seconds()
		verdict := "agrees"
		if !point.Agrees {
			verdict = "DISAGREES: " + point.Differs
		}
		if point.Errors > 0 {
			verdict += fmt.Sprintf("; %d UNEXPECTED REPLIES: %s", point.Errors, point.Example)
		}
		fmt.Fprintf(out, "%3d/%d  %-16s %-24s procs %d  %9.0f req/s  p50 %8.3f ms  p99 %8.3f ms  %5s of echo  %s\n", n+1, len(jobs),
			point.Scenario, Variant(point.Params), point.GOMAXPROCS, point.Rate, point.P50, point.P99, ShareText(point.Params, point.EchoShare), verdict)
	}
	return r, nil
}

// Failures tells of the runs in which an exchange held something else than clients
// were told, or answered something that the scenario does not expect.
func (r *Report) Failures() (all []string) {
	for _, p := range r.Points {
		if err := p.Failure(); err != nil {
			all = append(all, fmt.Sprintf("%s %s at GOMAXPROCS=%d: %v", p.Scenario, Variant(p.Params), p.GOMAXPROCS, err))
		}
	}
	return all
}

// Failure returns why the measurement is a failed one, nil where it is not.
func (p *Point) Failure() error {
	switch {
	case !p.Agrees:
		return fmt.Errorf("the exchange does not hold what clients were told: %s", p.Differs)
	case p.Errors > 0:
		return fmt.Errorf("%d unexpected replies, for example: %s", p.Errors, p.Example)
	}
	return nil
}

// Variant tells apart the jobs of one scenario, by what they differ in.
func Variant(p scenario.Params) string {
	text := fmt.Sprintf("%d clients", p.Clients)
	if p.Clients == 1 {
		text = "1 client"
	}
	if p.Depth > 1 {
		text += fmt.Sprintf(" × %d", p.Depth)
	}
	if p.Rate > 0 {
		text += fmt.Sprintf(", %d/s", p.Rate)
	}
	if p.History > 0 {
		text += fmt.Sprintf(", after %d orders", p.History)
	}
	if p.Idle > 0 {
		text += fmt.Sprintf(", %d idle", p.Idle)
	}
	if p.Readers > 0 {
		text += fmt.Sprintf(", %d readers", p.Readers)
	}
	if p.Paused {
		text += ", Postgres paused"
	}
	return text
}

// Cell is a scenario's variant at one number of processors, over all repetitions.
type Cell struct {
	Scenario, Variant string
	GOMAXPROCS        int
	Points            []*Point
}

// Spread is a median with the least and the most.
type Spread struct{ Median, Min, Max float64 }

// Of returns the spread of a figure over the repetitions.
func (c Cell) Of(figure func(*Point) float64) Spread {
	var all []float64
	for _, p := range c.Points {
		all = append(all, figure(p))
	}
	slices.Sort(all)
	n := len(all)
	median := all[n/2]
	if n%2 == 0 {
		median = (all[n/2-1] + all[n/2]) / 2
	}
	return Spread{median, all[0], all[n-1]}
}

// Cells groups the points, in the order in which they first came, fewest
// processors first.
func (r *Report) Cells() (cells []Cell) {
	for _, p := range r.Points {
		v := Variant(p.Params)
		at := slices.IndexFunc(cells, func(c Cell) bool {
			return c.Scenario == p.Scenario && c.Variant == v && c.GOMAXPROCS == p.GOMAXPROCS
		})
		if at < 0 {
			at = len(cells)
			cells = append(cells, Cell{Scenario: p.Scenario, Variant: v, GOMAXPROCS: p.GOMAXPROCS})
		}
		cells[at].Points = append(cells[at].Points, p)
	}
	first := map[string]int{}
	for i, c := range cells {
		if _, ok := first[c.Scenario+c.Variant]; !ok {
			first[c.Scenario+c.Variant] = i
		}
	}
	slices.SortStableFunc(cells, func(a, b Cell) int {
		if d := first[a.Scenario+a.Variant] - first[b.Scenario+b.Variant]; d != 0 {
			return d
		}
		return a.GOMAXPROCS - b.GOMAXPROCS
	})
	return cells
}

// WriteTable writes medians with their spread, for people.
func (r *Report) WriteTable(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	fmt.Fprintln(t, "scenario\tvariant\tprocs\trequests/s\tleast to most\tspeed-up\tof echo\tp50 ms\tp99 ms\tserver µs\tPostgres µs\tclient µs\tlag\t")
	base := map[string]float64{}
	for _, c := range r.Cells() {
		rate := c.Of(func(p *Point) float64 { return p.Rate })
		key := c.Scenario + c.Variant
		if base[key] == 0 {
			base[key] = rate.Median
		}
		median := func(f func(*Point) float64) float64 { return c.Of(f).Median }
		fmt.Fprintf(t, "%s\t%s\t%d\t%.0f\t%.0f to %.0f\t%.2f\t%.2f\t%.3f\t%.3f\t%.1f\t%.1f\t%.1f\t%.0f\t\n", c.Scenario, c.Variant, c.GOMAXPROCS,
			rate.Median, rate.Min, rate.Max, rate.Median/base[key], median(func(p *Point) float64 { return p.EchoShare }),
			median(func(p *Point) float64 { return p.P50 }), median(func(p *Point) float64 { return p.P99 }),
			median(func(p *Point) float64 { return p.ServerCPU }), median(func(p *Point) float64 { return p.PostgresCPU }),
			median(func(p *Point) float64 { return p.ClientCPU }), median(func(p *Point) float64 { return p.LagEnd }))
	}
}

// WriteJSON writes the whole report. The error is w's.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// WriteCSV writes a line for each point, without timelines. The error is w's.
func (r *Report) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	float := func(f float64) string { return strconv.FormatFloat(f, 'g', 7, 64) }
	lines := [][]string{{"scenario", "variant", "gomaxprocs", "repetition", "seed", "requests", "errors", "seconds", "requests_per_second", "commands_per_second",
		"persisted_per_second", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "p99_from_sending_ms", "server_cpu_us", "postgres_cpu_us", "client_cpu_us",
		"lag_records", "catch_up_seconds", "server_bytes", "echo_requests_per_second", "echo_p50_ms", "disk_sync_ms", "agrees"}}
	for _, p := range r.Points {
		lines = append(lines, []string{p.Scenario, Variant(p.Params), strconv.Itoa(p.GOMAXPROCS), strconv.Itoa(p.Repetition), strconv.FormatUint(p.Seed, 10),
			strconv.FormatUint(p.Requests, 10), strconv.FormatUint(p.Errors, 10), float(p.Seconds), float(p.Rate), float(p.Commands),
			float(p.Persisted), float(p.P50), float(p.P90), float(p.P99), float(p.P999), float(p.Max), float(p.SentP99), float(p.ServerCPU), float(p.PostgresCPU), float(p.ClientCPU),
			float(p.LagEnd), float(p.CatchUp), strconv.FormatInt(p.ServerBytes, 10), float(p.EchoRate), float(p.EchoP50), float(p.SyncMedian), strconv.FormatBool(p.Agrees)})
	}
	if err := c.WriteAll(lines); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}
