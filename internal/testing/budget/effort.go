// Package budget makes long tests shorter: one that draws or counts many cases need not draw
// them all each time. With -tags full, as `make prove` runs them, none is shorter. Nothing else has this tag: what
// go vet and staticcheck compile, with all other tags, is what the tests run.
package budget

// Of returns how often a test repeats what it would repeat n times: n with -tags full, otherwise
// a third, and a tenth under the race detector, which costs ten times and looks at goroutines; at
// least 1.
func Of(n int) int { return max(1, n/factor) }

// UnlessRaced is Of for what tells nothing if it is shorter: n, or a tenth of it, at least 1, under the
// race detector without -tags full.
func UnlessRaced(n int) int { return max(1, n/raceFactor) }
