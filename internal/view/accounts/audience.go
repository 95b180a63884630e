package accounts

import "slices"

// reader is somebody who listens: an account's Listener, or a symbol's OrdersListener.
type reader[E any] struct {
	tell  func(E)
	flush func()
	end   func(error)
}

// audience are those that listen to one thing, and what they are still to be told. It is guarded by View.feeding.
type audience[E any] struct {
	readers []*reader[E]
	news    []E
}

// tell notes what the audience is to be told, and reports whether it has to be delivered.
func (a *audience[E]) tell(news E) (first bool) {
	if len(a.readers) == 0 {
		return false
	}
	a.news = append(a.news, news)
	return len(a.news) == 1
}

// deliver tells it: each piece to all readers before the next, so that a door that makes a message of it once for all
// of them need not keep many.
func (a *audience[E]) deliver() {
	for _, news := range a.news {
		for _, r := range a.readers {
			r.tell(news)
		}
	}
	for _, r := range a.readers {
		r.flush()
	}
	clear(a.news)
	if a.news = a.news[:0]; cap(a.news) > chunkRecords {
		a.news = nil
	}
}

// remove takes a reader out.
func (a *audience[E]) remove(r *reader[E]) {
	a.readers = slices.DeleteFunc(a.readers, func(other *reader[E]) bool { return other == r })
}

// end tells all readers that it is over.
func (a *audience[E]) end(err error) {
	for _, r := range a.readers {
		r.end(err)
	}
	a.readers = nil
}
