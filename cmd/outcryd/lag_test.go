package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLagIsTheAgeOfTheOldestRecordThatIsMissing(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	l := new(lagMarks)
	require.Zero(t, l.lag(0, start))
	l.synced(5, at(0))
	l.synced(4, at(100))
	l.synced(3, at(104)) // up to 12, of the same step
	l.synced(8, at(300))
	require.Equal(t, time.Second, l.lag(0, at(1000)))
	require.Equal(t, time.Second, l.lag(4, at(1000)))
	require.Equal(t, 900*time.Millisecond, l.lag(5, at(1000)))
	require.Equal(t, 900*time.Millisecond, l.lag(10, at(1000)))
	require.Equal(t, 700*time.Millisecond, l.lag(12, at(1000)))
	require.Zero(t, l.lag(20, at(1000)))
	require.Empty(t, l.marks)
}

// TestLagTakesBoundedMemoryWhilePostgresIsAway lets an hour of records come.
func TestLagTakesBoundedMemoryWhilePostgresIsAway(t *testing.T) {
	start := time.Unix(1000, 0)
	l := new(lagMarks)
	const every = 5 * time.Millisecond
	const records = uint64(time.Hour / every)
	for seq := uint64(1); seq <= records; seq++ {
		l.synced(1, start.Add(time.Duration(seq)*every))
		require.LessOrEqual(t, len(l.marks), lagMarksMax)
	}
	now := start.Add(time.Hour)
	for applied := uint64(0); applied < records; applied += records / 50 {
		exact := time.Hour - time.Duration(applied+1)*every
		got := l.lag(applied, now)
		require.GreaterOrEqual(t, got, exact)
		require.LessOrEqual(t, got-exact, 2*l.step, "after record %d", applied)
	}
	require.Less(t, l.step, 15*time.Second)
	require.Zero(t, l.lag(records, now))
	l.synced(1, now)
	require.Equal(t, time.Millisecond, l.lag(records, now.Add(time.Millisecond)), "exact again")
}
