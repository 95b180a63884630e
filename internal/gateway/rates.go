package gateway

import (
	"hash/maphash"
	"sync"
	"time"

	"outcry/internal/exchange"
)

// Limits of rates.
const (
	// rateBurst is how long one may have been silent for what is sent at once: with a
	// limit of 100 a second, 100 commands may come together.
	rateBurst = time.Second

	// accountsPacedMax bounds the accounts that are over nothing yet but have sent
	// lately. Where there are more, the others share one allowance.
	accountsPacedMax = 1 << 16
	paceSweepEvery   = 100 * time.Millisecond
)

// allowance says when all of a rate will be there again: the virtual scheduling of
// the generic cell rate algorithm, one point in time for each who is limited.
type allowance struct{ whole time.Time }

// take uses n of rate a second, whether or not they are there, and returns how long
// the user then is over it.
func (a *allowance) take(n int, rate int64, now time.Time) (over time.Duration) {
	if a.whole.Before(now) {
		a.whole = now
	}
	a.whole = a.whole.Add(time.Duration(n) * time.Second / time.Duration(rate))
	return max(0, a.whole.Sub(now)-rateBurst)
}

// spend uses one of rate a second if it is there, and else returns how long it takes
// until it is.
func (a *allowance) spend(rate int64, now time.Time) (wait time.Duration) {
	before := *a
	if wait = a.take(1, rate, now); wait > 0 {
		*a = before
	}
	return wait
}

// accountRates are the allowances of accounts. Its methods may be called from any
// goroutine.
type accountRates struct {
	// mu guards what follows.
	mu     sync.Mutex
	seed   maphash.Seed
	paced  map[uint64]*allowance // by the hash of the account's id: an id may be long
	others allowance             // shared by those that found no place
	swept  time.Time
}

func newAccountRates() *accountRates {
	return &accountRates{seed: maphash.MakeSeed(), paced: make(map[uint64]*allowance)}
}

// spend is allowance.spend for an account.
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

// sweep forgets those that have their whole allowance. Callers hold mu.
func (r *accountRates) sweep(now time.Time) {
	r.swept = now
	for key, a := range r.paced {
		if !a.whole.After(now) {
			delete(r.paced, key)
		}
	}
}

// roundUp returns a wait as people read it, never too short a one.
func roundUp(wait time.Duration) time.Duration {
	return (wait + time.Millisecond - 1).Truncate(time.Millisecond)
}

// SetRates limits the commands a second of each connection, which is read more slowly
// above it, and the orders and creates a second of each account, which are refused
// above it. 0 is no limit. It takes effect with the frames that are read next. It may
// be called from any goroutine.
func (s *Server) SetRates(connection, account int) {
	s.connectionRate.Store(int64(connection))
	s.accountRate.Store(int64(account))
}

// slowDown waits while the session is over the rate of a connection, after n commands
// more. It returns early where the session is to end.
func (c *session) slowDown(rate int64, n int) {
	over := c.sent.take(n, rate, time.Now())
	if over == 0 {
		return
	}
	c.server.options.Metrics.hit(limitRateConnection)
	ended := make(chan struct{})
	if c.grant != nil {
		defer c.grant.AfterEnd(func() { close(ended) })()
	}
	timer := time.NewTimer(over)
	defer timer.Stop()
	select {
	case <-timer.C:
		c.clock.restart() // the client could do nothing meanwhile
	case <-ended:
	case <-c.ctx.Done():
	case <-c.server.accepting.Done():
	}
}
