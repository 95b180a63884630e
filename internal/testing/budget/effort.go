// Package budget decides how much a long test does. Tests are run in one of these ways:
//
//	go test -short         for a quick check: skips tests that start many programs
//	go test                in CI: tests that repeat or draw many cases do a sixth of them
//	go test -race          also in CI: these tests do a tenth, and tests that show no race are skipped
//	go test -tags full     in `make prove`, with and without -race: everything
//
// Nothing else depends on the tag full, so go vet and staticcheck, which run with all other tags, see the code
// that the tests run.
package budget

import "testing"

// Of returns how many of n repetitions a test should do, at least 1: all with -tags full, otherwise a sixth. Under
// the race detector, which makes tests ten times as slow and only watches goroutines, it returns a tenth.
func Of(n int) int { return max(1, n/factor) }

// UnlessRaced replaces Of for tests that show nothing with fewer repetitions: it returns n or, under the race
// detector without -tags full, a tenth of n, at least 1.
func UnlessRaced(n int) int { return max(1, n/raceFactor) }

// Sample returns the cases that a test should try, in their order: all with -tags full, otherwise a third, at least
// one. The seed, which the test prints, decides which cases.
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

// SkipRaced skips a test under the race detector, except with -tags full. It is for tests that take long there and
// show no race that shorter tests do not show; why is the reason.
func SkipRaced(t testing.TB, why string) {
	t.Helper()
	if ShortRace {
		t.Skipf("under the race detector only with -tags full: %s", why)
	}
}

// SkipShort skips a test with -short, with which CI repeats the tests as an ordinary user and tries the benchmarks.
// It is for tests that show nothing new there; why is the reason for skipping.
func SkipShort(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("not with -short: %s", why)
	}
}

// SkipUnlessFull skips a test except with -tags full. It is for tests that are too long for CI; why says what CI
// runs instead.
func SkipUnlessFull(t testing.TB, why string) {
	t.Helper()
	if !Full {
		t.Skipf("only with -tags full: %s", why)
	}
}
