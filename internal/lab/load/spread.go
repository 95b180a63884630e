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

// Wide reports whether the values are further apart than a fifth of the median: too far for one figure.
func (s Spread) Wide() bool { return s.Max-s.Min > s.Median/5 }

// Headline returns the median as write writes it, or the least and the most if they are too far apart for one
// figure.
func (s Spread) Headline(write func(float64) string) string {
	if least, most := write(s.Min), write(s.Max); s.Wide() && least != most {
		return least + "–" + most
	}
	return write(s.Median)
}
