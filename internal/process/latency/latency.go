// Package latency has histograms of durations for Prometheus that are cheap enough for every request and
// count many equal observations in one step.
//
// The histogram of client_golang has no such step. A batch of pipelined orders would be observed order by
// order, which costs too much, or once whatever its size, which gives a wrong distribution. Here an
// observation costs two additions, whatever the number of orders.
//
// A histogram is native and classic at once. Native buckets grow by a factor of 2^(1/8), so that quantiles
// are known within nine percent. Classic bounds are powers of 2 seconds, which are bounds of native buckets
// too, so that both forms agree exactly.
package latency

import (
	"math"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
)

const (
	// schema is Prometheus's number for native buckets that grow by 2^(2^-schema).
	schema = 3
	// perOctave is the number of native buckets over which the bound doubles.
	perOctave = 1 << schema

	// The first bucket's bound is 2^octaveMin seconds, 119 ns, and the last one's 2^octaveMax, 128 s. The
	// last bucket also counts longer durations. Sums are exact for these too.
	octaveMin = -23
	octaveMax = 7

	buckets = (octaveMax-octaveMin)*perOctave + 1
)

// bounds are the upper bounds of the native buckets in [0.5, 1).
var bounds = func() (b [perOctave]float64) {
	for i := range b {
		b[i] = math.Exp2(float64(i)/perOctave - 1)
	}
	return b
}()

// Histogram counts durations. Its methods may be called from any goroutine.
type Histogram struct {
	family   *Family
	labels   []*dto.LabelPair
	sumBits  atomic.Uint64 // bits of a float64, in seconds
	observed [buckets]atomic.Uint64
}

// Observe counts n observations of the same duration.
func (h *Histogram) Observe(took time.Duration, n int) {
	seconds := took.Seconds()
	h.observed[bucketOf(seconds)].Add(uint64(n))
	for {
		old := h.sumBits.Load()
		sum := math.Float64frombits(old) + seconds*float64(n)
		if h.sumBits.CompareAndSwap(old, math.Float64bits(sum)) {
			return
		}
	}
}

// Count returns the number of observations.
func (h *Histogram) Count() (n uint64) {
	for i := range h.observed {
		n += h.observed[i].Load()
	}
	return n
}

// bucketOf returns the index of the native bucket for a duration: the first bucket whose upper bound is not
// less.
func bucketOf(seconds float64) int {
	fraction, octave := math.Frexp(seconds) // fraction is in [0.5, 1)
	i := (octave - 1 - octaveMin) * perOctave
	for _, bound := range bounds {
		if fraction <= bound {
			break
		}
		i++
	}
	if seconds <= 0 {
		i = 0 // should not happen, but must not fail
	}
	return min(max(i, 0), buckets-1)
}
