package door

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// The journal has followers: the view of accounts and the market data feed. Answers to all clients wait for them. So
// the clients whose commands are the work that a follower has still to do are slowed down, and only they: what a
// follower has not done yet, although it may see it, is counted for each connection, and for each token or account.
//
// A connection that is above its share is not read, and a request waits, before it holds anything. So nothing else
// waits for them.

// Bounds of the work that followers have still to do for one client. Work is counted in records, fills and cancels; a
// follower does about a million a second.
const (
	// lagShare is how much work a connection may leave to the followers before it is not read.
	lagShare = 1 << 14

	// lagTogether is the same for all connections and requests of one token or, if tokens are not required, of one
	// account.
	lagTogether = 1 << 16

	// lagMax is the work above which orders are rejected. One frame may cause more work than lagShare.
	lagMax = 1 << 20

	// owedMax is the number of parts in which a charge is counted. More precise parts would be of no use.
	owedMax = 16

	// chargeStep is the work after which a connection adds its work to that of its token or account.
	chargeStep = 64

	// payersMax is the maximum number of tokens or accounts with a charge of their own. All further ones share one.
	payersMax = 1 << 16
)

// Follower is what a Server needs to know of a follower of the journal. *trail.Follower implements it. Its methods are
// called from many goroutines.
type Follower interface {
	// Position returns the last record that the follower has done, math.MaxUint64 if it has ended.
	Position() uint64
	// Visible returns the last record that the follower may see.
	Visible() uint64
	// Await returns nil once the follower has done record seq, or has ended. The error is ctx's.
	Await(ctx context.Context, seq uint64) error
}

// charge is the work of one client that followers may still have to do. The zero value is none.
type charge struct {
	owed []owed // sorted by seq; at most owedMax
	sum  int64  // work of all parts
}

// owed is the work of some records, of which seq is the newest.
type owed struct {
	seq  uint64
	work int64
}

// add adds the work of a record. share is that of the charge.
func (c *charge) add(seq uint64, work, share int64) {
	c.sum += work
	if n := len(c.owed); n > 0 {
		last := &c.owed[n-1]
		if seq = max(seq, last.seq); n == owedMax || last.work+work <= share/(owedMax/2) {
			last.seq, last.work = seq, last.work+work
			return
		}
	}
	if c.owed == nil {
		c.owed = make([]owed, 0, owedMax)
	}
	c.owed = append(c.owed, owed{seq, work})
}

// lag drops what all followers have done, and returns the largest work that one of them may do now.
func (c *charge) lag(followers []Follower) (l lag) {
	done := uint64(math.MaxUint64)
	for _, f := range followers {
		at, visible, work := f.Position(), f.Visible(), int64(0)
		for _, o := range c.owed {
			if at < o.seq && o.seq <= visible {
				work += o.work
			}
		}
		if done = min(done, at); work > l.work {
			l = lag{work: work, slowest: f, visible: visible}
		}
	}
	n := 0
	for ; n < len(c.owed) && c.owed[n].seq <= done; n++ {
		c.sum -= c.owed[n].work
	}
	c.owed = slices.Delete(c.owed, 0, n)
	return l
}

// lag is the work of a charge that a follower may do now.
type lag struct {
	work    int64
	slowest Follower // nil if there is no work
	visible uint64   // what the slowest follower may see
	until   uint64   // record at which the slowest follower has done enough; set if the work is above the share
}

// within returns l with until set: then at most half of share is left of what is visible now.
func (l lag) within(c *charge, share int64) lag {
	left := int64(0)
	for i := len(c.owed) - 1; i >= 0; i-- {
		o := c.owed[i]
		if o.seq > l.visible {
			continue
		}
		if left += o.work; left > share/2 {
			l.until = o.seq
			break
		}
	}
	return l
}

// max returns the larger of two lags.
func (l lag) max(other lag) lag {
	if other.work > l.work {
		return other
	}
	return l
}

// payers has the charges of tokens or accounts. Its methods may be called from any goroutine.
type payers struct {
	followers []Follower
	over      atomic.Int64 // length of pressed

	// mu guards the fields below.
	mu      sync.Mutex
	seed    maphash.Seed
	charges map[uint64]*payer // by a hash of the token's ID or the account, as accounts may be long
	others  payer             // those that have no entry in charges
	pressed []*payer          // those that were above lagTogether when they were last looked at
	swept   time.Time
}

// payer is a token or account.
type payer struct {
	charge
	over bool // it is in payers.pressed
}

func newPayers(followers []Follower) *payers {
	return &payers{followers: followers, seed: maphash.MakeSeed(), charges: make(map[uint64]*payer)}
}

// key returns the key of a token or account.
func (p *payers) key(name string) uint64 { return maphash.String(p.seed, name) }

// add adds work to the charge of a token or account.
func (p *payers) add(key, seq uint64, work int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.charges[key]
	if one == nil {
		if len(p.charges) >= payersMax {
			p.sweep(time.Now())
		}
		if one = &p.others; len(p.charges) < payersMax {
			one = new(payer)
			p.charges[key] = one
		}
	}
	if one.add(seq, work, lagTogether); one.sum > lagTogether {
		p.look(one)
	}
}

