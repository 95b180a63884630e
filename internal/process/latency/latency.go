// Package latency counts how long things took, for Prometheus: histograms that are
// cheap enough for every request, and that count many equal observations in one step.
//
// The histogram of client_golang has no such step. A batch of pipelined orders would
// be observed order by order, or once however large it is: the one costs too much, the
// other shows the wrong distribution. These cost two additions, whatever the number.
//
// A histogram is native and classic at once. Native buckets grow by a factor of
// 2^(1/8), so that a quantile is known to 9 %. Classic bounds are powers of 2 seconds, which are
// native bounds too: both forms say exactly the same.
package latency

import (
	"math"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
)

const (
	// schema is Prometheus' name for native buckets that grow by 2^(2^-schema).
	schema = 3
	// perOctave is how many native buckets double their bound.
	perOctave = 1 << schema

	// The bound of the first bucket is 2^octaveMin seconds, 119 ns, that of the last
	// 2^octaveMax, 128 s, which also has what took longer. Sums are right all the same.
	octaveMin = -23
	octaveMax = 7

	buckets = (octaveMax-octaveMin)*perOctave + 1
)

// bounds are the upper bounds of native buckets from 0.5 up to, not including, 1.
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
	sumBits  atomic.Uint64 // of a float64, in seconds
	observed [buckets]atomic.Uint64
}

// Observe counts n things, each of which took so long.
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

// Count returns how many things were counted.
func (h *Histogram) Count() (n uint64) {
	for i := range h.observed {
		n += h.observed[i].Load()
	}
	return n
}

// bucketOf returns the index of the native bucket for a duration: the first whose
// upper bound is not below it.
func bucketOf(seconds float64) int {
	fraction, octave := math.Frexp(seconds) // fraction is from 0.5 up to, not including, 1
	i := (octave - 1 - octaveMin) * perOctave
	for _, bound := range bounds {
		if fraction <= bound {
			break
		}
		i++
	}
	if seconds <= 0 {
		i = 0 // a clock does not go back, but this must not fail
	}
	return min(max(i, 0), buckets-1)
}
