// Package soak lets an exchange trade for long at half of what it can do, and looks
// whether its memory, its open files and its latency stay flat.
package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"outcry/internal/load"
	"outcry/internal/load/scenario"
	"outcry/loadtest/harness"
	"outcry/loadtest/sweep"
)

// Options say how long, and how much.
type Options struct {
	Duration time.Duration
	Rate     int // frames a second; 0: half of what a short run reaches
	Seed     uint64
	Dir      string // for the data; "" for a temporary one, removed at the end
	Progress func(load.Progress)
	Out      io.Writer
}

// Sample is what is seen at one moment.
type Sample struct {
	Second     float64 `json:"second"`
	Requests   uint64  `json:"requests"` // answered since the sample before
	P50        float64 `json:"p50_ms"`   // since the sample before, from when frames were due
	P99        float64 `json:"p99_ms"`
	Max        float64 `json:"max_ms"`
	Resident   int64   `json:"server_resident_bytes"`
	Files      int     `json:"server_files"`
	Goroutines float64 `json:"server_goroutines"`
	OpenOrders float64 `json:"open_orders"`
	Lag        float64 `json:"lag_records"`
}

// Report is what a run found.
type Report struct {
	Command  string    `json:"command"`
	Began    time.Time `json:"began"`
	Revision string    `json:"revision"`
	Machine  string    `json:"machine"`
	Capacity float64   `json:"capacity_per_second"` // what the short run reached; 0 where the rate was given
	Rate     int       `json:"rate_per_second"`
	Requests uint64    `json:"requests"`
	Errors   uint64    `json:"errors"`
	Example  string    `json:"error_example,omitempty"`
	Samples  []Sample  `json:"samples"`
	Findings []string  `json:"findings"` // what did not stay flat, or does not agree; none is a pass
}

// Scenario is the one whose flow a soak has: books must not grow by themselves.
const Scenario = "steady"

const (
	samplesMost  = 60
	sampleLeast  = time.Second
	capacityTime = 5 * time.Second
	upTimeout    = 2 * time.Minute

	// connections carry the frames: more than are ever under way, but in a stall.
	connections = 256
)

// run is one under way.
type run struct {
	Options
	pg     *harness.Postgres
	server *harness.Server
	report *Report
	market scenario.Scenario
	trade  *scenario.Run
}

// Run does one run of Scenario. What did not stay flat is in the report;
// the error says what could not be done.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &run{Options: o}
	root, err := harness.Root(ctx)
	if err != nil {
		return nil, err
	}
	r.report = &Report{Command: fmt.Sprintf("go run ./loadtest soak -duration %s -rate %d -seed %d", o.Duration, o.Rate, o.Seed),
		Began: time.Now().UTC(), Revision: harness.Revision(ctx, root), Machine: harness.Machine(), Findings: []string{}}
	if o.Dir == "" {
		if r.Dir, err = os.MkdirTemp("", "outcry-soak-"); err != nil {
			return nil, fmt.Errorf("soak: %w", err)
		}
		defer harness.RemoveAll(r.Dir)
	}
	program, err := harness.Build(ctx, root, "./cmd/outcryd", r.Dir)
	if err != nil {
		return nil, err
	}
	if r.pg, err = harness.StartPostgres(ctx, r.Dir); err != nil {
		return nil, err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), upTimeout)
		defer cancel()
		_ = r.pg.Stop(stopping) // nothing of it is kept
	}()
	if r.server, err = harness.Launch(harness.ServerOptions{Program: program, Data: filepath.Join(r.Dir, "data"), DatabaseURL: r.pg.DirectURL()}); err != nil {
		return nil, err
	}
	defer r.server.Kill()
	up, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if err := r.server.WaitReady(up); err != nil {
		return nil, err
	}
	return r.report, r.soak(ctx)
}

