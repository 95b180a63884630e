package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
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

// jobs returns those of scenarios with flags, as "market -clients 64 -duration 3s". What is
// not given is as the scenario has it. A text that says something else panics.
func jobs(texts ...string) (all []Job) {
	for _, text := range texts {
		words := strings.Fields(text)
		s, ok := scenario.Find(words[0])
		if !ok {
			panic("bench: there is no scenario " + words[0])
		}
		job := Job{Scenario: s, Params: s.Defaults}
		flags := flag.NewFlagSet(text, flag.PanicOnError)
		s.Flags(flags, &job.Params)
		_ = flags.Parse(words[1:]) // it panics
		all = append(all, job)
	}
	return all
}

// Quick returns jobs that end within two minutes.
func Quick() []Job {
	return jobs("cores -requests 1500", "mix5 -requests 150", "query81 -requests 100",
		"market -duration 1s", "market -duration 1s -depth 16")
}

// Full returns the jobs of the scenarios in docs/reference/BENCHMARKS.md.
func Full() []Job {
	return jobs("cores", "burst -clients 1000", "burst -clients 5000", "burst -clients 10000",
		"mix5 -clients 2", "mix5 -clients 4 -requests 5000", "mix5 -clients 20", "mix5 -clients 50 -requests 400",
		"mix5 -clients 200 -requests 100", "populate", "populate-connect", "query10 -clients 1 -requests 4000", "query10",
		"query81", "accounts -clients 1000", "accounts -clients 5000", "accounts -clients 10000",
		"market -duration 3s", "market -duration 3s -depth 16", "market -duration 3s -clients 256 -rate 10000",
		"hot -duration 3s", "hot -duration 3s -depth 16", "wide -duration 3s", "deep -duration 3s")
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
func (p Plan) Run(ctx context.Context, d *Data, programs Programs, dir string, out io.Writer) error {
	order := p.Order()
	d.Repetitions = p.Repetitions
	for n, job := range order {
		if job.Name == half { // of what the same round has reached
			job.Params.Rate = max(1, int(d.rounds()[job.Repetition-1][closed].Rate/2))
		}
		point, err := Measure(ctx, programs, dir, job)
		if err != nil {
			return fmt.Errorf("%s at GOMAXPROCS=%d: %w", job.Scenario.Name, job.GOMAXPROCS, err)
		}
		d.Points = append(d.Points, point)
		d.Seconds = time.Since(d.Began).Seconds()
		verdict := "agrees"
		if err := point.Failure(); err != nil {
			verdict = "FAILED: " + err.Error()
		}
		fmt.Fprintf(out, "%3d/%d  %-16s %-24s %s procs %d  %9.0f req/s  p50 %8.3f ms  p99 %8.3f ms  longest %6.1f ms  "+
			"%5s of echo  server %5.1f µs  Postgres %5.1f µs  client %4.1f µs  %.1f s behind  %s\n", n+1, len(order),
			point.Scenario, point.Params, point.Run, point.GOMAXPROCS, point.Rate, point.P50, point.P99, point.Max,
			point.shares(), point.ServerCPU, point.PostgresCPU, point.ClientCPU, point.CatchUp, verdict)
	}
	return nil
}
