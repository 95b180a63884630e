package health

import (
	"sort"
	"sync"
	"time"
)

const (
	// lagStep is how exactly moments are remembered at first.
	lagStep = 10 * time.Millisecond

	// lagPart is how exactly they are remembered later: to the 50th part of how long
	// ago they were.
	lagPart = 50

	// lagMarksMax is how many moments are remembered before those that are closer
	// together than they need be are merged. What is left then grows with the logarithm
	// of the time that the marks span: half of it is enough for three years.
	lagMarksMax = 4096
)

// LagMarks remembers when records were synced, so that what Postgres lacks can be told
// in seconds: to 10 ms or 2 %, whichever is more, and never too little. That holds for
// each record by itself, whatever came before it, and whether or not anybody asks.
// Its methods may be called from any goroutine. The zero value has no marks.
type LagMarks struct {
	mu    sync.Mutex // guards what follows
	marks []lagMark  // of rising seq and time
	last  uint64     // the highest seq that was noted
}

// lagMark says that the records after the mark before it, up to seq, were synced at a
// time or later, but before the time of the next mark.
type lagMark struct {
	seq uint64
	at  time.Time
}

// Synced says that so many further records were synced by now. At first: that the
// journal had so many.
func (l *LagMarks) Synced(records uint64, now time.Time) {
	if records == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last += records
	if n := len(l.marks); n > 0 && now.Sub(l.marks[n-1].at) < lagStep {
		l.marks[n-1].seq = l.last
		return
	}
	if len(l.marks) == lagMarksMax {
		l.merge(now)
	}
	l.marks = append(l.marks, lagMark{l.last, now})
}

// merge lets marks stand for the records of those after them, where these then seem
// older by a small part of their age only: they were synced before the mark after both.
func (l *LagMarks) merge(now time.Time) {
	kept := l.marks[:1]
	for i, m := range l.marks[1 : len(l.marks)-1] {
		before, after := &kept[len(kept)-1], l.marks[i+2].at
		if after.Sub(before.at) <= now.Sub(after)/lagPart {
			before.seq = m.seq
		} else {
			kept = append(kept, m)
		}
	}
	l.marks = append(kept, l.marks[len(l.marks)-1])
}

// Lag returns how long before now the oldest record after applied was synced, 0 if
// there is none, or if that was since now. Everything up to applied is forgotten.
func (l *LagMarks) Lag(applied uint64, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := sort.Search(len(l.marks), func(i int) bool { return l.marks[i].seq > applied })
	l.marks = append(l.marks[:0], l.marks[first:]...)
	if len(l.marks) == 0 {
		return 0
	}
	return max(now.Sub(l.marks[0].at), 0)
}
