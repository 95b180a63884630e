package health

import (
	"sort"
	"sync"
	"time"
)

const (
	// lagStep is the resolution of the times of the newest records.
	lagStep = 10 * time.Millisecond

	// lagPart determines the resolution for older records: a 50th of their age.
	lagPart = 50

	// lagMarksMax is the number of marks above which marks are merged that are closer together than the
	// resolution requires. The number that is left grows with the logarithm of the time span: half of
	// lagMarksMax suffices for three years.
	lagMarksMax = 4096
)

// LagMarks remembers when records were synced, so that the lag of Postgres can be given in seconds. The
// result is too large by up to ten milliseconds or 2 %, whichever is more, and never too small. This holds
// for every record, independent of earlier records and of how often Lag is called. Its methods may be called
// from any goroutine. The zero value has no marks.
type LagMarks struct {
	mu    sync.Mutex // guards the fields below
	marks []lagMark  // ascending by seq and time
	last  uint64     // the highest seq so far
}

// A lagMark covers the records after the previous mark up to seq: they were synced at this time or later, and
// before the time of the next mark.
type lagMark struct {
	seq uint64
	at  time.Time
}

// Synced records that the given number of further records was synced by now. The first call gives the number
// of records that the journal already had.
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

// merge combines marks: the records of a mark get the earlier time of the mark before it, if this makes them seem older
// by only a small part of their age. All of them were synced before the time of the next mark, which limits the error.
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

// Lag returns how long before now the oldest record after applied was synced, 0 if there is no such record or
// it was synced after now. It forgets everything up to applied.
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
