package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
)

// SoakOptions configure a soak: a long run at half of the exchange's capacity.
type SoakOptions struct {
	Duration time.Duration
	Rate     int // frames a second; 0 means half of the rate of a short run
	Seed     uint64
	Progress func(load.Progress)
	Out      io.Writer
}

// Sample is the state at one moment of a soak. Requests and latencies cover the time since the previous
// sample. Latencies count from when frames were due.
type Sample struct {
	Second float64 `json:"second"`
	load.Moment
	Resident   int64   `json:"server_resident_bytes"`
	Files      int     `json:"server_files"`
	Goroutines float64 `json:"server_goroutines"`
	OpenOrders float64 `json:"open_orders"`
	Lag        float64 `json:"lag_records"`
}

// Soak is the result of a long run: whether memory, open files and latency stay flat.
type Soak struct {
	Capacity float64  `json:"capacity_per_second"` // rate of the short run; 0 if the rate was given
	Rate     int      `json:"rate_per_second"`
	Requests uint64   `json:"requests"`
	Errors   uint64   `json:"errors"`
	Example  string   `json:"error_example,omitempty"`
	Samples  []Sample `json:"samples"`
	Findings []string `json:"findings"` // figures that did not stay flat or are inconsistent; empty if the soak passed
}

// soakScenario is the scenario of a soak, whose books must not grow.
const soakScenario = "steady"

const (
	samplesMost  = 60
	sampleLeast  = time.Second
	capacityTime = 5 * time.Second

	// soakConnections is the number of connections: more than are in use at any time except during a stall.
	soakConnections = 256
)

// soaking is a running soak.
type soaking struct {
	SoakOptions
	*harness.Exchange
	*Soak
	market scenario.Scenario
	trade  *scenario.Run
}

// RunSoak soaks an exchange whose data is in dir. The result lists the figures that did not stay flat; the error names
// the operation that failed.
func RunSoak(ctx context.Context, programs Programs, dir string, o SoakOptions) (*Soak, error) {
	e, err := harness.StartExchange(ctx, dir, harness.ServerOptions{Program: programs.Server})
	if err != nil {
		return nil, err
	}
	defer e.End()
	s := &soaking{SoakOptions: o, Exchange: e, Soak: &Soak{Findings: []string{}}}
	s.market, _ = scenario.Find(soakScenario)
	s.trade = &scenario.Run{Addrs: []string{e.XML}, Seed: o.Seed, Params: s.market.Defaults}
	if err := s.market.Prepare(ctx, s.trade); err != nil {
		return nil, err
	}
	if s.Soak.Rate = o.Rate; o.Rate == 0 { // half of the rate that the connections reach in the closed model
		s.trade.Params.Duration = capacityTime
		result, err := s.market.Measure(ctx, s.trade)
		if err = errors.Join(err, s.CatchUp(ctx, catchUpTimeout)); err != nil {
			return nil, err
		}
		s.Capacity, s.Soak.Rate = result.Rate(), max(int(result.Rate()/2), 1)
	}
	return s.Soak, s.run(ctx)
}

// run trades and judges the samples.
func (s *soaking) run(ctx context.Context) error {
	fmt.Fprintf(s.Out, "%d frames a second for %s\n", s.Soak.Rate, s.Duration)
	p := &s.trade.Params
	p.Clients, p.Rate, p.Duration = soakConnections, s.Soak.Rate, s.Duration
	s.trade.Progress = s.Progress
	every, begun := max(s.Duration/samplesMost, sampleLeast).Truncate(time.Second), time.Now() // whole seconds
	stop := harness.Every(every, func() { s.sample(ctx, begun) })
	result, err := s.market.Measure(ctx, s.trade)
	stop()
	if err != nil {
		return err
	}
	if s.Requests, s.Errors = result.Requests, result.Errors; s.Errors > 0 {
		s.Example = result.Examples[0]
	}
	for i, m := range load.Moments(result.Timeline, int(every/time.Second)) {
		if i < len(s.Samples) {
			s.Samples[i].Moment = m
		}
	}
	if err := s.CatchUp(ctx, catchUpTimeout); err != nil {
		return err
	}
	s.Findings = append(s.Findings, s.judge()...)
	if err := agree(ctx, s.Exchange, s.trade.Answers()); err != nil {
		s.Findings = append(s.Findings, err.Error())
	}
	return nil
}

