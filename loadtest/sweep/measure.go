// Package sweep measures scenarios: each with a fresh exchange, beside an echo
// server that shows what the machine's network stack can do, and with the question
// to the exchange afterwards whether it holds what the clients were told.
package sweep

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"outcry/internal/load"
	"outcry/internal/load/scenario"
	"outcry/loadtest/harness"
	"outcry/loadtest/vegeta"
)

// Job is one measurement that is to be made.
type Job struct {
	Scenario   scenario.Scenario
	Params     scenario.Params
	GOMAXPROCS int // of the server; 0: as it chooses
	Repetition int
	Seed       uint64
	CPUs       string // that the server alone may use, as taskset has them; "" for all
	SyncedEcho bool   // measure an echo server with a journal as well
}

// Point is what one measurement came to. Times are in seconds, latencies in
// milliseconds from the moment at which a frame was due.
type Point struct {
	Scenario   string          `json:"scenario"`
	Params     scenario.Params `json:"params"`
	GOMAXPROCS int             `json:"gomaxprocs"`
	Repetition int             `json:"repetition"`
	Seed       uint64          `json:"seed"`

	Requests uint64  `json:"requests"`
	Errors   uint64  `json:"errors"` // replies that the scenario does not expect
	Example  string  `json:"error_example,omitempty"`
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"requests_per_second"`
	Commands float64 `json:"commands_per_second"` // orders, queries, cancels and creates that were done

	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
	// Curve are the latencies at Quantiles.
	Curve []float64 `json:"curve_ms"`
	// SentP99 counts from the moment of sending, as load generators often do.
	SentP99 float64 `json:"p99_from_sending_ms"`

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
	// SyncedEchoRate is of an echo server with a journal, where that was measured.
	SyncedEchoRate  float64 `json:"synced_echo_requests_per_second,omitempty"`
	SyncedEchoShare float64 `json:"share_of_synced_echo,omitempty"`
	SyncMedian      float64 `json:"disk_sync_ms"`

	Agrees   bool              `json:"exchange_agrees"`
	Differs  string            `json:"differs,omitempty"`
	Refusals map[string]uint64 `json:"refusals,omitempty"` // that the scenario expects
	Timeline []Second          `json:"timeline,omitempty"`
}

// Quantiles are those at which a Point's Curve has its latencies.
var Quantiles = []float64{0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999}

// Second is one second of a run.
type Second struct {
	Requests uint64  `json:"requests"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
}

const (
	upTimeout      = 2 * time.Minute
	catchUpTimeout = 10 * time.Minute

	// echoTime is how long the echo server is measured.
	echoTime = 1500 * time.Millisecond
)

// Watch is told of a measurement while it runs. Each may be nil.
type Watch struct {
	Progress func(load.Progress)
	Hit      vegeta.Hit // of every frame that is sent at a rate
}

// Programs are what a measurement runs.
type Programs struct{ Server, Loadtest string }

// Build builds them into dir.
func Build(ctx context.Context, root, dir string) (p Programs, err error) {
	if p.Server, err = harness.Build(ctx, root, "./cmd/outcryd", dir); err != nil {
		return p, err
	}
	p.Loadtest, err = harness.Build(ctx, root, "./loadtest", dir)
	return p, err
}

// Measure makes one measurement in a new directory below dir. The error says what
// could not be done; an exchange that disagrees is in the Point.
func Measure(ctx context.Context, p Programs, dir string, job Job, watch Watch) (*Point, error) {
	dir, err := os.MkdirTemp(dir, "run-")
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	defer harness.RemoveAll(dir)
	pg, err := harness.StartPostgres(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), upTimeout)
		defer cancel()
		_ = pg.Stop(stopping) // nothing of it is kept
	}()
	m := &measurement{job: job, dir: dir, pg: pg, programs: p, watch: watch}
	if m.server, err = harness.Launch(harness.ServerOptions{Program: p.Server, Data: filepath.Join(dir, "data"), DatabaseURL: pg.DirectURL(), Env: procs(job.GOMAXPROCS), CPUs: job.CPUs}); err != nil {
		return nil, err
	}
	defer m.server.Kill()
	up, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if err := m.server.WaitReady(up); err != nil {
		return nil, err
	}
	if m.point.SyncMedian, err = syncMedian(dir); err != nil {
		return nil, err
	}
	return m.run(ctx)
}

func procs(n int) []string {
	if n == 0 {
		return nil
	}
	return []string{"GOMAXPROCS=" + strconv.Itoa(n)}
}

// measurement is one under way.
type measurement struct {
	job      Job
	dir      string
	programs Programs
	pg       *harness.Postgres
	server   *harness.Server
	watch    Watch
	point    Point
}

