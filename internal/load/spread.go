package load

import "slices"

// Spread is a median with the least and the most.
type Spread struct{ Median, Min, Max float64 }

// SpreadOf returns that of a figure of some measurements, of which there must be one.
func SpreadOf[T any](all []T, figure func(T) float64) Spread {
	var figures []float64
	for _, x := range all {
		figures = append(figures, figure(x))
	}
	slices.Sort(figures)
	n := len(figures)
	return Spread{(figures[(n-1)/2] + figures[n/2]) / 2, figures[0], figures[n-1]}
}
