// Package bench measures an exchange: single scenarios, plans of scenarios, the goals of
// docs/reference/BENCHMARKS.md, a long run that must stay flat, and a growing history. Each measurement
// uses a fresh exchange and an echo server that shows what the machine's network stack can do, and ends
// with a check that the exchange's data agree with its answers. The results are saved in a file of Data.
// A test makes the tables and plots of the documents from such files, for make reference.
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

// Job is one measurement to make.
type Job struct {
	Name       string // name of a goal's run, or ""
	Scenario   scenario.Scenario
	Params     scenario.Params
	GOMAXPROCS int // of the server; 0 means the server's default
	Repetition int
	Seed       uint64
	CPUs       string // processors for the server alone, in the form of taskset; "" means all
	At         []int  // values of GOMAXPROCS at which a plan measures the job; nil means the plan's
	SyncedEcho bool   // also measure an echo server with a journal

	// These functions, if not nil, are called during the measurement.
	Progress func(load.Progress)
	Hit      vegeta.Hit // called for each frame sent at a rate
}

// Point is the result of one measurement. Times are in seconds.
type Point struct {
	Run        string          `json:"run,omitempty"` // the job's name
	Scenario   string          `json:"scenario"`
	Params     scenario.Params `json:"params"`
	GOMAXPROCS int             `json:"gomaxprocs"`
	Repetition int             `json:"repetition"`
	Seed       uint64          `json:"seed"`
	CPUs       string          `json:"cpus,omitempty"` // processors that the server was limited to
	Processors int             `json:"processors"`     // number of processors of the machine
	Revision   string          `json:"revision"`
	Began      time.Time       `json:"began"`
	// Others is the share of all processor time used by processes outside the run.
	Others float64 `json:"others_cpu_share"`

	load.Summary
	Commands float64 `json:"commands_per_second"` // orders, queries, cancels and creates that succeeded

	ServerCPU   float64 `json:"server_cpu_us_per_request"`
	PostgresCPU float64 `json:"postgres_cpu_us_per_request"`
	ClientCPU   float64 `json:"client_cpu_us_per_request"`
	// ServerCPUSending is the server's processor time until the last reply, without its later work for
	// Postgres.
	ServerCPUSending float64 `json:"server_cpu_us_while_sending"`

	LagEnd    float64 `json:"lag_records_at_end"`
	CatchUp   float64 `json:"catch_up_seconds"`
	Persisted float64 `json:"persisted_per_second"` // requests a second, measured until Postgres had every record

	StreamBytes float64 `json:"stream_bytes,omitempty"` // received by readers of the stream

	ServerBytes int64   `json:"server_resident_bytes"`
	EchoRate    float64 `json:"echo_requests_per_second"` // for equally long frames, over as many connections
	EchoShare   float64 `json:"share_of_echo"`
	EchoP50     float64 `json:"echo_p50_ms"`
	EchoP99     float64 `json:"echo_p99_ms,omitempty"`
	// SyncedEchoRate is the rate of an echo server with a journal, if measured.
	SyncedEchoRate  float64 `json:"synced_echo_requests_per_second,omitempty"`
	SyncedEchoShare float64 `json:"share_of_synced_echo,omitempty"`
	SyncMedian      float64 `json:"disk_sync_ms"`

	Agrees   bool              `json:"exchange_agrees"`
	Differs  string            `json:"differs,omitempty"`
	Refusals map[string]uint64 `json:"refusals,omitempty"` // rejections that the scenario expects
}

const (
	catchUpTimeout = 10 * time.Minute

	// echoTime is how long the echo server is measured.
	echoTime = 1500 * time.Millisecond
)

// Programs are the paths of the programs that a measurement runs.
type Programs struct{ Server, Loadtest string }

// Build builds the programs into dir.
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

// Measure makes one measurement in a new directory below dir. The error says which operation failed. If
// the exchange's data differ from its answers, the Point says so.
func Measure(ctx context.Context, p Programs, dir string, job Job) (*Point, error) {
	x, err := open(ctx, p, dir, job)
	if err != nil {
		return nil, err
	}
	defer x.end()
	return x.measure(ctx, p, job, echoTime)
}

// opened is a running exchange, with the answers to the clients of all measurements so far.
type opened struct {
	*harness.Exchange
	dir        string
	procs      int
	cpus       string
	syncMedian float64
	answers    scenario.Tally
	runs       int
}

// open starts an exchange for a job in a new directory below dir. The caller ends the exchange.
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

// suits reports whether x has the job's settings, so that it can be used for the job.
func (x *opened) suits(job Job) bool { return x.procs == job.GOMAXPROCS && x.cpus == job.CPUs }

// idsEach is the size of the range of account ids for each run on a shared exchange.
const idsEach = 20_000_000

// measure makes one measurement. Other measurements may have been made on the same exchange.
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

// measurement is a measurement in progress.
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
	before := run.Answers()
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
	answers := run.Answers()
	received, err := leave()
	if err != nil {
		return nil, err
	}
	point.Summary, point.StreamBytes, point.Refusals = result.Summary(), float64(received), answers.Reasons
	point.Commands = float64(answers.Done()-before.Done()) / point.Seconds
	if err := m.afterwards(ctx, used, begun, ended); err != nil {
		return nil, err
	}
	m.answers.Add(&answers)
	m.answers.IDs = answers.IDs // the ids of earlier runs were checked already
	if err := agree(ctx, m.Exchange, m.answers); err != nil {
		point.Differs = err.Error()
	}
	point.Agrees = point.Differs == ""
	return point, m.echo(ctx, result)
}

// prepare makes what must exist before the run. A history made in a minute instead of weeks leaves background work
// in Postgres, which would otherwise happen during the run and hide the cost of a long history. So prepare makes
// Postgres do this work before the run.
func (m *measurement) prepare(ctx context.Context, run *scenario.Run) error {
	if err := m.job.Scenario.Prepare(ctx, run); err != nil {
		return err
	}
	if err := m.CatchUp(ctx, catchUpTimeout); err != nil || m.job.Params.History == 0 {
		return err
	}
	return m.Postgres.Tidy(ctx)
}

// afterwards records the cost of the run, including what the server and Postgres do only after the last
// reply.
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

// Failure returns why the measurement failed, or nil.
func (p *Point) Failure() error {
	switch {
	case !p.Agrees:
		return fmt.Errorf("the exchange's data differ from its answers: %s", p.Differs)
	case p.Errors > 0:
		return fmt.Errorf("%d unexpected replies, for example: %s", p.Errors, p.Example)
	}
	return nil
}

// agree compares an exchange's tables with the answers to clients: the numbers of orders, cancels,
// accounts and deposits. It also queries a sample of the orders. The error names the first difference.
func agree(ctx context.Context, e *harness.Exchange, answers scenario.Tally) error {
	have, err := audit.ReadTotals(ctx, e.Postgres.DirectURL(), scenario.Asker)
	if err != nil {
		return err
	}
	for _, n := range []struct {
		have, want uint64
		of         string
	}{{have.Orders, answers.Accepted, "orders"}, {have.Cancels, answers.Canceled, "cancels"},
		{have.Created, answers.Created, "accounts and placements"}} {
		if n.have != n.want {
			return fmt.Errorf("the tables have %d %s, the answers say %d", n.have, n.of, n.want)
		}
	}
	return answers.Verify(ctx, e.XML)
}
