package latency

import "math"

// Counts are the numbers of observations in each bucket, of all histograms of a family together.
type Counts [buckets]uint64

// Counts returns the observations since the start. Observations made during the call may or may not be
// included.
func (f *Family) Counts() *Counts {
	c := new(Counts)
	for _, h := range f.histograms {
		for i := range h.observed {
			c[i] += h.observed[i].Load()
		}
	}
	return c
}

// Since returns the observations made since the earlier Counts.
func (c *Counts) Since(earlier *Counts) *Counts {
	d := new(Counts)
	for i := range c {
		d[i] = c[i] - earlier[i]
	}
	return d
}

// Quantile returns the q-quantile in seconds, within 9 %, for q from 0 to 1. It returns 0 if there are no
// observations.
func (c *Counts) Quantile(q float64) float64 {
	var all, sum float64
	for _, n := range c {
		all += float64(n)
	}
	for i, n := range c {
		if sum += float64(n); n > 0 && sum >= q*all {
			most := boundOf(i)
			least := most / growth
			return least + (most-least)*(1-(sum-q*all)/float64(n))
		}
	}
	return 0
}

// growth is the ratio between the bounds of adjacent native buckets.
var growth = math.Exp2(1.0 / perOctave)

// boundOf returns the upper bound of a native bucket in seconds.
func boundOf(i int) float64 { return math.Exp2(octaveMin + float64(i)/perOctave) }
