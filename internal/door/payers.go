package door

import (
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
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

// watched is a Follower with a record of whether it hangs: it does nothing for hungAfter although it may.
type watched struct {
	Follower
	hung atomic.Uint64 // 1 + the position at which it was found to hang; 0 for none

	// mu guards the fields below.
	mu    sync.Mutex
	at    uint64    // its position at the last look
	since time.Time // when a look first found it there with records to do; zero if it had none
}

// hangs reports whether the follower was found to hang at its present position.
func (f *watched) hangs(position uint64) bool { return f.hung.Load() == position+1 }

// look notes the follower's position, and reports whether it is found to hang. It is called while clients wait for
// followers, and when an order is rejected because of them. It is of no importance how often: a follower that is still
// where it was at an earlier look, with records to do, has done nothing since.
func (f *watched) look(now time.Time) (found bool) {
	at, visible := f.Position(), f.Visible()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case at >= visible:
		f.at, f.since = at, time.Time{}
	case at != f.at || f.since.IsZero():
		f.at, f.since = at, now
	case now.Sub(f.since) >= hungAfter && !f.hangs(at):
		f.hung.Store(at + 1)
		return true
	}
	return false
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

// lag drops what all followers have done, and returns the largest work that one of them may do now. A follower that
// hangs does not count.
func (c *charge) lag(followers []*watched) (l lag) {
	done := uint64(math.MaxUint64)
	for _, f := range followers {
		at, visible, work := f.Position(), f.Visible(), int64(0)
		for _, o := range c.owed {
			if at < o.seq && o.seq <= visible {
				work += o.work
			}
		}
		if done = min(done, at); work > l.work && !f.hangs(at) {
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
	slowest *watched // nil if there is no work
	visible uint64   // what the slowest follower may see
	until   uint64   // record at which the slowest follower has caught up enough; set if the work is above the share
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

// pressedGroups is the number of groups of payers for which payers.inGroup has a count.
const pressedGroups = 1 << 10

// payers has the charges of tokens or accounts. Its methods may be called from any goroutine.
type payers struct {
	followers []*watched

	// The counts below let clients that are not above lagTogether find that out without a lock.
	over    atomic.Int64                // length of pressed
	inGroup [pressedGroups]atomic.Int32 // how many of pressed have a key of this group, not counting others
	crowded atomic.Bool                 // others is in pressed

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
	key  uint64 // of its entry in payers.charges
	over bool   // it is in payers.pressed
}

// debt is work of a caller that is to be added to the charge of a payer.
type debt struct {
	account exchange.AccountID // whose commands it is; the first of them if there is a token, which pays for all
	key     uint64             // key of the payer
	seq     uint64             // its newest record
	work    int64
}

func newPayers(followers []Follower) *payers {
	p := &payers{seed: maphash.MakeSeed(), charges: make(map[uint64]*payer)}
	for _, f := range followers {
		p.followers = append(p.followers, &watched{Follower: f})
	}
	return p
}

// key returns the key of a token or account.
func (p *payers) key(name string) uint64 { return maphash.String(p.seed, name) }

// add adds work to the charges of tokens or accounts.
func (p *payers) add(debts []debt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookAtFirst()
	for i := range debts {
		d := &debts[i]
		one := p.charges[d.key]
		if one == nil {
			if len(p.charges) >= payersMax {
				p.sweep(time.Now())
			}
			if one = &p.others; len(p.charges) < payersMax {
				one = &payer{key: d.key}
				p.charges[d.key] = one
			}
		}
		if one.add(d.seq, d.work, lagTogether); one.sum > lagTogether {
			p.look(one)
		}
	}
}

// mayLag reports whether a token or account may be above lagTogether. It needs no lock.
func (p *payers) mayLag(key uint64) bool {
	return p.over.Load() > 0 && (p.inGroup[key%pressedGroups].Load() > 0 || p.crowded.Load())
}

// appendPressed appends the key of a token or account that may be above lagTogether to keys, once.
func (p *payers) appendPressed(keys []uint64, key uint64) []uint64 {
	if p.mayLag(key) && !slices.Contains(keys, key) {
		keys = append(keys, key)
	}
	return keys
}

// lag returns the lag of a token or account if it is above lagTogether, otherwise none.
func (p *payers) lag(key uint64) (l lag) {
	if !p.mayLag(key) {
		return lag{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookAtFirst()
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

// lookAtFirst looks at the first of pressed, so that each of them is soon looked at, even if its client sends nothing
// more. Callers hold mu.
func (p *payers) lookAtFirst() {
	if len(p.pressed) > 0 {
		p.look(p.pressed[0])
	}
}

// look updates pressed, and returns the lag of a payer if it is above lagTogether, otherwise none. Callers hold mu.
func (p *payers) look(one *payer) lag {
	l := one.lag(p.followers)
	over := l.work > lagTogether
	if over != one.over {
		p.press(one, over)
	}
	if !over {
		return lag{}
	}
	return l.within(&one.charge, lagTogether)
}

// press adds a payer to pressed, or removes it. Callers hold mu.
func (p *payers) press(one *payer, over bool) {
	by := int32(-1)
	if one.over = over; over {
		by = 1
		p.pressed = append(p.pressed, one)
	} else {
		p.pressed = slices.DeleteFunc(p.pressed, func(x *payer) bool { return x == one })
	}
	if one == &p.others {
		p.crowded.Store(over)
	} else {
		p.inGroup[one.key%pressedGroups].Add(by)
	}
	p.over.Store(int64(len(p.pressed)))
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
