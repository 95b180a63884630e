package main

import (
	"slices"
	"sync"
	"time"
)

const (
	// lagMarksMax bounds how many moments are remembered. While Postgres is away they
	// grow; once there are so many, every second is dropped and half as many are made.
	lagMarksMax = 1024

	// lagStepMin is how far apart moments are at first: as exact as the lag is.
	lagStepMin = 10 * time.Millisecond
)

// lagMarks remembers when records were synced, so that what Postgres lacks can be told
// in seconds. Its methods may be called from any goroutine.
type lagMarks struct {
	mu    sync.Mutex // guards what follows
	marks []lagMark  // of rising seq and time
	step  time.Duration
	last  uint64 // the highest seq that was noted
}

// lagMark says that records after the mark before it, up to seq, were synced at a time
// or, at most a step, later.
type lagMark struct {
	seq uint64
	at  time.Time
}

// synced says that so many further records were synced by now. At first: that the
// journal had so many.
func (l *lagMarks) synced(records uint64, now time.Time) {
	if records == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last += records
	seq := l.last
	if n := len(l.marks); n > 0 && now.Sub(l.marks[n-1].at) < max(l.step, lagStepMin) {
		l.marks[n-1].seq = seq
		return
	}
	if len(l.marks) == lagMarksMax {
		l.thin()
	}
	l.marks = append(l.marks, lagMark{seq, now})
}

// thin drops every second mark: the one before it stands for its records too, which
// then seem older than they are, by up to a step.
func (l *lagMarks) thin() {
	l.step = 2 * max(l.step, lagStepMin)
	kept := l.marks[:0]
	for i := 0; i < len(l.marks); i += 2 {
		m := l.marks[i]
		if i+1 < len(l.marks) {
			m.seq = l.marks[i+1].seq
		}
		kept = append(kept, m)
	}
	l.marks = kept
}

// lag returns how long ago the oldest record after applied was synced, 0 where there
// is none. Everything up to applied is forgotten.
func (l *lagMarks) lag(applied uint64, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := slices.IndexFunc(l.marks, func(m lagMark) bool { return m.seq > applied })
	if first < 0 {
		l.marks, l.step = l.marks[:0], 0
		return 0
	}
	l.marks = append(l.marks[:0], l.marks[first:]...)
	return now.Sub(l.marks[0].at)
}
