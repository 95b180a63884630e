package replica

import (
	"context"
	"sort"
)

// A read may be told once it is known that this node still led after it: a record that was
// appended later is committed, or a round of messages to a majority, begun later, has come
// back. The seq of a read is that of the last record that was appended when it was over, so
// any behind it was appended later; or it is 0, and then rounds alone count. Rounds are
// numbered. The loop raises begun before it begins one, so callers who have read begun before know
// that round begun + 1 begins after that. All who wait share one round.

// round is a round that somebody waits for.
type round struct {
	n    uint64
	over bool // confirmed, or never will be
	waiters
}

// Round returns the number of the round that begins next. It asks for none: WaitConfirmed and
// NotifyConfirmed do.
func (l *leadership) Round() uint64 { return l.begun.Load() + 1 }

// Confirmed reports whether WaitConfirmed(seq, round) would return nil at once; see there.
func (l *leadership) Confirmed(seq, round uint64) bool {
	return l.reached(seq, round) && l.over.Load() == nil // in this order: see leadership
}

func (l *leadership) reached(seq, round uint64) bool {
	committed := l.committed.Load()
	return committed >= seq && (round == 0 || l.confirmed.Load() >= round || committed > seq && seq > 0)
}

// later reports whether a record is on its way that confirms a read of this seq.
func (l *leadership) later(seq uint64) bool { return seq > 0 && l.appended.Load() > seq }

// WaitConfirmed waits until everything up to seq is committed and, unless round is 0, it is
// known that this node still led: in the round or a later one or, unless seq is 0, when a record
// behind seq was committed. It asks for the round if no such record is on its way. The
// error is that of Err, or ctx's.
func (l *leadership) WaitConfirmed(ctx context.Context, seq, round uint64) error {
	if round == 0 {
		return l.Wait(ctx, seq)
	}
	for {
		reached := l.reached(seq, round)
		if err := l.Err(); err != nil || reached {
			return err
		}
		if l.later(seq) {
			return l.Wait(ctx, seq+1)
		}
		r := l.ask(round) // before Wait: both go on at the same time
		if err := l.Wait(ctx, seq); err != nil {
			return err
		}
		if r == nil {
			continue
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// NotifyConfirmed sends to wake once WaitConfirmed(seq, round) would not wait, or at once. It
// does not wait for wake to take the value: a channel with room for one misses nothing.
func (l *leadership) NotifyConfirmed(seq, round uint64, wake chan<- struct{}) {
	switch {
	case round == 0:
		l.Notify(seq, wake)
		return
	case l.later(seq):
		l.Notify(seq+1, wake)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r, b := l.roundOf(round), l.batchOf(seq)
	switch {
	case b != nil:
		b.notify = append(b.notify, notification{wake, r})
	case r != nil:
		r.notify = append(r.notify, notification{wake: wake})
	default:
		wakeUp(wake)
	}
}

// ask returns the round, and lets the loop begin it; nil if it is confirmed, or all is over.
func (l *leadership) ask(n uint64) *round {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.roundOf(n)
}

// roundOf is ask for callers who hold mu.
func (l *leadership) roundOf(n uint64) *round {
	if l.confirmed.Load() >= n || l.over.Load() != nil {
		return nil
	}
	i := sort.Search(len(l.rounds), func(i int) bool { return l.rounds[i].n >= n })
	if i < len(l.rounds) && l.rounds[i].n == n {
		return l.rounds[i]
	}
	r := &round{n: n, waiters: waiters{done: make(chan struct{})}}
	l.rounds = append(l.rounds, nil)
	copy(l.rounds[i+1:], l.rounds[i:])
	l.rounds[i] = r
	l.wake()
	return r
}

// beginRound reports whether somebody waits for a round that has not begun, and counts it as
// begun: the loop then asks for it. It returns its number.
func (l *leadership) beginRound() (n uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rounds) == 0 || l.rounds[len(l.rounds)-1].n <= l.begun.Load() || l.over.Load() != nil {
		return 0, false
	}
	return l.begun.Add(1), true
}

// confirm notes that this node led in round n. The loop alone calls it.
func (l *leadership) confirm(n uint64) {
	if l.over.Load() != nil || n <= l.confirmed.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed.Store(n)
	done := 0
	for ; done < len(l.rounds) && l.rounds[done].n <= n; done++ {
		l.rounds[done].over = true
		l.rounds[done].finish()
	}
	l.rounds = append(l.rounds[:0], l.rounds[done:]...)
}
