package accounts

import (
	"log/slog"
	"slices"

	"outcry/internal/journal/trail"
)

// chunkRecords is how many records are applied while View.mu is held, and how many events an audience has memory for.
// A chunk needs a few hundred microseconds, in which queries wait and other goroutines may need the processor.
const chunkRecords = 256

// reader is one listener: an account's Listener, or a symbol's OrdersListener.
type reader[E any] struct {
	tell  func(E)
	flush func()
	end   func(error)

	waits   bool // the reader has not got what it begins with yet, or not all news since then
	copies  bool // what the reader begins with is being copied in parts
	waiting []E  // news for a reader that waits
}

// audience is the listeners to one account or symbol, and the news not yet delivered to them. View.feeding guards it.
type audience[E any] struct {
	readers []*reader[E]
	news    []E
}

// tell queues news for the listeners. first reports whether the queue was empty; the caller must then add a to
// View.due.
func (a *audience[E]) tell(news E) (first bool) {
	if len(a.readers) == 0 {
		return false
	}
	a.news = append(a.news, news)
	return len(a.news) == 1
}

// deliver passes the queued news to the listeners. Each piece goes to all readers before the next piece, so that a
// door that encodes a message once for all readers need not keep many.
func (a *audience[E]) deliver() {
	for _, news := range a.news {
		for _, r := range a.readers {
			if r.waits {
				r.waiting = append(r.waiting, news)
			} else {
				r.tell(news)
			}
		}
	}
	for _, r := range a.readers {
		if !r.waits {
			r.flush()
		}
	}
	clear(a.news)
	if a.news = a.news[:0]; cap(a.news) > chunkRecords {
		a.news = nil
	}
}

// remove removes a reader.
func (a *audience[E]) remove(r *reader[E]) {
	a.readers = slices.DeleteFunc(a.readers, func(other *reader[E]) bool { return other == r })
}

// end ends the subscription of all readers with an error.
func (a *audience[E]) end(err error, log *slog.Logger) {
	for _, r := range a.readers {
		if !r.waits {
			trail.EndListener(log, func() { r.end(err) })
		}
	}
	a.readers = nil
}
