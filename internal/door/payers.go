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

// Payers are in sets, by a hash. Only the payers of one set can ever share a charge.
const (
	payerSets = 1 << 12
	setMax    = 16 // payers of a set that have a charge of their own; further ones share one of these charges
)

// payers has the charges of tokens, accounts and addresses. Its methods may be called from any goroutine.
type payers struct {
	followers []*watched

	// The counts below let clients that are not above lagTogether find that out without a lock.
	over  atomic.Int64            // length of pressed
	inSet [payerSets]atomic.Int32 // how many of pressed are in this set

	// mu guards the fields below.
	mu      sync.Mutex
	seed    maphash.Seed
	sets    [payerSets][]*payer // each of up to setMax payers
	pressed []*payer            // those with more work than lagTogether when they were last looked at
}

// payer is a token, an account, or the address of a client without either.
type payer struct {
	charge
	key  uint64 // a hash of the token's ID, the account or the address, as accounts may be long
	over bool   // it is in payers.pressed
}

// debt is work of a caller that is to be added to the charge of a payer.
type debt struct {
	payer exchange.AccountID // who pays (Caller.payerOf); of no meaning if there is a token, which pays for all
	key   uint64             // key of the payer
	seq   uint64             // its newest record
	work  int64
}

func newPayers(followers []Follower) *payers {
	p := &payers{seed: maphash.MakeSeed()}
	for _, f := range followers {
		p.followers = append(p.followers, &watched{Follower: f})
	}
	return p
}

// key returns the key of a token, account or address.
func (p *payers) key(name string) uint64 { return maphash.String(p.seed, name) }

// add adds work to the charges of payers.
func (p *payers) add(debts []debt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookAtFirst()
	for i := range debts {
		d := &debts[i]
		one := p.enlist(d.key)
		if one.add(d.seq, d.work, lagTogether); one.sum > lagTogether {
			p.look(one)
		}
	}
}

// find returns the payer with a key, and whether it has a charge of its own. Otherwise it is the payer whose charge it
// shares, and nil if its set is not full. Callers hold mu.
func (p *payers) find(key uint64) (one *payer, own bool) {
	set := p.sets[key%payerSets]
	for _, one := range set {
		if one.key == key {
			return one, true
		}
	}
	if len(set) < setMax {
		return nil, false
	}
	return set[key>>32%setMax], false
}

// enlist returns the payer with a key, as find does. Before that, it gives a payer without a charge one of which
// nothing is left, or a new one if its set is not full. Callers hold mu.
func (p *payers) enlist(key uint64) *payer {
	shared, own := p.find(key)
	if own {
		return shared
	}
	set := &p.sets[key%payerSets]
	for _, one := range *set {
		if p.look(one); len(one.owed) == 0 {
			one.key = key
			return one
		}
	}
	if shared != nil {
		return shared
	}
	one := &payer{key: key}
	*set = append(*set, one)
	return one
}

// mayLag reports whether a payer may be above lagTogether. It needs no lock.
func (p *payers) mayLag(key uint64) bool {
	return p.over.Load() > 0 && p.inSet[key%payerSets].Load() > 0
}

// appendPressed appends the key of a payer that is above lagTogether, as far as is known, to keys, once.
func (p *payers) appendPressed(keys []uint64, key uint64) []uint64 {
	if !p.mayLag(key) || slices.Contains(keys, key) {
		return keys
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, _ := p.find(key); one != nil && one.over && p.look(one).slowest != nil {
		keys = append(keys, key)
	}
	return keys
}

// lag returns the lag of a payer if it is above lagTogether, otherwise none.
func (p *payers) lag(key uint64) (l lag) {
	if !p.mayLag(key) {
		return lag{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookAtFirst()
	if one, _ := p.find(key); one != nil {
		l = p.look(one)
	}
	return l
}

// lookAtFirst looks at the first of pressed, so that each of them is soon looked at, even if its client sends nothing
// more. Callers hold mu.
func (p *payers) lookAtFirst() {
	if len(p.pressed) > 0 {
		p.look(p.pressed[0])
	}
}

// look updates pressed, and returns the lag of a payer if it is above lagTogether, otherwise none. A payer is also in
// pressed for work that no follower may see yet, because nothing looks again once they may. Callers hold mu.
func (p *payers) look(one *payer) lag {
	l := one.lag(p.followers)
	if over := one.sum > lagTogether; over != one.over {
		p.press(one, over)
	}
	if l.work <= lagTogether {
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
	p.inSet[one.key%payerSets].Add(by)
	p.over.Store(int64(len(p.pressed)))
}
