package health

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

func TestLagIsTheAgeOfTheOldestRecordThatIsMissing(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	l := new(LagMarks)
	require.Zero(t, l.Lag(0, start))
	l.Synced(5, at(0))
	l.Synced(4, at(100))
	l.Synced(3, at(104)) // up to record 12, within lagStep
	l.Synced(8, at(300))
	require.Equal(t, time.Second, l.Lag(0, at(1000)))
	require.Equal(t, time.Second, l.Lag(4, at(1000)))
	require.Equal(t, 900*time.Millisecond, l.Lag(5, at(1000)))
	require.Equal(t, 900*time.Millisecond, l.Lag(10, at(1000)))
	require.Equal(t, 700*time.Millisecond, l.Lag(12, at(1000)))
	require.Zero(t, l.Lag(12, at(250)), "the record was synced after the given time")
	require.Zero(t, l.Lag(20, at(1000)))
	require.Empty(t, l.marks)
}

// isNear checks that a lag is at least the exact one, and too large by no more than the resolution.
func isNear(t *testing.T, exact, got time.Duration, format string, args ...any) {
	t.Helper()
	require.GreaterOrEqual(t, got, exact, append([]any{format}, args...)...)
	require.LessOrEqual(t, got-exact, max(lagStep, exact/lagPart), append([]any{format}, args...)...)
}

// TestLagIsExactAfterALongTimeWithoutPostgres syncs 200 records a second for an hour in which nothing is
// applied, and checks the lag at all ages at the end. After that, Postgres is 20 records behind and Lag is
// called now and then: it must return 95 ms from the first call on.
func TestLagIsExactAfterALongTimeWithoutPostgres(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	const every = 5 * time.Millisecond
	const records = uint64(time.Hour / every)
	start := time.Unix(1000, 0)
	syncedAt := func(seq uint64) time.Time { return start.Add(time.Duration(seq) * every) }
	l := new(LagMarks)
	for seq := uint64(1); seq <= records; seq++ {
		l.Synced(1, syncedAt(seq))
		require.LessOrEqual(t, len(l.marks), lagMarksMax)
	}
	now := syncedAt(records)
	for applied := uint64(0); applied < records; applied += 1 + (records-applied)/5 {
		isNear(t, now.Sub(syncedAt(applied+1)), l.Lag(applied, now), "after record %d", applied)
	}
	for seq := records + 1; seq < 2*records; seq++ {
		l.Synced(1, syncedAt(seq))
		if seq%1000 == 0 {
			isNear(t, 19*every, l.Lag(seq-20, syncedAt(seq)), "after record %d", seq)
		}
	}
}

// TestLagIsExactThoughNobodyHasAsked syncs records over three years, in bursts with pauses as at night,
// before it calls Lag for the first time.
func TestLagIsExactThoughNobodyHasAsked(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	now := time.Unix(1000, 0)
	end := now.Add(3 * 365 * 24 * time.Hour)
	l := new(LagMarks)
	var times []time.Time
	for now.Before(end) {
		for range 1 + r.IntN(100) {
			now = now.Add(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
			times = append(times, now)
			l.Synced(1, now)
			require.LessOrEqual(t, len(l.marks), lagMarksMax)
		}
		now = now.Add(time.Duration(r.Int64N(int64(2 * time.Hour))))
		if r.IntN(20) == 0 {
			now = now.Add(12 * time.Hour)
		}
	}
	l.merge(now)
	require.Less(t, len(l.marks), lagMarksMax/2)
	for applied := 0; applied < len(times); applied += 1 + r.IntN(100) {
		isNear(t, now.Sub(times[applied]), l.Lag(uint64(applied), now), "after record %d", applied)
	}
	require.Zero(t, l.Lag(uint64(len(times)), now))
}
