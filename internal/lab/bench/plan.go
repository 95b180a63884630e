package bench

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load/scenario"
)

// Plan is a set of measurements: every job at every number of processors, several times.
type Plan struct {
	Jobs        []Job
	GOMAXPROCS  []int // empty means each job's own
	Repetitions int
	Seed        uint64

	// Shared makes jobs of one repetition with the same GOMAXPROCS share an exchange, on which each has
	// its own accounts and symbols. It also limits the server to GOMAXPROCS processors, if the machine
	// has as many, and skips measurements that the data already has for this revision.
	Shared bool
	Echo   time.Duration // how long an echo server is measured if Shared is set
	Within time.Duration // no measurement begins after this time; 0 means no limit
	Save   func() error  // called after each measurement; may be nil
}

// jobs parses jobs written as a scenario with flags, such as "market -clients 64 -duration 3s".
// Parameters that are not given have the scenario's values. It panics on malformed text.
func jobs(texts ...string) (all []Job) {
	for _, text := range texts {
		words := strings.Fields(text)
		s, ok := scenario.Find(words[0])
		if !ok {
			panic("bench: unknown scenario " + words[0])
		}
		job := Job{Scenario: s, Params: s.Defaults}
		flags := flag.NewFlagSet(text, flag.PanicOnError)
		s.Flags(flags, &job.Params)
		_ = flags.Parse(words[1:]) // panics on an error
		all = append(all, job)
	}
	return all
}

// Quick returns jobs that take less than two minutes.
func Quick() []Job {
	return jobs("cores -requests 1500", "mix5 -requests 150", "query81 -requests 100",
		"market -duration 1s", "market -duration 1s -depth 16")
}

// at returns jobs to be measured at the given values of GOMAXPROCS.
func at(procs []int, texts ...string) []Job {
	all := jobs(texts...)
	for i := range all {
		all[i].At = procs
	}
	return all
}

// Record returns the jobs of docs/RESULTS.md: the experiments of the earlier systems, each at its
// system's numbers of processors, and loads of our own.
func Record() []Job {
	two, powers, each := []int{2}, []int{1, 2, 4}, []int{1, 2, 3, 4}
	return slices.Concat(
		at(powers, "market -duration 1s -clients 1", "market -duration 1s", "market -duration 1s -depth 16",
			"hot -duration 1s -depth 16"),
		at(each, "cores"), at(each, "threads"),
		at(two, "burst -clients 100", "burst -clients 500", "burst -clients 1000", "burst -clients 5000",
			"burst -clients 10000"),
		at(each, "mix5 -clients 2 -requests 1000"),
		at(two, "mix5 -clients 4 -requests 500", "mix5 -clients 20", "mix5 -clients 50 -requests 40",
			"mix5 -clients 200 -requests 20"),
		at(each, "mix5-persistent -clients 2"),
		at(two, "mix5-persistent -clients 4", "mix5-persistent -clients 20 -requests 500",
			"mix5-persistent -clients 50 -requests 200", "mix5-persistent -clients 200 -requests 100"),
		at(powers, "populate"), at(two, "populate-connect"),
		at(two, "query10 -clients 1 -requests 4000", "query10 -clients 4 -requests 1000",
			"query10 -clients 4 -requests 1000 -pause 1ms", "query10"),
		at(powers, "query81"),
		at(each, "accounts -clients 1000", "accounts -clients 5000", "accounts -clients 10000"),
		at(two, "market -duration 2s -clients 256 -rate 10000"))
}

// Full returns the jobs of the scenarios in docs/reference/BENCHMARKS.md: those of Record and additional
// ones.
func Full() []Job {
	return append(Record(), at([]int{1, 2, 4}, "hot -duration 3s", "wide -duration 3s", "deep -duration 3s")...)
}

