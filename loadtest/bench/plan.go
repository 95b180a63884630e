package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"outcry/internal/load/scenario"
)

// Plan is what is measured: every job at every number of processors, so many times.
type Plan struct {
	Jobs        []Job
	GOMAXPROCS  []int // empty: as each job has it
	Repetitions int
	Seed        uint64
}

// change is how a job differs from its scenario's defaults.
type change func(*scenario.Params)

func clients(n, requests int) change {
	return func(p *scenario.Params) { p.Clients, p.Requests = n, requests }
}

// market sends for some seconds.
func market(seconds, clients, depth int) change {
	return func(p *scenario.Params) {
		p.Duration, p.Clients, p.Depth = time.Duration(seconds)*time.Second, clients, depth
	}
}

func asItIs(*scenario.Params)               {}
func requests(n int) change                 { return func(p *scenario.Params) { p.Requests = n } }
func seconds(n int) change                  { return market(n, 64, 1) }
func with(a change, b change) change        { return func(p *scenario.Params) { a(p); b(p) } }
func jobs(name string, all ...change) []Job { return jobsOf(name, "", 0, all...) }

func jobsOf(name, run string, procs int, all ...change) (jobs []Job) {
	s, ok := scenario.Find(name)
	if !ok {
		panic("bench: there is no scenario " + name)
	}
	for _, change := range all {
		p := s.Defaults
		change(&p)
		jobs = append(jobs, Job{Name: run, Scenario: s, Params: p, GOMAXPROCS: procs})
	}
	return jobs
}

// Quick returns jobs that end within two minutes.
func Quick() []Job {
	return slices.Concat(jobs("cores", requests(1500)), jobs("mix5", requests(150)), jobs("query81", requests(100)),
		jobs("market", seconds(1), market(1, 64, 16)))
}

// Full returns the jobs of the scenarios in docs/reference/BENCHMARKS.md.
func Full() []Job {
	atRate := with(market(3, 256, 1), func(p *scenario.Params) { p.Rate = 10_000 })
	return slices.Concat(jobs("cores", asItIs), jobs("burst", clients(1000, 1), clients(5000, 1), clients(10_000, 1)),
		jobs("mix5", clients(2, 1000), clients(4, 5000), clients(20, 1000), clients(50, 400), clients(200, 100)),
		jobs("populate", asItIs), jobs("populate-connect", asItIs), jobs("query10", clients(1, 4000), clients(16, 250)),
		jobs("query81", asItIs), jobs("accounts", clients(1000, 1), clients(5000, 1), clients(10_000, 1)),
		jobs("market", seconds(3), market(3, 64, 16), atRate), jobs("hot", seconds(3), market(3, 64, 16)),
		jobs("wide", seconds(3)), jobs("deep", seconds(3)))
}

// Order returns the measurements in the order in which they are made: a whole
// round of all of them before any is repeated, so that a machine that gets slower
// or faster meanwhile hits all alike; and within a round the numbers of processors
// in turn, each round beginning with another one.
func (p Plan) Order() (jobs []Job) {
	for rep := range p.Repetitions {
		for _, job := range p.Jobs {
			job.Repetition, job.Seed = rep+1, p.Seed+uint64(rep)
			if len(p.GOMAXPROCS) == 0 {
				jobs = append(jobs, job)
			}
			for i := range p.GOMAXPROCS {
				job.GOMAXPROCS = p.GOMAXPROCS[(i+rep)%len(p.GOMAXPROCS)]
				jobs = append(jobs, job)
			}
		}
	}
	return jobs
}

// Run makes all measurements, adds each to d and tells it on out. dir is for the data of
// the runs, which is removed. An error ends it; what was measured before is in d.
func (p Plan) Run(ctx context.Context, d *Data, programs Programs, dir string, watch Watch, out io.Writer) error {
	order := p.Order()
	for n, job := range order {
		if job.Name == half { // of what the same round has reached
			job.Params.Rate = max(1, int(d.rounds()[job.Repetition-1][closed].Rate/2))
		}
		point, err := Measure(ctx, programs, dir, job, watch)
		if err != nil {
			return fmt.Errorf("%s at GOMAXPROCS=%d: %w", job.Scenario.Name, job.GOMAXPROCS, err)
		}
		d.Points = append(d.Points, point)
		d.Seconds = time.Since(d.Began).Seconds()
		verdict := "agrees"
		if err := point.Failure(); err != nil {
			verdict = "FAILED: " + err.Error()
		}
		fmt.Fprintf(out, "%3d/%d  %-16s %-24s %s procs %d  %9.0f req/s  p50 %8.3f ms  p99 %8.3f ms  %5s of echo  "+
			"server %5.1f µs  Postgres %5.1f µs  client %4.1f µs  %.1f s behind  %s\n", n+1, len(order), point.Scenario,
			point.Params,
			point.Run, point.GOMAXPROCS, point.Rate, point.P50, point.P99, point.share(point.EchoShare), point.ServerCPU,
			point.PostgresCPU, point.ClientCPU, point.CatchUp, verdict)
	}
	return nil
}
