package door

import (
	"hash/maphash"
	"io"
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
	// lately. If there are more, the others share one allowance.
	accountsPacedMax = 1 << 16
	paceSweepEvery   = 100 * time.Millisecond

	// slowMax bounds how long a connection is not read, whatever its last frames held:
	// it has a place among --max-connections meanwhile. What is over it is forgiven.
	slowMax = time.Minute

	// slowCheckEvery is how often it is checked meanwhile whether the client is still
	// there, and the limit still the same.
	slowCheckEvery = time.Second
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
	return a.over(now)
}

// over returns how long the user is over the rate, 0 if not.
func (a *allowance) over(now time.Time) time.Duration {
	return max(0, a.whole.Sub(now.Add(rateBurst)))
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
// above it. 0 is no limit. It takes effect with the frames that are read next; who is
// being slowed down by another limit is read again within a second. It may be called
// from any goroutine.
func (s *Server) SetRates(connection, account int) {
	s.connectionRate.Store(int64(connection))
	s.accountRate.Store(int64(account))
}

// bound lets nobody be over a rate for longer than most.
func (a *allowance) bound(most time.Duration, now time.Time) {
	if last := now.Add(rateBurst + most); a.whole.After(last) {
		a.whole = last
	}
}

// slowDown waits while the session is over the rate of a connection, after n commands
// more. It returns early if the session is to end. The error says that the client is
// gone.
func (c *session) slowDown(rate int64, n int) error {
	now := time.Now()
	if c.sent.take(n, rate, now) == 0 {
		return nil
	}
	c.sent.bound(slowMax, now)
	c.server.options.Metrics.hit(limitRateConnection)
	ended := make(chan struct{})
	if c.grant != nil {
		defer c.grant.AfterEnd(func() { close(ended) })()
	}
	for {
		over := c.sent.over(time.Now())
		if over == 0 {
			c.clock.restart() // the client could do nothing meanwhile
			return nil
		}
		timer := time.NewTimer(min(over, slowCheckEvery))
		select {
		case <-timer.C:
		case <-ended:
		case <-c.ctx.Done():
		case <-c.server.accepting.Done():
		}
		timer.Stop()
		if c.tokenEnded() || c.ctx.Err() != nil || c.server.isDraining() {
			return nil
		}
		if c.server.connectionRate.Load() != rate {
			c.sent = allowance{} // of another rate
		} else if err := c.checkPeer(); err != nil {
			return err
		}
	}
}

// checkPeer returns io.EOF if the client is gone and left nothing to do, another error
// if nothing can be sent to it any more.
func (c *session) checkPeer() error {
	err := peerError(c.conn)
	if err == io.EOF && (c.next != nil || c.frames.Buffered()) {
		return nil
	}
	return err
}