// Order returns the measurements in execution order. All jobs run once before any is repeated, so that a machine
// that becomes slower or faster affects all jobs equally. Each round begins with a different number of processors.
func (p Plan) Order() (jobs []Job) {
	for rep := range p.Repetitions {
		first := len(jobs)
		for _, job := range p.Jobs {
			job.Repetition, job.Seed = rep+1, p.Seed+uint64(rep)
			if len(p.GOMAXPROCS) == 0 {
				jobs = append(jobs, job)
			}
			for i := range p.GOMAXPROCS {
				job.GOMAXPROCS = p.GOMAXPROCS[(i+rep)%len(p.GOMAXPROCS)]
				if len(job.At) > 0 && !slices.Contains(job.At, job.GOMAXPROCS) {
					continue
				}
				if p.Shared && job.Scenario.Name != "threads" {
					job.CPUs = harness.FirstProcessors(job.GOMAXPROCS)
				}
				jobs = append(jobs, job)
			}
		}
		if p.Shared {
			slices.SortStableFunc(jobs[first:], func(a, b Job) int {
				turn := func(j Job) int { return slices.Index(p.GOMAXPROCS, j.GOMAXPROCS) - rep%len(p.GOMAXPROCS) }
				round := func(n int) int { return (n + len(p.GOMAXPROCS)) % len(p.GOMAXPROCS) }
				return cmp.Or(cmp.Compare(round(turn(a)), round(turn(b))), cmp.Compare(a.CPUs, b.CPUs))
			})
		}
	}
	return jobs
}

// Run makes all measurements, adds each to d and prints a line for it to out. The runs keep their data in dir, and Run
// removes it. Run stops at an error; d then has the measurements made so far.
func (p Plan) Run(ctx context.Context, d *Data, programs Programs, dir string, out io.Writer) error {
	order, begun := p.Order(), time.Now()
	d.Repetitions = p.Repetitions
	var x *opened
	end := func() {
		if x != nil {
			x.end()
			x = nil
		}
	}
	defer end()
	for n, job := range order {
		if p.Shared && d.has(job) {
			continue
		}
		if p.Within > 0 && time.Since(begun) > p.Within {
			fmt.Fprintf(out, "%s are over, %d of %d runs are left: repeat the command to continue\n", p.Within,
				len(order)-n, len(order))
			return nil
		}
		if job.Name == half { // relative to the result in the same round
			job.Params.Rate = max(1, int(d.rounds()[job.Repetition-1][closed].Rate/2))
		}
		var point *Point
		var err error
		if !p.Shared {
			point, err = Measure(ctx, programs, dir, job)
		} else {
			if x != nil && !x.suits(job) {
				end()
			}
			if x == nil {
				x, err = open(ctx, programs, dir, job)
			}
			if err == nil {
				point, err = x.measure(ctx, programs, job, p.Echo)
			}
		}
		if err != nil {
			return fmt.Errorf("%s at GOMAXPROCS=%d: %w", job.Scenario.Name, job.GOMAXPROCS, err)
		}
		if p.Shared {
			point.Timeline = nil // the timeline has only a second or two
		}
		d.add(point)
		printPoint(out, n, len(order), point)
		if p.Save != nil {
			if err := p.Save(); err != nil {
				return err
			}
		}
	}
	return nil
}

// printPoint writes a line about a measurement.
func printPoint(out io.Writer, n, of int, point *Point) {
	verdict := "agrees"
	if err := point.Failure(); err != nil {
		verdict = "FAILED: " + err.Error()
	}
	fmt.Fprintf(out, "%3d/%d  %-16s %-24s %s procs %d  %9.0f req/s  p50 %8.3f ms  p99 %8.3f ms  longest %6.1f ms  "+
		"%5s of echo  server %5.1f µs  Postgres %5.1f µs  client %4.1f µs  others %2.0f %%  %.1f s behind  %s\n", n+1, of,
		point.Scenario, point.Params, point.Run, point.GOMAXPROCS, point.Rate, point.P50, point.P99, point.Max,
		point.shares(), point.ServerCPU, point.PostgresCPU, point.ClientCPU, 100*point.Others, point.CatchUp, verdict)
}