func (m *measurement) run(ctx context.Context) (*Point, error) {
	job, point := m.job, &m.point
	point.Scenario, point.Params, point.GOMAXPROCS, point.Repetition, point.Seed = job.Scenario.Name, job.Params, job.GOMAXPROCS, job.Repetition, job.Seed
	run := &scenario.Run{Addrs: []string{m.server.XML}, Seed: job.Seed, Params: job.Params}
	if err := job.Scenario.Prepare(ctx, run); err != nil {
		return nil, err
	}
	if err := m.catchUp(ctx); err != nil {
		return nil, err
	}
	if job.Params.History > 0 {
		if err := settleDown(ctx, m.pg.AdminURL()); err != nil {
			return nil, err
		}
	}
	leave, err := idle(run)
	if err != nil {
		return nil, err
	}
	defer leave()
	streams, err := openReaders(ctx, m.server.HTTP, job.Params)
	if err != nil {
		return nil, err
	}
	defer streams.leave()
	before := run.Told()
	used, err := m.usage()
	if err != nil {
		return nil, err
	}
	run.Progress, run.Open = m.watch.Progress, vegeta.Open(m.watch.Hit)
	result, begun, err := m.measure(ctx, run)
	if err != nil {
		return nil, err
	}
	ended, told := time.Now(), run.Told()
	streams.leave()
	if n := streams.ended.Load(); n > 0 {
		return nil, fmt.Errorf("sweep: the server has cut %d readers of the stream off", n)
	}
	point.StreamBytes = float64(streams.bytes.Load())
	sending, err := m.usage()
	if err != nil {
		return nil, err
	}
	if point.LagEnd, err = m.server.Metric(ctx, "outcry_postgres_lag_records"); err != nil {
		return nil, err
	}
	if err := m.catchUp(ctx); err != nil {
		return nil, err
	}
	// What the run costs the server and Postgres is done only now.
	after, err := m.usage()
	if err != nil {
		return nil, err
	}
	after.client = sending.client
	point.fill(result, told.Done()-before.Done(), after.minus(used))
	point.ServerCPUSending = (sending.server - used.server).Seconds() * 1e6 / float64(max(point.Requests, 1))
	point.CatchUp = time.Since(ended).Seconds()
	point.Persisted = float64(point.Requests) / time.Since(begun).Seconds()
	point.Refusals = told.Reasons
	if err := Agree(ctx, m.server, m.pg, told); err != nil {
		point.Differs = err.Error()
	}
	point.Agrees = point.Differs == ""
	return point, m.echo(ctx, result)
}

// idle opens the connections that send nothing, and returns what closes them.
func idle(run *scenario.Run) (leave func(), err error) {
	var conns []net.Conn
	leave = func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range run.Params.Idle {
		c, err := net.Dial("tcp", run.Addrs[0])
		if err != nil {
			leave()
			return nil, fmt.Errorf("sweep: idle connections: %w", err)
		}
		conns = append(conns, c)
	}
	return leave, nil
}

// measure runs the scenario, while Postgres stands still where it is to.
func (m *measurement) measure(ctx context.Context, run *scenario.Run) (r *load.Result, begun time.Time, err error) {
	if run.Params.Paused {
		defer m.pg.Freeze()()
	}
	begun = time.Now()
	r, err = m.job.Scenario.Measure(ctx, run)
	return r, begun, err
}

// fill takes over what the load generator saw.
func (p *Point) fill(r *load.Result, commands uint64, used usage) {
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	n := float64(max(r.Requests, 1))
	p.Requests, p.Errors, p.Seconds, p.Rate = r.Requests, r.Errors, r.Elapsed.Seconds(), r.Rate()
	if len(r.Examples) > 0 {
		p.Example = r.Examples[0]
	}
	p.Commands = float64(commands) / p.Seconds
	p.P50, p.P90, p.P99, p.P999 = ms(r.Quantile(0.5)), ms(r.Quantile(0.9)), ms(r.Quantile(0.99)), ms(r.Quantile(0.999))
	p.Max, p.SentP99 = ms(r.Quantile(1)), float64(r.Sent.ValueAtQuantile(99))/1e6
	p.ServerCPU, p.PostgresCPU, p.ClientCPU = used.server.Seconds()*1e6/n, used.postgres.Seconds()*1e6/n, used.client.Seconds()*1e6/n
	p.ServerBytes = used.resident
	for _, q := range Quantiles {
		p.Curve = append(p.Curve, ms(r.Quantile(q)))
	}
	for _, s := range r.Timeline {
		p.Timeline = append(p.Timeline, Second{s.Requests, float64(s.Latency.ValueAtQuantile(50)) / 1e6, float64(s.Latency.ValueAtQuantile(99)) / 1e6, float64(s.Latency.Max()) / 1e6})
	}
}

// catchUp waits until Postgres has everything.
func (m *measurement) catchUp(ctx context.Context) error { return CatchUp(ctx, m.server) }

// CatchUp waits until the server's Postgres has everything, at most ten minutes. The
// error says that it does not, or that the server has ended.
func CatchUp(ctx context.Context, server *harness.Server) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	for {
		lag, err := server.Metric(ctx, "outcry_postgres_lag_records")
		if err == nil && lag == 0 {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-server.Exited():
			return fmt.Errorf("sweep: the exchange has ended; its log ends with:\n%s", server.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("sweep: Postgres does not catch up: %v records are missing: %w", lag, ctx.Err())
		}
	}
}
