package audit

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"outcry/internal/door/xml/wire"
)

// bulk records orders of the bulk accounts. These orders are too many to have serial numbers, so an order is
// recognized by the id in its answer.
type bulk struct {
	accounts map[string]bool
	sent     int64
	answered map[uint64]bool // ids of answered orders; true until the tables show the order
}

func newBulk(accounts []string) bulk {
	b := bulk{accounts: map[string]bool{}, answered: map[uint64]bool{}}
	for _, id := range accounts {
		b.accounts[id] = true
	}
	return b
}

// match records an order's row in the tables.
func (b *bulk) match(o *order) error {
	b.answered[o.id] = false
	if int64(len(b.answered)) > b.sent {
		return fmt.Errorf("order %d of bulk account %s is in the tables, but only %d were sent: one appears twice",
			o.id, o.account, b.sent)
	}
	return nil
}

// lost returns an error if an answered order is missing in the tables.
func (b *bulk) lost() error {
	for id, missing := range b.answered {
		if missing {
			return fmt.Errorf("order %d of a bulk account was answered with <opened>, but is lost", id)
		}
	}
	return nil
}

// BulkSent counts n orders of bulk accounts before they are sent. Any goroutine may call it.
func (s *Session) BulkSent(n int) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	s.history.bulk.sent += int64(n)
}

// BulkAnswered records answers to orders of bulk accounts. It returns the ids of the accepted orders and the
// text of the first rejection. Any goroutine may call it.
func (s *Session) BulkAnswered(answers []wire.Answer) (ids []uint64, refusal string) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	for _, a := range answers {
		if a.Kind != "opened" {
			if refusal == "" {
				refusal = a.Error
			}
			continue
		}
		id := number(a.ID)
		s.history.bulk.answered[id] = true
		ids = append(ids, id)
	}
	return ids, refusal
}

// NewPace returns an empty histogram of nanoseconds.
func NewPace() *hdrhistogram.Histogram { return hdrhistogram.New(1000, 100e9, 2) }

// took records how long a client waited.
func (h *knowledge) took(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.pace.RecordValue(min(int64(d), h.pace.HighestTrackableValue()))
}

// CutPace returns the times from a batch of frames to each of its replies, since the previous call. Any
// goroutine may call it.
func (s *Session) CutPace() *hdrhistogram.Histogram {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	was := s.history.pace
	s.history.pace = NewPace()
	return was
}

// silence is the longest time between two answers to any clients.
type silence struct {
	last    time.Time
	longest time.Duration
}

// answered records an answer.
func (s *silence) answered(now time.Time) {
	if !s.last.IsZero() {
		s.longest = max(s.longest, now.Sub(s.last))
	}
	s.last = now
}

// Listen restarts the measurement of LongestSilence.
func (s *Session) Listen() { s.history.listen() }

// LongestSilence returns the longest time without an answer since Listen, including the time since the
// last answer.
func (s *Session) LongestSilence() time.Duration { return s.history.longestSilence() }

func (h *knowledge) listen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silence.longest = 0
}

func (h *knowledge) longestSilence() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.silence.longest, time.Since(h.silence.last))
}

// NoRoom sets whether a disk is full: if so, commands that need room may be rejected. Any goroutine may
// call it.
func (s *Session) NoRoom(full bool) { s.history.noRoom.Store(full) }

// Answered returns how many orders have been answered so far. Any goroutine may call it.
func (s *Session) Answered() int64 { return s.history.answeredNow() }

// Complaints returns all errors that clients have observed so far. Any goroutine may call it.
func (s *Session) Complaints() []string { return s.history.complaints() }

// Counts returns the totals of all clients so far. Any goroutine may call it.
func (s *Session) Counts() Counts { return s.history.figures() }

// HighestID returns the highest order id in any answer. Any goroutine may call it.
func (s *Session) HighestID() uint64 {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return s.history.highest
}
