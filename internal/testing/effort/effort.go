// Package effort makes long tests shorter under the race detector, which costs ten times
// and looks at goroutines: a test of pure code that draws or counts many cases need not
// draw them all there. With -tags slow, as `make prove` runs them, none is shorter.
package effort

// Of returns how often a test repeats what it would repeat n times: n, or a tenth of it, at
// least 1, under the race detector without -tags slow.
func Of(n int) int { return max(1, n/factor) }
