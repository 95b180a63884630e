package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
	"outcry/internal/testing/budget"
)

func scenarioOf(t *testing.T, name string) scenario.Scenario {
	t.Helper()
	s, ok := scenario.Find(name)
	require.True(t, ok)
	return s
}

func TestRoundsAreInterleaved(t *testing.T) {
	a, b := Job{Scenario: scenarioOf(t, "cores")}, Job{Scenario: scenarioOf(t, "hot")}
	plan := Plan{Jobs: []Job{a, b}, GOMAXPROCS: []int{1, 2}, Repetitions: 2, Seed: 7}
	type step struct {
		name       string
		procs, rep int
		seed       uint64
	}
	var steps []step
	for _, j := range plan.Order() {
		steps = append(steps, step{j.Scenario.Name, j.GOMAXPROCS, j.Repetition, j.Seed})
	}
	require.Equal(t, []step{
		{"cores", 1, 1, 7}, {"cores", 2, 1, 7}, {"hot", 1, 1, 7}, {"hot", 2, 1, 7},
		{"cores", 2, 2, 8}, {"cores", 1, 2, 8}, {"hot", 2, 2, 8}, {"hot", 1, 2, 8},
	}, steps)
}

// TestJobsOfAnExchangeAreNeighbours checks that in each round, jobs with the same number of processors follow each
// other so that they can share an exchange, and that a job with its own numbers is measured only at these.
func TestJobsOfAnExchangeAreNeighbours(t *testing.T) {
	plan := Plan{Jobs: append(at([]int{1, 2}, "cores", "hot -duration 1s"), at([]int{2}, "burst")...),
		GOMAXPROCS: []int{1, 2, 4}, Repetitions: 2, Shared: true}
	var steps []string
	for _, j := range plan.Order() {
		steps = append(steps, fmt.Sprintf("%d %s %d", j.Repetition, j.Scenario.Name, j.GOMAXPROCS))
	}
	require.Equal(t, []string{"1 cores 1", "1 hot 1", "1 cores 2", "1 hot 2", "1 burst 2", "2 cores 2", "2 hot 2",
		"2 burst 2", "2 cores 1", "2 hot 1"}, steps)
	require.Empty(t, harness.FirstProcessors(1_000), "there are no more")
	if runtime.NumCPU() > 1 {
		require.Regexp(t, `^\d+$`, harness.FirstProcessors(1))
		require.Equal(t, harness.FirstProcessors(1), plan.Order()[0].CPUs)
	}
}

// TestAPlanGoesOn checks that a plan does not repeat the measurements of this revision in its data file, and keeps
// those of other revisions until it replaces them.
func TestAPlanGoesOn(t *testing.T) {
	point := func(revision string, rep int) *Point {
		return &Point{Scenario: "cores", Params: scenarioOf(t, "cores").Defaults, GOMAXPROCS: 2, Repetition: rep,
			Revision: revision, Agrees: true}
	}
	path := filepath.Join(t.TempDir(), "points.json")
	old := &Data{Revision: "old", Machine: "linux/amd64, 2 processors (x)", Points: []*Point{point("", 1), point("", 2),
		{Scenario: "deep", Agrees: true}}}
	require.NoError(t, old.Save(path))
	d := &Data{Revision: "new"}
	require.NoError(t, d.Continue(path))
	require.Equal(t, "old", d.Points[0].Revision)
	require.Equal(t, 2, d.Points[0].Processors)
	job := Job{Scenario: scenarioOf(t, "cores"), Params: scenarioOf(t, "cores").Defaults, GOMAXPROCS: 2, Repetition: 1}
	require.False(t, d.has(job))
	d.add(point("", 1))
	require.True(t, d.has(job))
	require.Len(t, d.Points, 2, "both old ones of the cell are gone, those of another are not")
	require.Equal(t, "old", d.Points[0].Revision)
	job.Repetition = 2
	require.False(t, d.has(job))
	d.Points[1].Errors = 1
	job.Repetition = 1
	require.False(t, d.has(job), "it has failed")
	d.Revision += harness.Changed
	d.add(point("", 1))
	require.False(t, d.has(job), "files may have changed again")
	require.NoError(t, d.Continue(path+".none"))
}

