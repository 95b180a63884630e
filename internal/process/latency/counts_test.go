package latency

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuantilesAreThoseOfTheHistogram makes a thousand observations and computes quantiles from the buckets.
func TestQuantilesAreThoseOfTheHistogram(t *testing.T) {
	f := NewFamily("x", "x", time.Microsecond, time.Second, "kind")
	all := []*Histogram{f.Histogram("a"), f.Histogram("b")}
	for i := 1; i <= 1000; i++ {
		all[i%2].Observe(time.Duration(i)*time.Microsecond, 1)
	}
	c := f.Counts()
	for q, want := range map[float64]float64{0.01: 10e-6, 0.5: 500e-6, 0.99: 990e-6, 1: 1000e-6} {
		require.InEpsilon(t, want, c.Quantile(q), 0.1, "%v", q)
	}
	require.Zero(t, new(Counts).Quantile(0.5), "of nothing")

	all[0].Observe(time.Second, 5)
	require.InEpsilon(t, 1, f.Counts().Since(c).Quantile(0.01), 0.1, "of the five later observations")
	require.Zero(t, c.Since(c).Quantile(1))
}

// TestABoundIsThatOfItsBucket compares boundOf with the buckets that bucketOf chooses.
func TestABoundIsThatOfItsBucket(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 10_000 {
		seconds := r.Float64() * 64
		i := bucketOf(seconds)
		require.LessOrEqual(t, seconds, boundOf(i)*(1+1e-12))
		require.Greater(t, seconds, boundOf(i-1)*(1-1e-12))
	}
}