// soak prepares, finds the capacity, trades, and judges.
func (r *run) soak(ctx context.Context) error {
	r.market, _ = scenario.Find(Scenario)
	p := r.market.Defaults
	r.trade = &scenario.Run{Addrs: []string{r.server.XML}, Seed: r.Seed, Params: p}
	if err := r.market.Prepare(ctx, r.trade); err != nil {
		return err
	}
	if r.Rate == 0 {
		if err := r.capacity(ctx); err != nil {
			return err
		}
	}
	r.report.Rate = r.Rate
	fmt.Fprintf(r.Out, "%d frames a second for %s\n", r.Rate, r.Duration)
	r.trade.Params.Clients, r.trade.Params.Rate, r.trade.Params.Duration = connections, r.Rate, r.Duration
	r.trade.Progress = r.Progress
	stop := make(chan struct{})
	var watching sync.WaitGroup
	every := max(r.Duration/samplesMost, sampleLeast).Truncate(time.Second) // the timeline has whole seconds
	watching.Go(func() { r.watch(ctx, every, stop) })
	result, err := r.market.Measure(ctx, r.trade)
	close(stop)
	watching.Wait()
	if err != nil {
		return err
	}
	r.report.Requests, r.report.Errors = result.Requests, result.Errors
	if result.Errors > 0 {
		r.report.Example = result.Examples[0]
	}
	r.latencies(result.Timeline, every)
	if err := sweep.CatchUp(ctx, r.server); err != nil {
		return err
	}
	r.report.Findings = append(r.report.Findings, r.report.judge()...)
	if err := sweep.Agree(ctx, r.server, r.pg, r.trade.Told()); err != nil {
		r.report.Findings = append(r.report.Findings, err.Error())
	}
	return nil
}

// capacity sets the rate to half of what the exchange does over the connections
// that the scenario has, one frame after another.
func (r *run) capacity(ctx context.Context) error {
	r.trade.Params.Duration = capacityTime
	result, err := r.market.Measure(ctx, r.trade)
	if err != nil {
		return err
	}
	r.report.Capacity = result.Rate()
	r.Rate = max(int(result.Rate()/2), 1)
	return sweep.CatchUp(ctx, r.server)
}

// watch takes samples.
func (r *run) watch(ctx context.Context, every time.Duration, stop <-chan struct{}) {
	begun, tick := time.Now(), time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		used, err := r.server.Usage()
		if err != nil {
			return // the server is gone, and the run ends with an error
		}
		s := Sample{Second: time.Since(begun).Seconds(), Resident: used.Resident, Files: used.Files}
		for name, to := range map[string]*float64{"go_goroutines": &s.Goroutines, "outcry_open_orders": &s.OpenOrders, "outcry_postgres_lag_records": &s.Lag} {
			*to, _ = r.server.Metric(ctx, name) // likewise
		}
		r.report.Samples = append(r.report.Samples, s)
	}
}

// latencies puts what clients saw into the samples.
func (r *run) latencies(timeline []load.Second, every time.Duration) {
	seconds := int(every.Round(time.Second) / time.Second)
	for i := range r.report.Samples {
		from := min(i*seconds, len(timeline))
		part := timeline[from:min(from+seconds, len(timeline))]
		if len(part) == 0 {
			continue
		}
		sum, s := load.Merge(part), &r.report.Samples[i]
		s.Requests = sum.Requests
		s.P50, s.P99, s.Max = sum.Millis(0.5), sum.Millis(0.99), sum.Millis(1)
	}
}

// How much more the last third of a run may have than the second one.
const (
	memoryGrowth = 1.2
	memorySlack  = 16 << 20
	filesSlack   = 8
	latencySlack = 2.0

	// Of a shorter run latency tells how busy the machine was otherwise.
	latencySeconds = 120
)

// judge tells what did not stay flat: the last third of the samples against the
// second one. The first is left out: caches fill then. Latency counts from two
// minutes on.
func (r *Report) judge() (findings []string) {
	n := len(r.Samples)
	if n < 6 {
		return []string{fmt.Sprintf("%d samples are too few to report whether anything stays flat", n)}
	}
	before, after := r.Samples[n/3:2*n/3], r.Samples[2*n/3:]
	compare := func(what string, figure func(Sample) float64, growth, slack float64) {
		was, is := median(before, figure), median(after, figure)
		if is > was*growth+slack {
			findings = append(findings, fmt.Sprintf("%s did not stay flat: %.4g in the second third of the run, %.4g in the last", what, was, is))
		}
	}
	compare("the server's memory", func(s Sample) float64 { return float64(s.Resident) }, memoryGrowth, memorySlack)
	compare("the number of open files", func(s Sample) float64 { return float64(s.Files) }, 1, filesSlack)
	compare("the number of goroutines", func(s Sample) float64 { return s.Goroutines }, 1, connections)
	if r.Samples[n-1].Second >= latencySeconds {
		compare("the median of p99", func(s Sample) float64 { return s.P99 }, latencySlack, 1)
	}
	if r.Errors > 0 {
		findings = append(findings, fmt.Sprintf("%d unexpected replies, for example: %s", r.Errors, r.Example))
	}
	return findings
}

func median(samples []Sample, figure func(Sample) float64) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, figure(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// WriteJSON writes the report. The error is w's.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