// TestTheRecordIsMeasuredInOneRun runs every scenario of the record briefly against real servers that the
// jobs share. A second run must measure nothing.
func TestTheRecordIsMeasuredInOneRun(t *testing.T) {
	budget.SkipUnlessFull(t, "each scenario for itself")
	ctx, dir := t.Context(), t.TempDir()
	programs, err := Build(ctx, dir)
	require.NoError(t, err)
	var jobs []Job
	for _, j := range Record() { // one job of each scenario, and all jobs of market or with pauses
		if len(jobs) == 0 || j.Scenario.Name != jobs[len(jobs)-1].Scenario.Name || j.Params.Pause > 0 ||
			j.Scenario.Name == "market" {
			jobs = append(jobs, j)
		}
	}
	for i := range jobs {
		p := &jobs[i].Params
		p.Clients, p.Requests, p.Duration = min(p.Clients, 5+i), min(p.Requests, 4), min(p.Duration, 50*time.Millisecond)
		p.Orders, p.Rate = min(p.Orders, 500), min(p.Rate, 100)
	}
	plan := Plan{Jobs: jobs, GOMAXPROCS: []int{2}, Repetitions: 1, Seed: 1, Shared: true, Echo: 20 * time.Millisecond}
	d := &Data{Revision: "this"}
	saved := 0
	plan.Save = func() error { saved++; return nil }
	require.NoError(t, plan.Run(ctx, d, programs, dir, io.Discard))
	require.Empty(t, d.Failures())
	require.Equal(t, len(plan.Order()), saved)
	for _, p := range d.Points {
		require.NotZero(t, p.Requests, p.Scenario)
		if p.Params.Requests > 0 {
			require.EqualValues(t, p.Params.Clients*p.Params.Requests*map[bool]int{true: 2, false: 1}[strings.HasPrefix(
				p.Scenario, "populate")], p.Requests, p.Scenario)
		}
		require.Positive(t, p.EchoRate, p.Scenario)
	}
	require.NoError(t, plan.Run(ctx, d, Programs{}, dir, io.Discard), "nothing is left to measure")
	plan.Repetitions, plan.Within = 2, time.Nanosecond
	var out strings.Builder
	require.NoError(t, plan.Run(ctx, d, Programs{}, dir, &out))
	require.Contains(t, out.String(), "are left: repeat the command to continue")
}

func TestCellsGatherRepetitions(t *testing.T) {
	point := func(name string, clients, procs int, rate float64) *Point {
		return &Point{Scenario: name, Params: scenario.Params{Clients: clients}, GOMAXPROCS: procs,
			Summary: load.Summary{Rate: rate}}
	}
	r := &Data{Points: []*Point{
		point("b", 1, 2, 10), point("b", 1, 1, 5), point("a", 1, 1, 1), point("a", 2, 1, 2),
		point("b", 1, 2, 30), point("b", 1, 2, 11), point("b", 1, 1, 7),
	}}
	var rates []load.Spread
	for _, c := range r.Cells() {
		rates = append(rates, c.Of(func(p *Point) float64 { return p.Rate }))
	}
	require.Equal(t, []load.Spread{{Median: 6, Min: 5, Max: 7}, {Median: 11, Min: 10, Max: 30},
		{Median: 1, Min: 1, Max: 1}, {Median: 2, Min: 2, Max: 2}}, rates,
		"b with one processor, with two, and both of a")
}

