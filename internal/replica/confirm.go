package replica

import (
	"context"
	"sort"
)

// The result of a read may be sent to clients once it is known that this node still led after the
// read. Either of two events proves that: a record appended after the read is committed, or a round
// of messages to a majority that started after the read is answered. The seq of a read is that of
// the last record appended when the read ended, so records with a higher seq were appended later.
// With seq 0 only rounds count. Rounds are numbered. The loop increments begun before it starts a
// round, so a caller that has loaded begun knows that round begun + 1 starts later. Waiting callers
// share rounds.

// round is a round that a caller waits for.
type round struct {
	n    uint64
	over bool // the round is confirmed, or never will be
	waiters
}

// Round returns the number of the next round. It does not request that round; WaitConfirmed and
// NotifyConfirmed do.
func (l *leadership) Round() uint64 { return l.begun.Load() + 1 }

// Confirmed reports whether WaitConfirmed(seq, round) would return nil without waiting.
func (l *leadership) Confirmed(seq, round uint64) bool {
	return l.reached(seq, round) && l.over.Load() == nil // in this order: see leadership
}

func (l *leadership) reached(seq, round uint64) bool {
	committed := l.committed.Load()
	return committed >= seq && (round == 0 || l.confirmed.Load() >= round || committed > seq && seq > 0)
}

// later reports whether a record that will confirm a read with this seq is appended but not committed yet.
func (l *leadership) later(seq uint64) bool { return seq > 0 && l.appended.Load() > seq }

// WaitConfirmed waits until all records up to seq are committed. Unless round is 0, it also waits for proof that this
// node still led: the round or a later one is confirmed, or, unless seq is 0, a record after seq is committed. It
// requests the round if no such record is in progress. The error is that of Err, or ctx's.
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
		r := l.ask(round) // requested before Wait, so that both proceed at the same time
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

// NotifyConfirmed sends to wake once WaitConfirmed(seq, round) would return without waiting, which
// may be at once. The send does not block, so wake should be a channel with a buffer of one.
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

// ask returns the round and requests it from the loop. It returns nil if the round is confirmed or
// the leadership is over.
func (l *leadership) ask(n uint64) *round {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.roundOf(n)
}

// roundOf is like ask; callers hold mu.
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

// beginRound reports whether a caller waits for a round that has not started. If so, it counts a
// round as started and returns its number; the loop then starts it.
func (l *leadership) beginRound() (n uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rounds) == 0 || l.rounds[len(l.rounds)-1].n <= l.begun.Load() || l.over.Load() != nil {
		return 0, false
	}
	return l.begun.Add(1), true
}

// confirm records that this node led in round n. Only the loop calls it.
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
