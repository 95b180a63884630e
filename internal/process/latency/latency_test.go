package latency

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// write returns a metric as Prometheus scrapes it.
func write(t testing.TB, m prometheus.Metric) *dto.Histogram {
	t.Helper()
	var d dto.Metric
	require.NoError(t, m.Write(&d))
	return d.GetHistogram()
}

// native returns the counts of the native buckets with at least one observation.
func native(t testing.TB, d *dto.Histogram) map[int]int64 {
	t.Helper()
	counts := map[int]int64{}
	index, count, deltas := 0, int64(0), d.GetPositiveDelta()
	for _, span := range d.GetPositiveSpan() {
		index += int(span.GetOffset())
		for range span.GetLength() {
			count, deltas = count+deltas[0], deltas[1:]
			if count > 0 {
				counts[index] = count
			}
			index++
		}
	}
	require.Empty(t, deltas)
	return counts
}

// TestAHistogramIsThatOfClientGolang makes the same observations in a Histogram and in one of client_golang: from
// below the first bound to the last, and each bound itself.
func TestAHistogramIsThatOfClientGolang(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	f := NewFamily("h", "h", 50*time.Microsecond, time.Second)
	ours := f.Histogram()
	var bounds []float64
	for octave := f.octaveFirst; octave <= f.octaveLast; octave++ {
		bounds = append(bounds, math.Exp2(float64(octave)))
	}
	require.Len(t, bounds, 16, "30 µs to 1 s")
	theirs := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h", Buckets: bounds,
		NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: prometheus.NativeHistogramZeroThresholdZero})
	observe := func(took time.Duration, n int) {
		ours.Observe(took, n)
		for range n {
			theirs.Observe(took.Seconds())
		}
	}
	for octave := time.Duration(1); octave < 128*time.Second; octave *= 2 {
		observe(max(octave, 120*time.Nanosecond), 1)
	}
	observe(time.Second, 2) // exactly a bound
	observe(time.Second/8, 3)
	for range 20_000 {
		observe(time.Duration(120*math.Exp2(r.Float64()*29)), r.IntN(5))
	}
	got, want := write(t, ours), write(t, theirs)
	require.Equal(t, native(t, want), native(t, got))
	require.Equal(t, want.GetBucket(), got.GetBucket())
	require.Equal(t, want.GetSampleCount(), got.GetSampleCount())
	require.Equal(t, want.GetSampleCount(), ours.Count())
	require.InEpsilon(t, want.GetSampleSum(), got.GetSampleSum(), 1e-9)
	require.Equal(t, want.GetSchema(), got.GetSchema())
	require.Equal(t, want.GetZeroThreshold(), got.GetZeroThreshold())
}

func TestWhatIsOutOfRangeIsCountedAtTheEnds(t *testing.T) {
	h := NewFamily("h", "h", time.Millisecond, time.Second).Histogram()
	h.Observe(-time.Second, 1)
	h.Observe(0, 1)
	h.Observe(1, 1)
	h.Observe(math.MaxInt64, 2)
	d := write(t, h)
	require.Equal(t, map[int]int64{octaveMin * perOctave: 3, octaveMax * perOctave: 2}, native(t, d))
	require.EqualValues(t, 5, d.GetSampleCount())
	require.EqualValues(t, 3, d.GetBucket()[len(d.GetBucket())-1].GetCumulativeCount())
}

func TestAnEmptyHistogramIsNativeAndClassic(t *testing.T) {
	d := write(t, NewFamily("h", "h", time.Millisecond, time.Second).Histogram())
	require.Len(t, d.GetPositiveSpan(), 1)
	require.Len(t, d.GetBucket(), 11)
	require.Zero(t, d.GetSampleCount())
}

func TestAFamilyIsCollectedByItsLabels(t *testing.T) {
	f := NewFamily("outcry_x_seconds", "How long.", time.Second, 2*time.Second, "kind", "outcome")
	f.Histogram("order", "ok").Observe(1500*time.Millisecond, 2)
	f.Histogram("query", "ok")
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(f))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families[0].GetMetric(), 2)
	m := families[0].GetMetric()[0]
	require.Equal(t, "order", m.GetLabel()[0].GetValue())
	require.InDelta(t, 3, m.GetHistogram().GetSampleSum(), 0)
	require.Panics(t, func() { f.Histogram("order") })
	require.Panics(t, func() { NewFamily("x", "x", 1, time.Second) })
	require.Panics(t, func() { NewFamily("x", "x", time.Second, time.Hour) })
}

func TestObservationsOfManyGoroutinesAreAllCounted(t *testing.T) {
	h := NewFamily("h", "h", time.Millisecond, time.Second).Histogram()
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 10_000 {
				h.Observe(500*time.Millisecond, 2)
			}
		})
	}
	for range 100 {
		d := write(t, h)
		total := int64(0)
		for _, n := range native(t, d) {
			total += n
		}
		require.EqualValues(t, d.GetSampleCount(), total)
	}
	running.Wait()
	d := write(t, h)
	require.EqualValues(t, 160_000, d.GetSampleCount())
	require.InDelta(t, 80_000, d.GetSampleSum(), 0)
}

// BenchmarkObserve measures one observation: on one goroutine, and on all processors at once.
func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			h := NewFamily("h", "h", time.Millisecond, time.Second).Histogram()
			took := time.Millisecond
			for b.Loop() {
				h.Observe(took, n)
				took++
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		h := NewFamily("h", "h", time.Millisecond, time.Second).Histogram()
		b.RunParallel(func(p *testing.PB) {
			for took := time.Millisecond; p.Next(); took++ {
				h.Observe(took, 1)
			}
		})
	})
}
