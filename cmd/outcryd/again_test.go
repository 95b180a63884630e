package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/settings"
)

// TestAProcessBeginsAgainSixTimesInAMinute: a process restarts itself at most six times a minute, and each run passes
// its count to the next.
func TestAProcessBeginsAgainSixTimesInAMinute(t *testing.T) {
	t.Setenv(settings.AgainVariable, "")
	f := takeFormer()
	for n := range againMax {
		require.NoError(t, f.tooOften())
		name, value, _ := strings.Cut(f.variable(7, false), "=")
		require.Equal(t, settings.AgainVariable, name)
		t.Setenv(name, value)
		f = takeFormer()
		require.Len(t, f.times, n+1)
		require.Equal(t, 7, f.postgres)
		_, there := os.LookupEnv(name)
		require.False(t, there, "what is started by this process does not get it")
	}
	require.ErrorContains(t, f.tooOften(), "lost its leadership 7 times within 1m0s")
	_, value, _ := strings.Cut(f.variable(7, true), "=")
	t.Setenv(settings.AgainVariable, value)
	f = takeFormer()
	require.Len(t, f.times, againMax, "what an operator asked for does not count, and nothing is forgotten for it")

	long := time.Now().Add(-againTime).UnixMilli()
	t.Setenv(settings.AgainVariable, fmt.Sprintf("0 %d %d %d", long, long, time.Now().UnixMilli()))
	f = takeFormer()
	require.Len(t, f.times, 1, "those of long ago do not count")
	t.Setenv(settings.AgainVariable, "x "+strings.Repeat("9 x ", 1000))
	f = takeFormer()
	require.Empty(t, f.times)
}

// TestALeaderOutlastsTheOthersInLag: a leader may lag more than a node that is to take over, since handing over to a
// node that lags just as much would gain nothing.
func TestALeaderOutlastsTheOthersInLag(t *testing.T) {
	leads, follows := lagMost(1200, true, true), lagMost(1200, false, true)
	require.EqualValues(t, 900, leads)
	require.EqualValues(t, 600, follows)
	require.Less(t, lagMost(1200, true, false), leads)
	require.Less(t, lagMost(1200, false, false), follows)
}

// TestNobodyWaitsForAnothersDigest: a request that finds a digest being computed waits only until its own context ends
// and then gets the last known digest.
func TestNobodyWaitsForAnothersDigest(t *testing.T) {
	m := &member{digest: digests{working: make(chan struct{}, 1), digest: "known", seq: 7}}
	m.digest.working <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	digest, seq := m.digestNow(ctx)
	require.Equal(t, "known", digest)
	require.EqualValues(t, 7, seq)
}

// TestADigestThatTakesLongIsThereForWhoAsksLater: the digest of a large state takes longer than any request waits, but
// a later request gets it.
func TestADigestThatTakesLongIsThereForWhoAsksLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := digests{working: make(chan struct{}, 1)}
		d.working <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), digestWait)
		defer cancel()
		d.inBackground(ctx, func(ctx context.Context) {
			select {
			case <-time.After(10 * digestWait):
				d.keep("worked out", 7)
			case <-ctx.Done():
			}
		})
		digest, _ := d.last()
		require.Empty(t, digest, "nobody waits so long")
		time.Sleep(20 * digestWait)
		digest, seq := d.last()
		require.Equal(t, "worked out", digest)
		require.EqualValues(t, 7, seq)
		require.Empty(t, d.working)
	})
}
