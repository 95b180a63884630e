// Package bench measures an exchange: scenarios one by one or in plans, what the goals of
// docs/reference/BENCHMARKS.md demand, a long run that has to stay flat, and growing history. Each
// measurement has a fresh exchange, stands beside an echo server that shows what the
// machine's network stack can do, and ends with the question to the exchange whether it
// holds what the clients were told. All of it goes into one file of Data; a test makes
// the tables and plots of the documents of such files, for make reference.
package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
	"outcry/internal/lab/vegeta"
)

// Job is one measurement that is to be made.
type Job struct {
	Name       string // of a goal's run; "" for others
	Scenario   scenario.Scenario
	Params     scenario.Params
	GOMAXPROCS int // of the server; 0: as it chooses
	Repetition int
	Seed       uint64
	CPUs       string // that the server alone may use, as taskset has them; "" for all
	At         []int  // values of GOMAXPROCS at which a plan measures it; nil for those of the plan
	SyncedEcho bool   // measure an echo server with a journal as well

	// What is told of the measurement while it runs. Each may be nil.
	Progress func(load.Progress)
	Hit      vegeta.Hit // of every frame that is sent at a rate
}

// Point is what one measurement came to. Times are in seconds.
type Point struct {
	Run        string          `json:"run,omitempty"` // the job's name
	Scenario   string          `json:"scenario"`
	Params     scenario.Params `json:"params"`
	GOMAXPROCS int             `json:"gomaxprocs"`
	Repetition int             `json:"repetition"`
	Seed       uint64          `json:"seed"`
	CPUs       string          `json:"cpus,omitempty"` // that the server was limited to
	Processors int             `json:"processors"`     // of the machine
	Revision   string          `json:"revision"`
	Began      time.Time       `json:"began"`
	// Others is the share of all processors that went to nobody of the run meanwhile.
	Others float64 `json:"others_cpu_share"`

	load.Summary
	Commands float64 `json:"commands_per_second"` // orders, queries, cancels and creates that were done

	ServerCPU   float64 `json:"server_cpu_us_per_request"`
	PostgresCPU float64 `json:"postgres_cpu_us_per_request"`
	ClientCPU   float64 `json:"client_cpu_us_per_request"`
	// ServerCPUSending is the server's until the last reply, without what it does for
	// Postgres afterwards.
	ServerCPUSending float64 `json:"server_cpu_us_while_sending"`

	LagEnd    float64 `json:"lag_records_at_end"`
	CatchUp   float64 `json:"catch_up_seconds"`
	Persisted float64 `json:"persisted_per_second"` // requests, until Postgres had everything

	StreamBytes float64 `json:"stream_bytes,omitempty"` // that readers of the stream received

	ServerBytes int64   `json:"server_resident_bytes"`
	EchoRate    float64 `json:"echo_requests_per_second"` // same frames, same connections
	EchoShare   float64 `json:"share_of_echo"`
	EchoP50     float64 `json:"echo_p50_ms"`
	EchoP99     float64 `json:"echo_p99_ms,omitempty"`
	// SyncedEchoRate is of an echo server with a journal, if that was measured.
	SyncedEchoRate  float64 `json:"synced_echo_requests_per_second,omitempty"`
	SyncedEchoShare float64 `json:"share_of_synced_echo,omitempty"`
	SyncMedian      float64 `json:"disk_sync_ms"`

	Agrees   bool              `json:"exchange_agrees"`
	Differs  string            `json:"differs,omitempty"`
	Refusals map[string]uint64 `json:"refusals,omitempty"` // that the scenario expects
}

const (
	catchUpTimeout = 10 * time.Minute

	// echoTime is how long the echo server is measured.
	echoTime = 1500 * time.Millisecond
)

// Programs are what a measurement runs.
type Programs struct{ Server, Loadtest string }

// Build builds them into dir.
func Build(ctx context.Context, dir string) (p Programs, err error) {
	root, err := harness.Root(ctx)
	if err != nil {
		return p, err
	}
	if p.Server, err = harness.Build(ctx, root, "./cmd/outcryd", dir); err != nil {
		return p, err
	}
	p.Loadtest, err = harness.Build(ctx, root, "./loadtest", dir)
	return p, err
}

// Measure makes one measurement in a new directory below dir. The error says what
// could not be done; an exchange that disagrees is in the Point.
func Measure(ctx context.Context, p Programs, dir string, job Job) (*Point, error) {
	x, err := open(ctx, p, dir, job)
	if err != nil {
		return nil, err
	}
	defer x.end()
	return x.measure(ctx, p, job, echoTime)
}

// opened is an exchange that is measured, and what the clients of all measurements so far were told.
type opened struct {
	*harness.Exchange
	dir        string
	procs      int
	cpus       string
	syncMedian float64
	told       scenario.Tally
	runs       int
}

// open starts an exchange for a job in a new directory below dir. The caller ends it.
func open(ctx context.Context, p Programs, dir string, job Job) (x *opened, err error) {
	x = &opened{procs: job.GOMAXPROCS, cpus: job.CPUs}
	if x.dir, err = os.MkdirTemp(dir, "run-"); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	o := harness.ServerOptions{Program: p.Server, Env: procs(job.GOMAXPROCS), CPUs: job.CPUs}
	if x.Exchange, err = harness.StartExchange(ctx, x.dir, o); err == nil {
		x.syncMedian, err = syncMedian(x.dir)
	}
	if err != nil {
		x.end()
		return nil, err
	}
	return x, nil
}

func (x *opened) end() {
	if x.Exchange != nil {
		x.End()
	}
	harness.RemoveAll(x.dir)
}

// suits reports whether a job can be measured with x.
func (x *opened) suits(job Job) bool { return x.procs == job.GOMAXPROCS && x.cpus == job.CPUs }

