package door

import (
	"hash/maphash"
	"sync"
	"time"

	"outcry/internal/exchange"
)

// Bounds of the rate limits.
const (
	// rateBurst is the burst that a rate limit allows, as a time: with a limit of 100 a second, 100 commands
	// may arrive at once.
	rateBurst = time.Second

	// accountsPacedMax is the maximum number of accounts with their own allowance: accounts that have sent commands
	// recently. All further accounts share one allowance.
	accountsPacedMax = 1 << 16
	paceSweepEvery   = 100 * time.Millisecond

	// slowMax bounds how long a connection is not read, whatever its last frames contained, because it keeps its place
	// among --max-connections during that time. The excess over slowMax is forgotten.
	slowMax = time.Minute

	// slowCheckEvery is how often a session that is slowed down checks whether its client is still there and
	// the limit unchanged.
	slowCheckEvery = time.Second
)

// allowance is the state of one rate limit: the time when it will be fully replenished. This is the virtual
// scheduling variant of the generic cell rate algorithm.
type allowance struct{ fullAt time.Time }

// take uses n units of a rate per second, even if that exceeds the limit. It returns how long it then takes
// until the limit is no longer exceeded.
func (a *allowance) take(n int, rate int64, now time.Time) (over time.Duration) {
	if a.fullAt.Before(now) {
		a.fullAt = now
	}
	a.fullAt = a.fullAt.Add(time.Duration(n) * time.Second / time.Duration(rate))
	return a.over(now)
}

// over returns how long it takes until the limit is no longer exceeded, 0 if it is not.
func (a *allowance) over(now time.Time) time.Duration {
	return max(0, a.fullAt.Sub(now.Add(rateBurst)))
}

// spend uses one unit of a rate per second if that does not exceed the limit. If it does, spend uses nothing
// and returns how long to wait.
func (a *allowance) spend(rate int64, now time.Time) (wait time.Duration) {
	before := *a
	if wait = a.take(1, rate, now); wait > 0 {
		*a = before
	}
	return wait
}

// accountRates holds the allowances of accounts. Its methods may be called from any goroutine.
type accountRates struct {
	// mu guards the fields below.
	mu     sync.Mutex
	seed   maphash.Seed
	paced  map[uint64]*allowance // by a hash of the account id, as ids may be long
	others allowance             // shared by accounts that have no entry in paced
	swept  time.Time
}

func newAccountRates() *accountRates {
	return &accountRates{seed: maphash.MakeSeed(), paced: make(map[uint64]*allowance)}
}

// spend uses one unit of an account's rate, or returns how long to wait (allowance.spend).
func (r *accountRates) spend(id exchange.AccountID, rate int64, now time.Time) (wait time.Duration) {
	key := maphash.String(r.seed, string(id))
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.paced[key]
	if a == nil {
		if len(r.paced) >= accountsPacedMax && now.Sub(r.swept) > paceSweepEvery {
			r.sweep(now)
		}
		if a = &r.others; len(r.paced) < accountsPacedMax {
			a = new(allowance)
			r.paced[key] = a
		}
	}
	return a.spend(rate, now)
}

// sweep removes the allowances that are fully replenished. Callers hold mu.
func (r *accountRates) sweep(now time.Time) {
	r.swept = now
	for key, a := range r.paced {
		if !a.fullAt.After(now) {
			delete(r.paced, key)
		}
	}
}

// roundUp rounds a wait up to whole milliseconds, for messages.
func roundUp(wait time.Duration) time.Duration {
	return (wait + time.Millisecond - 1).Truncate(time.Millisecond)
}

// bound reduces the time over a rate to at most the given time.
func (a *allowance) bound(most time.Duration, now time.Time) {
	if last := now.Add(rateBurst + most); a.fullAt.After(last) {
		a.fullAt = last
	}
}
