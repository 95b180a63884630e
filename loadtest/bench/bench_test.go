package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/load"
	"outcry/internal/load/scenario"
	"outcry/loadtest/harness"
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
	require.Equal(t, []string{"hot 64 clients × 16 at GOMAXPROCS=2: the exchange does not hold what clients were " +
		"told: a cent is missing",
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

// TestAFastWrongAnswerIsAFailedRun runs a scenario against the real program, and then
// tells the check something else than clients were told.
func TestAFastWrongAnswerIsAFailedRun(t *testing.T) {
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
	told := run.Told()
	require.EqualValues(t, 40, told.Accepted)
	require.NoError(t, agree(ctx, e, told))

	more := told
	more.Accepted++
	require.ErrorContains(t, agree(ctx, e, more), "the tables have 40 orders, clients were told of 41")
	more = told
	more.Canceled--
	require.ErrorContains(t, agree(ctx, e, more), "the tables have 40 cancels, clients were told of 39")
	more = told
	more.Created++
	require.ErrorContains(t, agree(ctx, e, more), "accounts and placements, clients were told of")
	require.NoError(t, agree(ctx, e, told), "asking changes nothing")
	more = told
	more.IDs = append(more.IDs, 4711)
	require.ErrorContains(t, agree(ctx, e, more), "there is no order 4711")
}
