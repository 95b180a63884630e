package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/load"
)

// rounds returns data with n rounds of equal runs, and the points by round.
func rounds(n int) (d *Data, all []round) {
	d = &Data{}
	for n := range n {
		for _, job := range Goals(false) {
			d.Points = append(d.Points, &Point{Run: job.Name, Repetition: n + 1,
				Summary:   load.Summary{Rate: 100, P50: 1, P99: 4},
				EchoShare: 0.5, EchoP50: 0.1, EchoP99: 2, SyncedEchoRate: 125, SyncedEchoShare: 0.8, SyncMedian: 0.1,
				ServerCPU: 10, ServerCPUSending: 2, CatchUp: 1, Agrees: true})
		}
	}
	return d, d.rounds()
}

func TestEveryRunOfAGoalCanBeMade(t *testing.T) {
	for _, job := range append(Goals(false), Goals(true)...) {
		require.NoError(t, job.Scenario.Check(job.Params), job.Name)
	}
}

func TestARoundThatIsNotWholeIsNotJudged(t *testing.T) {
	d, _ := rounds(2)
	d.Points = d.Points[:len(d.Points)-1]
	require.Len(t, d.rounds(), 2)
	require.Len(t, d.whole(), 1)
}

func TestGoalsAreJudgedByTheMedianOfRatiosWithinARound(t *testing.T) {
	r, at := rounds(3)
	// The machine is half as fast in the second round, so only the ratio within the round counts.
	at[1][closed].Rate, at[1][wide].Rate = 50, 45
	at[0][wide].Rate, at[2][wide].Rate = 85, 79
	verdict := find(t, r, "10,000 symbols")
	verdict.figure = nil // functions are never equal
	spread := load.Spread{Median: 0.85, Min: 0.79, Max: 0.9}
	require.Equal(t, Verdict{goal{Goal: verdict.Goal, bound: 0.8}, spread, true}, verdict)
	at[0][wide].Rate = 79
	require.False(t, find(t, r, "10,000 symbols").Met)
}

func TestBoundsHoldInTheirDirection(t *testing.T) {
	r, all := rounds(1)
	at := all[0]
	at[closed].EchoShare, at[half].P99 = 0.45, 6
	require.True(t, find(t, r, "64 clients, one order at a time").Met)
	require.True(t, find(t, r, "at half").Met)
	at[closed].EchoShare, at[half].P99 = 0.449, 6.01
	require.False(t, find(t, r, "64 clients, one order at a time").Met)
	require.False(t, find(t, r, "at half").Met)
	at[closedOne].ServerCPU, at[closed].ServerCPU, at[closedFour].ServerCPU = 12, 10, 12.6
	require.InDelta(t, 0.26, find(t, r, "processor time a request").Spread.Median, 1e-9)
}

func TestTheTableTellsWhatIsNotMet(t *testing.T) {
	var table strings.Builder
	d, _ := rounds(2)
	d.WriteTable(&table)
	require.Regexp(t, `64 × 16 with Postgres paused: answered a second +at least 400,000/s +100.0 /s +100.0 /s to `+
		`100.0 /s +NO`, table.String())
	require.Regexp(t, `10,000 symbols: share of the rate with 100 +at least 0.80 +1.00 +1.00 to 1.00 +yes`, table.String())
}

func TestTheRunsTellBothEchoServers(t *testing.T) {
	r, at := rounds(1)
	at[0][queries].SyncedEchoRate = 0 // not measured
	require.Contains(t, r.goalTables()["runs"],
		"| "+closedPaused+" | 1 | 100.00 | 50 % (80 %) | 1.00 | 4.00 | 0.0 | 2.00 |")
	require.Contains(t, r.goalTables()["runs"], "| "+queries+" | 1 | 100.00 | 50 % | 1.00 |")
}

func find(t *testing.T, r *Data, goal string) Verdict {
	for _, v := range r.Verdicts() {
		if strings.HasPrefix(v.Goal, goal) {
			return v
		}
	}
	t.Fatalf("no goal begins with %q", goal)
	return Verdict{}
}
