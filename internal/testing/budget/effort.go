// Package budget shortens long tests that repeat or draw many cases. With -tags full, which `make prove`
// uses, no test is shortened. Nothing else depends on this tag, so go vet and staticcheck, which run with all
// other tags, see the code that the tests run.
package budget

// Of returns how many of n repetitions a test should do, at least 1: all n with -tags full, otherwise a
// third. Under the race detector, which is ten times as slow and only watches goroutines, it returns a tenth.
func Of(n int) int { return max(1, n/factor) }

// UnlessRaced is Of for tests that show nothing if they are shorter: it returns n, or a tenth of it, at least
// 1, under the race detector without -tags full.
func UnlessRaced(n int) int { return max(1, n/raceFactor) }
