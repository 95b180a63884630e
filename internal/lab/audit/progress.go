package audit

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"outcry/internal/door/xml/wire"
)

// bulk is what orders of accounts came to that are sent in such numbers that they have
// no serial numbers: an order is known by its id, once it was told.
type bulk struct {
	accounts map[string]bool
	sent     int64
	told     map[uint64]bool // reports whether the tables still have to show it
}

func newBulk(accounts []string) bulk {
	b := bulk{accounts: map[string]bool{}, told: map[uint64]bool{}}
	for _, id := range accounts {
		b.accounts[id] = true
	}
	return b
}

// match takes in a row.
func (b *bulk) match(o *order) error {
	b.told[o.id] = false
	if int64(len(b.told)) > b.sent {
		return fmt.Errorf("order %d of bulk account %s is there, and only %d were sent: one is there twice",
			o.id, o.account, b.sent)
	}
	return nil
}

// lost returns an error if an order was answered and is not in the tables.
func (b *bulk) lost() error {
	for id, missing := range b.told {
		if missing {
			return fmt.Errorf("order %d of a bulk account was answered with <opened> and is lost", id)
		}
	}
	return nil
}

// BulkSent takes in that n orders of bulk accounts are about to be sent. Any goroutine
// may call it.
func (s *Session) BulkSent(n int) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	s.history.bulk.sent += int64(n)
}

// BulkTold takes in answers to orders of bulk accounts, and returns the ids of those that
// were accepted, and the first refusal. Any goroutine may call it.
func (s *Session) BulkTold(answers []wire.Answer) (ids []uint64, refusal string) {
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
		s.history.bulk.told[id] = true
		ids = append(ids, id)
	}
	return ids, refusal
}

// NewPace returns a histogram of nanoseconds.
func NewPace() *hdrhistogram.Histogram { return hdrhistogram.New(1000, 100e9, 2) }

// took notes how long a client waited.
func (h *history) took(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.pace.RecordValue(min(int64(d), h.pace.HighestTrackableValue()))
}

// CutPace returns the times from a batch of frames to each of its replies, since it was
// called before. Any goroutine may call it.
func (s *Session) CutPace() *hdrhistogram.Histogram {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	was := s.history.pace
	s.history.pace = NewPace()
	return was
}

// silence is the longest time between two answers, of whatever clients.
type silence struct {
	last    time.Time
	longest time.Duration
}

// answered notes an answer.
func (s *silence) answered(now time.Time) {
	if !s.last.IsZero() {
		s.longest = max(s.longest, now.Sub(s.last))
	}
	s.last = now
}

// Listen begins to look for the longest silence anew.
func (s *Session) Listen() { s.history.listen() }

// LongestSilence returns the longest time without an answer since Listen, one that lasts
// included.
func (s *Session) LongestSilence() time.Duration { return s.history.longestSilence() }

func (h *history) listen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silence.longest = 0
}

func (h *history) longestSilence() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.silence.longest, time.Since(h.silence.last))
}

// NoRoom says whether a disk is full: then what is new may be refused for that. Any goroutine
// may call it.
func (s *Session) NoRoom(full bool) { s.history.noRoom.Store(full) }

// Answered returns how many orders have been answered so far. Any goroutine may call it.
func (s *Session) Answered() int64 { return s.history.answeredNow() }

// Complaints returns what clients saw that is wrong so far. Any goroutine may call it.
func (s *Session) Complaints() []string { return s.history.complaints() }

// Counts returns the figures of all clients so far. Any goroutine may call it.
func (s *Session) Counts() Counts { return s.history.figures() }

// HighestID returns the highest id of an order that a client was told. Any goroutine may
// call it.
func (s *Session) HighestID() uint64 {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return s.history.highest
}