// idsEach is how many ids of accounts a run has that shares an exchange.
const idsEach = 20_000_000

// measure makes one measurement, behind others.
func (x *opened) measure(ctx context.Context, p Programs, job Job, echo time.Duration) (*Point, error) {
	m := &measurement{opened: x, job: job, programs: p, echoTime: echo}
	m.point.SyncMedian = x.syncMedian
	run := &scenario.Run{Addrs: []string{x.XML}, Seed: job.Seed, Params: job.Params}
	if x.runs > 0 {
		run.First, run.Tag = x.runs*idsEach, fmt.Sprintf("R%dX", x.runs)
	}
	x.runs++
	return m.run(ctx, run)
}

func procs(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{"GOMAXPROCS=" + strconv.Itoa(n)}
}

// measurement is one under way.
type measurement struct {
	*opened
	job      Job
	programs Programs
	echoTime time.Duration
	point    Point
}

func (m *measurement) run(ctx context.Context, run *scenario.Run) (*Point, error) {
	job, point := m.job, &m.point
	point.CPUs, point.Processors, point.Began = job.CPUs, runtime.NumCPU(), time.Now().UTC()
	point.Run, point.Scenario, point.Params, point.GOMAXPROCS = job.Name, job.Scenario.Name, job.Params, job.GOMAXPROCS
	point.Repetition, point.Seed = job.Repetition, job.Seed
	if err := m.prepare(ctx, run); err != nil {
		return nil, err
	}
	leave, err := run.Surround(ctx, m.HTTP)
	if err != nil {
		return nil, err
	}
	defer leave()
	before := run.Told()
	used, err := m.usage()
	if err != nil {
		return nil, err
	}
	run.Progress, run.Open = job.Progress, vegeta.Open(job.Hit)
	thaw := func() {}
	if job.Params.Paused {
		thaw = m.Postgres.Freeze()
	}
	begun := time.Now()
	result, err := job.Scenario.Measure(ctx, run)
	ended := time.Now()
	thaw()
	if err != nil {
		return nil, err
	}
	told := run.Told()
	received, err := leave()
	if err != nil {
		return nil, err
	}
	point.Summary, point.StreamBytes, point.Refusals = result.Summary(), float64(received), told.Reasons
	point.Commands = float64(told.Done()-before.Done()) / point.Seconds
	if err := m.afterwards(ctx, used, begun, ended); err != nil {
		return nil, err
	}
	m.told.Add(&told)
	m.told.IDs = told.IDs // those before are asked for already
	if err := agree(ctx, m.Exchange, m.told); err != nil {
		point.Differs = err.Error()
	}
	point.Agrees = point.Differs == ""
	return point, m.echo(ctx, result)
}

// prepare makes what is there before the run. A history that came in a minute instead of
// in weeks leaves Postgres work that it would do during the run, and what a long history
// costs could not be told from it: it is done at once.
func (m *measurement) prepare(ctx context.Context, run *scenario.Run) error {
	if err := m.job.Scenario.Prepare(ctx, run); err != nil {
		return err
	}
	if err := m.CatchUp(ctx, catchUpTimeout); err != nil || m.job.Params.History == 0 {
		return err
	}
	return m.Postgres.Tidy(ctx)
}

// afterwards takes what the run has cost: the server and Postgres do a part of it only now.
func (m *measurement) afterwards(ctx context.Context, used usage, begun, ended time.Time) error {
	p := &m.point
	sending, err := m.usage()
	if err != nil {
		return err
	}
	if p.LagEnd, err = m.Metric(ctx, "outcry_postgres_lag_records"); err != nil {
		return err
	}
	if err := m.CatchUp(ctx, catchUpTimeout); err != nil {
		return err
	}
	p.CatchUp, p.Persisted = time.Since(ended).Seconds(), float64(p.Requests)/time.Since(begun).Seconds()
	after, err := m.usage()
	if err != nil {
		return err
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(max(p.Requests, 1)) }
	p.ServerCPU, p.PostgresCPU = each(after.server-used.server), each(after.postgres-used.postgres)
	p.ClientCPU, p.ServerCPUSending = each(sending.client-used.client), each(sending.server-used.server)
	p.ServerBytes = after.resident
	ours := after.server - used.server + after.postgres - used.postgres + after.client - used.client
	p.Others = max(0, (after.all-used.all-ours).Seconds()) / (after.at.Sub(used.at).Seconds() * float64(p.Processors))
	return nil
}

// Failure returns why the measurement is a failed one, nil if it is not.
func (p *Point) Failure() error {
	switch {
	case !p.Agrees:
		return fmt.Errorf("the exchange does not hold what clients were told: %s", p.Differs)
	case p.Errors > 0:
		return fmt.Errorf("%d unexpected replies, for example: %s", p.Errors, p.Example)
	}
	return nil
}

// agree compares what an exchange's tables hold with what clients were told: how many
// orders, cancels, accounts and placements there are, and that the exchange knows a sample
// of the orders. The error names the first thing that does not agree.
func agree(ctx context.Context, e *harness.Exchange, told scenario.Tally) error {
	have, err := audit.ReadTotals(ctx, e.Postgres.DirectURL(), scenario.Asker)
	if err != nil {
		return err
	}
	for _, n := range []struct {
		have, want uint64
		of         string
	}{{have.Orders, told.Accepted, "orders"}, {have.Cancels, told.Canceled, "cancels"},
		{have.Created, told.Created, "accounts and placements"}} {
		if n.have != n.want {
			return fmt.Errorf("the tables have %d %s, clients were told of %d", n.have, n.of, n.want)
		}
	}
	return told.Verify(ctx, e.XML)
}
