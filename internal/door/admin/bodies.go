package admin

import (
	"bytes"
	"container/list"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// errSlowest means that a body was cut off to make room for a newer one.
var errSlowest = errors.New("too many other bodies are arriving, and this one started first")

// bodies holds the bodies of POST /xml that are arriving, at most bodiesMax, each with bodyTimeout to arrive. If there
// are too many, the oldest one is cut off, so that any number of slow clients cannot block a client that sends its
// body promptly.
type bodies struct {
	mu       sync.Mutex
	arriving list.List // of *body, oldest first
}

// body is an arriving body. bodies.mu guards it.
type body struct {
	control *http.ResponseController // valid because the request is still in progress
	cutOff  bool
}

// begin registers a body that is about to be read, until the given time. end must be called before the request ends,
// with the error of reading. It returns that error, or errSlowest if the body was cut off.
func (b *bodies) begin(w http.ResponseWriter, until time.Time) (end func(error) error) {
	mine := &body{control: http.NewResponseController(w)}
	_ = mine.control.SetReadDeadline(until) // on failure, the server's own timeout applies
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.arriving.Len() >= bodiesMax {
		b.remove(b.arriving.Front()).cut()
	}
	place := b.arriving.PushBack(mine)
	return func(err error) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if mine.cutOff {
			return errSlowest
		}
		b.remove(place)
		if err == nil { // on an error, the server still reads the rest of the body before it answers
			_ = mine.control.SetReadDeadline(time.Time{}) // further reads only detect whether the client disconnects
		}
		return err
	}
}

// remove removes a body from the list.
func (b *bodies) remove(place *list.Element) *body { return b.arriving.Remove(place).(*body) }

// cut stops the reading of a body immediately.
func (b *body) cut() {
	b.cutOff = true
	_ = b.control.SetReadDeadline(time.Unix(1, 0))
}

// read reads the body of a request. A body of more than smallBodyMax bytes is admitted once that many have arrived.
// While it waits for that, it is not among the arriving bodies, and its time to arrive stands still. release returns
// its memory; it may be called more than once.
func (h *xmlHandler) read(w http.ResponseWriter, r *http.Request) (xml []byte, release func(), err error) {
	release = func() {}
	most := int64(h.options.FrameBytesMax)
	if r.ContentLength > most { // a client that waits for "100 Continue" is refused before it sends the body
		return nil, release, &http.MaxBytesError{Limit: most}
	}
	limited := http.MaxBytesReader(w, r.Body, most)
	until := time.Now().Add(bodyTimeout)
	end := h.bodies.begin(w, until)
	xml, err = io.ReadAll(io.LimitReader(limited, smallBodyMax+1))
	if err = end(err); err != nil || len(xml) <= smallBodyMax {
		return xml, release, err
	}
	size := int(most)
	if r.ContentLength >= 0 {
		size = int(r.ContentLength)
	}
	asked := time.Now()
	free, err := h.options.Admit(r.Context(), xml, size)
	switch {
	case err == nil:
	case errors.Is(err, h.options.Busy):
		return nil, release, err
	default:
		return nil, release, &noMemoryError{err}
	}
	end = h.bodies.begin(w, until.Add(time.Since(asked)))
	all := bytes.NewBuffer(append(make([]byte, 0, size+bytes.MinRead), xml...)) // large enough never to grow
	_, err = all.ReadFrom(limited)
	return all.Bytes(), sync.OnceFunc(free), end(err)
}
