package main

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// TestQuantilesAreThoseOfTheHistogram observes a thousand times and works the quantiles
// out of the buckets.
func TestQuantilesAreThoseOfTheHistogram(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", NativeHistogramBucketFactor: 1.1})
	for i := 1; i <= 1000; i++ {
		h.Observe(float64(i) / 1e6)
	}
	var m dto.Metric
	require.NoError(t, h.Write(&m))
	c := counts{seconds: map[float64]float64{}}
	c.addHistogram(m.Histogram)
	for q, want := range map[float64]float64{0.01: 10e-6, 0.5: 500e-6, 0.99: 990e-6, 1: 1000e-6} {
		require.InEpsilon(t, want, c.quantile(q), 0.1, "%v", q)
	}
	require.Zero(t, (&counts{}).quantile(0.5), "of nothing")
}
