package sweep

import (
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/load/scenario"
	"outcry/loadtest/harness"
)

func find(t *testing.T, name string) scenario.Scenario {
	t.Helper()
	s, ok := scenario.Find(name)
	require.True(t, ok)
	return s
}

func TestRoundsAreInterleaved(t *testing.T) {
	a, b := Job{Scenario: find(t, "cores")}, Job{Scenario: find(t, "hot")}
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
		return &Point{Scenario: name, Params: scenario.Params{Clients: clients}, GOMAXPROCS: procs, Rate: rate}
	}
	r := &Report{Points: []*Point{
		point("b", 1, 2, 10), point("b", 1, 1, 5), point("a", 1, 1, 1), point("a", 2, 1, 2),
		point("b", 1, 2, 30), point("b", 1, 2, 11), point("b", 1, 1, 7),
	}}
	var rates []Spread
	for _, c := range r.Cells() {
		rates = append(rates, c.Of(func(p *Point) float64 { return p.Rate }))
	}
	require.Equal(t, []Spread{{6, 5, 7}, {11, 10, 30}, {1, 1, 1}, {2, 2, 2}}, rates, "b with one processor, with two, and both of a")
}

func TestTheTablesHaveEveryPoint(t *testing.T) {
	r := &Report{Points: []*Point{
		{Scenario: "hot", Params: scenario.Params{Clients: 64, Depth: 16}, GOMAXPROCS: 1, Rate: 1000, Agrees: true},
		{Scenario: "hot", Params: scenario.Params{Clients: 64, Depth: 16}, GOMAXPROCS: 2, Rate: 1500, Differs: "a cent is missing"},
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
	r.Points = append(r.Points, &Point{Scenario: "hot", Agrees: true, Errors: 3, Example: "refused"})
	require.Equal(t, []string{"hot 64 clients × 16 at GOMAXPROCS=2: the exchange does not hold what clients were told: a cent is missing",
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
		require.ErrorContains(t, Job{Scenario: find(t, "market"), Params: p}.Check(), want)
	}
	p := scenario.Params{Clients: 1, Depth: 1, Duration: time.Second, Rate: 5, Accounts: 1, Symbols: 1, PerFrame: 1}
	require.NoError(t, Job{Scenario: find(t, "market"), Params: p}.Check())
	p.Symbols = 0
	require.ErrorContains(t, Job{Scenario: find(t, "market"), Params: p}.Check(), "-symbols 0: must be from 1")
}

// TestAFastWrongAnswerIsAFailedRun runs a scenario against the real program, and then
// tells the check something else than clients were told.
func TestAFastWrongAnswerIsAFailedRun(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	root, err := harness.Root(ctx)
	require.NoError(t, err)
	program, err := harness.Build(ctx, root, "./cmd/outcryd", dir)
	require.NoError(t, err)
	pg, err := harness.StartPostgres(ctx, dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, pg.Stop(ctx)) }()
	server, err := harness.Launch(harness.ServerOptions{Program: program, Data: filepath.Join(dir, "data"), DatabaseURL: pg.DirectURL(), Log: io.Discard})
	require.NoError(t, err)
	defer server.Kill()
	require.NoError(t, server.WaitReady(ctx))

	s := find(t, "cores")
	run := &scenario.Run{Addrs: []string{server.XML}, Seed: 1, Params: scenario.Params{Clients: 2, Depth: 1, Requests: 60}}
	require.NoError(t, s.Prepare(ctx, run))
	result, err := s.Measure(ctx, run)
	require.NoError(t, err)
	require.EqualValues(t, 120, result.Requests)
	require.NoError(t, CatchUp(ctx, server))
	told := run.Told()
	require.EqualValues(t, 40, told.Accepted)
	require.NoError(t, Agree(ctx, server, pg, told))

	more := told
	more.Accepted++
	require.ErrorContains(t, Agree(ctx, server, pg, more), "the tables have 40 orders, clients were told of 41")
	more = told
	more.Canceled--
	require.ErrorContains(t, Agree(ctx, server, pg, more), "the tables have 40 cancels, clients were told of 39")
	more = told
	more.Created++
	require.ErrorContains(t, Agree(ctx, server, pg, more), "accounts and placements, clients were told of")
	require.NoError(t, Agree(ctx, server, pg, told), "asking changes nothing")
	more = told
	more.IDs = append(more.IDs, 4711)
	require.ErrorContains(t, Agree(ctx, server, pg, more), "there is no order 4711")
}
