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

// errSlowest says that a body was cut off to make room for others.
var errSlowest = errors.New("too many others are arriving, and this one began first")

// bodies are those of POST /xml that arrive. There are bodiesMax at most, each with
// bodyTimeout to arrive: one more cuts off the one that began first, so that slow clients,
// however many, hold up no client that sends what was announced.
type bodies struct {
	mu       sync.Mutex
	arriving list.List // of *body, the oldest first
}

// body is one that arrives. Its bodies' mu guards it.
type body struct {
	control *http.ResponseController // of a request that is not over
	cutOff  bool
}

// begin notes that a body is read from now on. end is called before the request is over,
// with what reading came to, and returns that, or errSlowest if the body was cut off.
func (b *bodies) begin(w http.ResponseWriter) (end func(error) error) {
	mine := &body{control: http.NewResponseController(w)}
	_ = mine.control.SetReadDeadline(time.Now().Add(bodyTimeout)) // else the server's holds
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
		if err == nil { // else the server still reads the rest, before it answers
			_ = mine.control.SetReadDeadline(time.Time{}) // only whether the client is there is read on
		}
		return err
	}
}

// remove takes a body out.
func (b *bodies) remove(place *list.Element) *body { return b.arriving.Remove(place).(*body) }

// cut ends the reading of a body at once.
func (b *body) cut() {
	b.cutOff = true
	_ = b.control.SetReadDeadline(time.Unix(1, 0))
}

// read reads the body of a request. What is more than smallBodyMax is admitted once so
// much has arrived. release gives back its memory, once; it may be called again.
func (h *xmlHandler) read(w http.ResponseWriter, r *http.Request) (xml []byte, release func(), err error) {
	release = func() {}
	most := int64(h.options.FrameBytesMax)
	if r.ContentLength > most { // who waits for "100 Continue" is refused before sending
		return nil, release, &http.MaxBytesError{Limit: most}
	}
	end := h.bodies.begin(w)
	defer func() { err = end(err) }()
	limited := http.MaxBytesReader(w, r.Body, most)
	xml, err = io.ReadAll(io.LimitReader(limited, smallBodyMax+1))
	if err != nil || len(xml) <= smallBodyMax {
		return xml, release, err
	}
	size := int(most)
	if r.ContentLength >= 0 {
		size = int(r.ContentLength)
	}
	free, err := h.options.Admit(r.Context(), size)
	if err != nil {
		return nil, release, &noMemoryError{err}
	}
	all := bytes.NewBuffer(append(make([]byte, 0, size+bytes.MinRead), xml...)) // which does not grow
	_, err = all.ReadFrom(limited)
	return all.Bytes(), sync.OnceFunc(free), err
}
