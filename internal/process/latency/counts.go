package latency

import "math"

// Counts are what histograms had observed at a moment, all of a family together.
type Counts [buckets]uint64

// Counts returns what the family's histograms have observed since the start. What is
// observed meanwhile may be in it or not.
func (f *Family) Counts() *Counts {
	c := new(Counts)
	for _, h := range f.histograms {
		for i := range h.observed {
			c[i] += h.observed[i].Load()
		}
	}
	return c
}

// Since returns what came after an earlier moment.
func (c *Counts) Since(earlier *Counts) *Counts {
	d := new(Counts)
	for i := range c {
		d[i] = c[i] - earlier[i]
	}
	return d
}

// Quantile returns how many seconds a part q, from 0 to 1, of what was observed took at
// the most, to 9 %; 0 if nothing was.
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

// growth is by what the bounds of neighbouring native buckets differ.
var growth = math.Exp2(1.0 / perOctave)

// boundOf returns the upper bound of a native bucket in seconds.
func boundOf(i int) float64 { return math.Exp2(octaveMin + float64(i)/perOctave) }
