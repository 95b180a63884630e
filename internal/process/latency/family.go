package latency

import (
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Family is a set of histograms with one name and different labels. It is a prometheus.Collector. Make all
// its histograms before you register it; afterwards it may be used from any goroutine.
type Family struct {
	desc                    *prometheus.Desc
	labels                  []string
	octaveFirst, octaveLast int // of the classic bounds
	histograms              []*Histogram
}

// NewFamily returns a family without histograms. Its classic bounds are powers of 2 seconds: from the largest
// that is at most first, to the smallest that is at least last. It panics if these are not within 119 ns and
// 128 s.
func NewFamily(name, help string, first, last time.Duration, labels ...string) *Family {
	f := &Family{
		desc:        prometheus.NewDesc(name, help, labels, nil),
		labels:      labels,
		octaveFirst: int(math.Floor(math.Log2(first.Seconds()))),
		octaveLast:  int(math.Ceil(math.Log2(last.Seconds()))),
	}
	if f.octaveFirst < octaveMin || f.octaveLast > octaveMax || f.octaveFirst > f.octaveLast {
		panic(fmt.Sprintf("latency: %s: the bounds %s to %s are invalid", name, first, last))
	}
	return f
}

// Histogram makes the histogram with the given label values, in the order of the family's labels. It panics
// if their number is wrong.
func (f *Family) Histogram(values ...string) *Histogram {
	if len(values) != len(f.labels) {
		panic(fmt.Sprintf("latency: %d values for labels %q", len(values), f.labels))
	}
	h := &Histogram{family: f, labels: prometheus.MakeLabelPairs(f.desc, values)}
	f.histograms = append(f.histograms, h)
	return h
}

// Describe implements prometheus.Collector.
func (f *Family) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }

// Collect implements prometheus.Collector.
func (f *Family) Collect(ch chan<- prometheus.Metric) {
	for _, h := range f.histograms {
		ch <- h
	}
}

// Desc implements prometheus.Metric.
func (h *Histogram) Desc() *prometheus.Desc { return h.family.desc }

// Write implements prometheus.Metric. Observations made during the call may be in the sum but not in the
// buckets. The count always matches the buckets.
func (h *Histogram) Write(m *dto.Metric) error {
	sum := math.Float64frombits(h.sumBits.Load())
	var observed [buckets]uint64
	first, last := buckets, -1 // the first and the last bucket that is not empty
	for i := range h.observed {
		if observed[i] = h.observed[i].Load(); observed[i] > 0 {
			first, last = min(first, i), i
		}
	}
	d := &dto.Histogram{SampleSum: new(sum)}
	h.writeClassic(d, observed[:])
	d.Schema, d.ZeroThreshold, d.ZeroCount = new(int32(schema)), new(0.0), new(uint64(0))
	// One span covers everything from the first to the last bucket, because an empty bucket costs only a
	// byte. An empty span marks a histogram without observations as native.
	span := &dto.BucketSpan{Offset: new(int32(0)), Length: new(uint32(0))}
	before := uint64(0)
	for i := first; i <= last; i++ {
		d.PositiveDelta = append(d.PositiveDelta, int64(observed[i]-before))
		before = observed[i]
	}
	if last >= 0 {
		span.Offset, span.Length = new(int32(first+octaveMin*perOctave)), new(uint32(len(d.PositiveDelta)))
	}
	d.PositiveSpan = []*dto.BucketSpan{span}
	m.Label, m.Histogram = h.labels, d
	return nil
}

// writeClassic sets the classic buckets and the count of d.
func (h *Histogram) writeClassic(d *dto.Histogram, observed []uint64) {
	count, next := uint64(0), 0
	for octave := h.family.octaveFirst; octave <= h.family.octaveLast; octave++ {
		for ; next <= (octave-octaveMin)*perOctave; next++ {
			count += observed[next]
		}
		d.Bucket = append(d.Bucket, &dto.Bucket{CumulativeCount: new(count), UpperBound: new(math.Exp2(float64(octave)))})
	}
	for ; next < len(observed); next++ {
		count += observed[next]
	}
	d.SampleCount = new(count)
}
