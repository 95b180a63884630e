// Package budget decides how much a long test does. A run of tests is one of these:
//
//	go test -short         for a look: tests that start many programs are left out
//	go test                what CI runs: tests that repeat or draw many cases do a sixth of them
//	go test -race          what CI runs as well: a tenth, and tests that show no race are left out
//	go test -tags full     what `make prove` runs, with and without -race: everything
//
// Nothing else depends on the tag full, so go vet and staticcheck, which run with all other tags, see the code
// that the tests run.
package budget

import "testing"

// Of returns how many of n repetitions a test should do, at least 1: all n with -tags full, otherwise a
// sixth. Under the race detector, which is ten times as slow and only watches goroutines, it returns a tenth.
func Of(n int) int { return max(1, n/factor) }

// UnlessRaced is Of for tests that show nothing if they are shorter: it returns n, or a tenth of it, at least
// 1, under the race detector without -tags full.
func UnlessRaced(n int) int { return max(1, n/raceFactor) }

// Sample returns the cases that a test should try: all with -tags full, otherwise a third of them, at least one,
// in the same order. The seed, which the test prints, decides which.
func Sample[T any](seed uint64, all []T) []T {
	const part = 3
	if Full {
		return all
	}
	var some []T
	for i := int(seed % uint64(min(part, len(all)))); i < len(all); i += part {
		some = append(some, all[i])
	}
	return some
}

// Full reports whether tests run in full length, with -tags full.
const Full = factor == 1

// ShortRace reports whether the race detector is on, without -tags full.
const ShortRace = raceFactor > 1

// SkipRaced skips a test under the race detector, except with -tags full. It is for tests that are long there and
// show no race, or none that shorter tests do not show; why says which.
func SkipRaced(t testing.TB, why string) {
	t.Helper()
	if ShortRace {
		t.Skipf("under the race detector only with -tags full: %s", why)
	}
}

// SkipShort skips a test with -short. It is for tests whose second run, as an ordinary user, shows nothing new; why
// says why they are long.
func SkipShort(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("not with -short: %s", why)
	}
}

// SkipUnlessFull skips a test except with -tags full. It is for tests that are too long for CI; why says what CI runs
// in its place.
func SkipUnlessFull(t testing.TB, why string) {
	t.Helper()
	if !Full {
		t.Skipf("only with -tags full: %s", why)
	}
}
