package performance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/load/scenario"
	"outcry/loadtest/sweep"
)

// rounds returns so many in which every run is the same.
func rounds(n int) (all []round) {
	for range n {
		points := round{}
		for _, name := range append(names(), half) {
			points[name] = &sweep.Point{Rate: 100, EchoShare: 0.5, EchoP50: 0.1, EchoP99: 2, SyncedEchoRate: 125, SyncedEchoShare: 0.8, SyncMedian: 0.1, P50: 1, P99: 4, ServerCPU: 10, ServerCPUSending: 2, CatchUp: 1}
		}
		all = append(all, points)
	}
	return all
}

func TestEveryRunIsOfAScenario(t *testing.T) {
	for _, x := range runs {
		s, ok := scenario.Find(x.scenario)
		require.True(t, ok, x.scenario)
		job := sweep.Job{Scenario: s, Params: s.Defaults, GOMAXPROCS: x.procs}
		x.change(&job.Params)
		require.NoError(t, job.Check(), x.name)
	}
}

func TestGoalsAreJudgedByTheMedianOfRatiosWithinARound(t *testing.T) {
	r := &Report{Rounds: rounds(3)}
	// The machine is half as fast in the second round: its ratio is what counts.
	r.Rounds[1][closed].Rate, r.Rounds[1][wide].Rate = 50, 45
	r.Rounds[0][wide].Rate, r.Rounds[2][wide].Rate = 85, 79
	verdict := find(t, r, "10,000 symbols")
	require.Equal(t, Verdict{Goal: verdict.Goal, Median: 0.85, Min: 0.79, Max: 0.9, Bound: 0.8, Met: true}, verdict)
	r.Rounds[0][wide].Rate = 79
	require.False(t, find(t, r, "10,000 symbols").Met)
}

func TestBoundsHoldInTheirDirection(t *testing.T) {
	r := &Report{Rounds: rounds(1)}
	at := r.Rounds[0]
	at[closed].EchoShare, at[half].P99 = 0.45, 5
	require.True(t, find(t, r, "64 clients, one order at a time").Met)
	require.True(t, find(t, r, "at half").Met)
	at[closed].EchoShare, at[half].P99 = 0.449, 5.01
	require.False(t, find(t, r, "64 clients, one order at a time").Met)
	require.False(t, find(t, r, "at half").Met)
	at[closedOne].ServerCPU, at[closed].ServerCPU, at[closedFour].ServerCPU = 12, 10, 12.6
	require.InDelta(t, 0.26, find(t, r, "processor time a request").Median, 1e-9)
}

func TestTheTableTellsWhatIsNotMet(t *testing.T) {
	var table strings.Builder
	(&Report{Rounds: rounds(2)}).WriteTable(&table)
	require.Regexp(t, `64 × 16 with Postgres paused: answered a second +at least 400,000/s +100.0 /s +100.0 /s to 100.0 /s +NO`, table.String())
	require.Regexp(t, `10,000 symbols: share of the rate with 100 +at least 0.80 +1.00 +1.00 to 1.00 +yes`, table.String())
}

func TestTheRunsTellBothEchoServers(t *testing.T) {
	r := &Report{Rounds: rounds(1)}
	r.Rounds[0][queries].SyncedEchoRate = 0 // was not measured
	require.Contains(t, r.Tables()["runs"], "| "+closedPaused+" | 1 | 100.00 | 50 % (80 %) | 1.00 | 4.00 | 0.0 | 2.00 |")
	require.Contains(t, r.Tables()["runs"], "| "+queries+" | 1 | 100.00 | 50 % | 1.00 |")
}

func find(t *testing.T, r *Report, goal string) Verdict {
	for _, v := range r.Verdicts() {
		if strings.HasPrefix(v.Goal, goal) {
			return v
		}
	}
	t.Fatalf("no goal begins with %q", goal)
	return Verdict{}
}