func TestTheTablesHaveEveryPoint(t *testing.T) {
	r := &Data{Points: []*Point{
		{Scenario: "hot", Params: scenario.Params{Clients: 64, Depth: 16}, GOMAXPROCS: 1, Summary: load.Summary{Rate: 1000},
			Agrees: true},
		{Scenario: "hot", Params: scenario.Params{Clients: 64, Depth: 16}, GOMAXPROCS: 2, Summary: load.Summary{Rate: 1500},
			Differs: "a cent is missing"},
	}}
	var b bytes.Buffer
	require.NoError(t, r.WriteCSV(&b))
	lines, err := csv.NewReader(&b).ReadAll()
	require.NoError(t, err, "every line has as many fields as the first")
	require.Len(t, lines, 3)
	require.Equal(t, "true", lines[1][len(lines[1])-1])
	b.Reset()
	r.WriteTable(&b)
	require.Contains(t, b.String(), "64 clients × 16")
	require.Contains(t, b.String(), "1.50", "the speed-up")
	r.Points = append(r.Points, &Point{Scenario: "hot", Agrees: true,
		Summary: load.Summary{Errors: 3, Example: "refused"}})
	require.Equal(t, []string{"hot 64 clients × 16 at GOMAXPROCS=2: the exchange's data differ from its " +
		"answers: a cent is missing",
		"hot 0 clients at GOMAXPROCS=0: 3 unexpected replies, for example: refused"}, r.Failures())
}

func TestBadJobsAreNamed(t *testing.T) {
	for want, p := range map[string]scenario.Params{
		"-clients 0":          {Depth: 1, Requests: 1},
		"-clients 60000":      {Clients: 60_000, Depth: 1, Requests: 1},
		"-depth 0":            {Clients: 1, Requests: 1},
		"-requests or -durat": {Clients: 1, Depth: 1},
		"-rate needs":         {Clients: 1, Depth: 1, Requests: 1, Rate: 5},
	} {
		p.Accounts, p.Symbols, p.PerFrame = 1, 1, 1
		require.ErrorContains(t, scenarioOf(t, "market").Check(p), want)
	}
	p := scenario.Params{Clients: 1, Depth: 1, Duration: time.Second, Rate: 5, Accounts: 1, Symbols: 1, PerFrame: 1}
	require.NoError(t, scenarioOf(t, "market").Check(p))
	p.Symbols = 0
	require.ErrorContains(t, scenarioOf(t, "market").Check(p), "-symbols 0: must be from 1")
}

// TestAFastWrongAnswerIsAFailedRun runs a scenario against the real program, then passes answers to the
// check that differ from the real ones.
func TestAFastWrongAnswerIsAFailedRun(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	ctx, dir := context.Background(), t.TempDir()
	programs, err := Build(ctx, dir)
	require.NoError(t, err)
	e, err := harness.StartExchange(ctx, dir, harness.ServerOptions{Program: programs.Server})
	require.NoError(t, err)
	defer e.End()

	s := scenarioOf(t, "cores")
	run := &scenario.Run{Addrs: []string{e.XML}, Seed: 1, Params: scenario.Params{Clients: 2, Depth: 1, Requests: 60}}
	require.NoError(t, s.Prepare(ctx, run))
	result, err := s.Measure(ctx, run)
	require.NoError(t, err)
	require.EqualValues(t, 120, result.Requests)
	require.NoError(t, e.CatchUp(ctx, catchUpTimeout))
	answered := run.Answers()
	require.EqualValues(t, 122, answered.Accepted, "an order a request, and two that rest before")
	require.NoError(t, agree(ctx, e, answered))

	more := answered
	more.Accepted++
	require.ErrorContains(t, agree(ctx, e, more), "the tables have 122 orders, the answers say 123")
	more = answered
	more.Canceled--
	require.ErrorContains(t, agree(ctx, e, more), "the tables have 120 cancels, the answers say 119")
	more = answered
	more.Created++
	require.ErrorContains(t, agree(ctx, e, more), "accounts and placements, the answers say")
	require.NoError(t, agree(ctx, e, answered), "asking changes nothing")
	more = answered
	more.IDs = append(more.IDs, 4711)
	require.ErrorContains(t, agree(ctx, e, more), "there is no order 4711")
}