// sample adds a sample, unless the run has only just begun or the server has ended. If the server has ended, the run
// fails with an error anyway.
func (s *soaking) sample(ctx context.Context, begun time.Time) {
	if time.Since(begun) < sampleLeast {
		return
	}
	used, err := s.Usage()
	x := Sample{Second: time.Since(begun).Seconds(), Resident: used.Resident, Files: used.Files}
	for name, to := range map[string]*float64{"go_goroutines": &x.Goroutines, "outcry_open_orders": &x.OpenOrders,
		"outcry_postgres_lag_records": &x.Lag} {
		var failed error
		*to, failed = s.Metric(ctx, name)
		err = errors.Join(err, failed)
	}
	if err == nil {
		s.Samples = append(s.Samples, x)
	}
}

// Factors and amounts by which the last third of a run may exceed the middle third.
const (
	memoryGrowth = 1.2
	memorySlack  = 16 << 20
	filesSlack   = 8
	latencySlack = 2.0

	// In a shorter run, the latency depends mostly on the machine's other work.
	latencySeconds = 120
)

// judge compares the last third of the samples with the middle third and returns the figures that did not stay flat.
// The first third is ignored, because caches fill during it. Latency is judged in runs of two minutes or more.
func (s *Soak) judge() (findings []string) {
	n := len(s.Samples)
	if n < 6 {
		return []string{fmt.Sprintf("%d samples are too few to report whether anything stays flat", n)}
	}
	before, after := s.Samples[n/3:2*n/3], s.Samples[2*n/3:]
	compare := func(what string, figure func(Sample) float64, growth, slack float64) {
		was, is := load.SpreadOf(before, figure).Median, load.SpreadOf(after, figure).Median
		if is > was*growth+slack {
			findings = append(findings, fmt.Sprintf("%s did not stay flat: %.4g in the second third of the run, %.4g in the "+
				"last",
				what, was, is))
		}
	}
	compare("the server's memory", func(x Sample) float64 { return float64(x.Resident) }, memoryGrowth, memorySlack)
	compare("the number of open files", func(x Sample) float64 { return float64(x.Files) }, 1, filesSlack)
	compare("the number of goroutines", func(x Sample) float64 { return x.Goroutines }, 1, soakConnections)
	if s.Samples[n-1].Second >= latencySeconds {
		compare("the median of p99", func(x Sample) float64 { return x.P99 }, latencySlack, 1)
	}
	if s.Errors > 0 {
		findings = append(findings, fmt.Sprintf("%d unexpected replies, for example: %s", s.Errors, s.Example))
	}
	return findings
}

// samples splits the run into parts, and returns a table of the last sample of each. If there are enough samples, there
// are at least the given number of parts.
func (s *Soak) samples(parts int) load.Table {
	t := load.Table{{"second", "p50 ms", "p99 ms", "longest ms", "server MiB", "files", "goroutines", "open orders",
		"Postgres behind"}}
	step := max(len(s.Samples)/parts, 1)
	for i := step - 1; i < len(s.Samples); i += step {
		x := s.Samples[i]
		t.Add(number(x.Second, 0), number(x.P50, 2), number(x.P99, 2), number(x.Max, 1), number(mega(x.Resident), 0), x.Files,
			x.Goroutines, grouped(x.OpenOrders), grouped(x.Lag))
	}
	return t
}

// Write writes about a dozen of the samples for a terminal.
func (s *Soak) Write(w io.Writer) { s.samples(12).Write(w) }
