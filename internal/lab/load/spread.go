package load

import "slices"

// Spread is the median, minimum and maximum of a figure.
type Spread struct{ Median, Min, Max float64 }

// SpreadOf returns the spread of figure over all measurements. all must not be empty.
func SpreadOf[T any](all []T, figure func(T) float64) Spread {
	var figures []float64
	for _, x := range all {
		figures = append(figures, figure(x))
	}
	slices.Sort(figures)
	n := len(figures)
	return Spread{(figures[(n-1)/2] + figures[n/2]) / 2, figures[0], figures[n-1]}
}

// Wide reports whether the values differ by more than a fifth of the median: too much to report a single
// figure.
func (s Spread) Wide() bool { return s.Max-s.Min > s.Median/5 }

// Headline returns the formatted median or, if the spread is wide, the minimum and the maximum.
func (s Spread) Headline(write func(float64) string) string {
	if least, most := write(s.Min), write(s.Max); s.Wide() && least != most {
		return least + "–" + most
	}
	return write(s.Median)
}