// lag returns the lag of a token or account if it is above lagTogether, otherwise none.
func (p *payers) lag(key uint64) (l lag) {
	if p.over.Load() == 0 {
		return lag{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pressed) > 0 {
		p.look(p.pressed[0]) // so that each of them is soon looked at, even if its client sends nothing more
	}
	one := p.charges[key]
	switch {
	case one != nil:
	case len(p.charges) < payersMax:
		return lag{}
	default:
		one = &p.others
	}
	return p.look(one)
}

// look updates pressed, and returns the lag of a payer if it is above lagTogether, otherwise none. Callers hold mu.
func (p *payers) look(one *payer) lag {
	l := one.lag(p.followers)
	over := l.work > lagTogether
	if over != one.over {
		if one.over = over; over {
			p.pressed = append(p.pressed, one)
		} else {
			p.pressed = slices.DeleteFunc(p.pressed, func(x *payer) bool { return x == one })
		}
		p.over.Store(int64(len(p.pressed)))
	}
	if !over {
		return lag{}
	}
	return l.within(&one.charge, lagTogether)
}

// sweep removes the charges of which nothing is left. Callers hold mu.
func (p *payers) sweep(now time.Time) {
	if now.Sub(p.swept) < paceSweepEvery {
		return
	}
	p.swept = now
	for key, one := range p.charges {
		if p.look(one); len(one.owed) == 0 {
			delete(p.charges, key)
		}
	}
}

// charge charges the caller for what commands have made the followers do.
func (c *Caller) charge(commands []engine.Request, results []exchange.Result) {
	p := c.server.payers
	if len(p.followers) == 0 {
		return
	}
	for i := range results {
		work := int64(results[i].Work)
		if work == 0 {
			continue
		}
		seq := results[i].Seq
		if c.connected {
			c.own.add(seq, work, lagShare)
			if c.unpaid += work; c.unpaid < chargeStep {
				continue
			}
			work, c.unpaid = c.unpaid, 0
		}
		c.payer = c.keyOf(commands[i].Account)
		p.add(c.payer, seq, work)
	}
}

// keyOf returns the key of the payer of a command.
func (c *Caller) keyOf(account exchange.AccountID) uint64 {
	if c.grant != nil {
		return c.server.payers.key(c.grant.ID)
	}
	return c.server.payers.key(string(account))
}

// lag returns what makes the caller wait: its work if it is above a share, otherwise none. For a caller without a
// connection, commands says whose share counts.
func (c *Caller) lag(commands []engine.Request) (l lag) {
	p := c.server.payers
	if c.own.sum > lagShare {
		if l = c.own.lag(p.followers); l.work <= lagShare {
			l = lag{}
		} else {
			l = l.within(&c.own, lagShare)
		}
	}
	switch {
	case p.over.Load() == 0:
		return l
	case c.grant != nil:
		return l.max(p.lag(c.keyOf("")))
	case c.connected:
		return l.max(p.lag(c.payer))
	}
	for i := range commands {
		if i == 0 || commands[i].Account != commands[i-1].Account {
			l = l.max(p.lag(c.keyOf(commands[i].Account)))
		}
	}
	return l
}

// waitForFollowers waits while the caller is above its share, but not above most. It calls check every slowCheckEvery,
// and returns its error. It returns early, with nil, when ctx or the caller's token ends or the server shuts down.
// waited reports whether it has waited. Its caller must hold nothing that others may need.
func (c *Caller) waitForFollowers(
	ctx context.Context, commands []engine.Request, most int64, check func() error,
) (waited bool, err error) {
	l := c.lag(commands)
	if l.slowest == nil || l.work > most {
		return false, nil
	}
	c.server.options.Metrics.hit(limitFollowers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.server.accepting, cancel)()
	if c.grant != nil {
		defer c.grant.AfterEnd(cancel)()
	}
	for ctx.Err() == nil && l.slowest != nil && l.work <= most {
		round, end := context.WithTimeout(ctx, slowCheckEvery)
		_ = l.slowest.Await(round, l.until)
		end()
		if err := check(); err != nil {
			return true, err
		}
		l = c.lag(commands)
	}
	return true, nil
}

// mayExecute waits, as waitForFollowers, before commands of a call or request are executed. Without a connection, at
// most answersMax callers wait, since each holds its commands. The error says that nothing may be done any more: it is
// ErrUnauthorized if the caller's token has ended, ErrBusy if too many wait, or ctx's.
func (c *Caller) mayExecute(ctx context.Context, commands []engine.Request) error {
	if len(commands) == 0 {
		return nil
	}
	if !c.connected && c.lag(commands).slowest != nil {
		defer c.server.slowed.Add(-1)
		if c.server.slowed.Add(1) > answersMax {
			return ErrBusy
		}
	}
	waited, _ := c.waitForFollowers(ctx, commands, math.MaxInt64, unchecked)
	switch {
	case !waited:
	case ctx.Err() != nil:
		return fmt.Errorf("session: wait for followers of the journal: %w", ctx.Err())
	case !c.server.accepts(c.grant):
		return ErrUnauthorized
	}
	return nil
}

// lags returns a refusal of an order if its sender is above lagMax, else the zero value. An order with a ref is passed
// on even then, as in pace.
func (j *judge) lags(c *engine.Request) (refusal exchange.Refusal) {
	own := []engine.Request{{Command: exchange.Command{Account: c.Account}}}
	l := j.caller.lag(own)
	if l.work <= lagMax {
		return refusal
	}
	j.caller.server.options.Metrics.hit(limitFollowers)
	if c.Ref != "" {
		c.Repeat = true
		return refusal
	}
	return exchange.Refusal{Reason: exchange.RateExceeded, Text: fmt.Sprintf("account views and market data do not have "+
		"%d records, fills and cancels of this client yet, and the limit is %d; try again later; cancel and query still work",
		l.work, lagMax)}
}
