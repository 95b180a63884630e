package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// xmlHandler answers POST /xml. The status is 200 for every frame that was answered,
// also where the answer is an error: as over TCP, the reply tells.
type xmlHandler struct {
	options Options
	running chan struct{} // holds a value for each request under way
	failed  atomic.Uint64 // requests that were not answered; each has a number in the log and in its reply
}

// ServeHTTP implements http.Handler.
func (h *xmlHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	default:
		h.refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d requests are under way and no more are taken; try again", cap(h.running)))
		return
	}
	if err := h.options.Started(); err != nil {
		h.refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	body, release, err := h.read(w, r)
	defer release()
	var tooLarge *http.MaxBytesError
	var noMemory *noMemoryError
	switch {
	case errors.As(err, &tooLarge):
		h.refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a frame is over the limit of %d bytes", tooLarge.Limit))
	case errors.As(err, &noMemory):
		h.refuse(w, http.StatusServiceUnavailable, err.Error())
	case err != nil:
		h.refuse(w, http.StatusBadRequest, "the body did not arrive: "+err.Error())
	default:
		h.answer(w, r, body, release)
	}
}

// noMemoryError is Admit's.
type noMemoryError struct{ error }

// read reads the body. What is more than smallBodyMax is admitted once so much has
// arrived. release gives back its memory, once; it may be called again.
func (h *xmlHandler) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	limited := http.MaxBytesReader(w, r.Body, int64(h.options.FrameBytesMax))
	body, err = io.ReadAll(io.LimitReader(limited, smallBodyMax+1))
	if err != nil || len(body) <= smallBodyMax {
		return body, func() {}, err
	}
	size := h.options.FrameBytesMax
	if n := r.ContentLength; n >= 0 && n < int64(size) {
		size = int(n)
	}
	release, err = h.options.Admit(r.Context(), size)
	if err != nil {
		return nil, func() {}, &noMemoryError{err}
	}
	rest, err := io.ReadAll(limited)
	return append(body, rest...), sync.OnceFunc(release), err
}

// answer has a frame answered. Its memory is given back before the reply is sent:
// that may take as long as the client likes.
func (h *xmlHandler) answer(w http.ResponseWriter, r *http.Request, xml []byte, release func()) {
	err := h.options.Answer(r.Context(), xml, func(reply []byte) {
		release()
		h.reply(w, http.StatusOK, reply)
	})
	if err != nil {
		id := h.failed.Add(1)
		if r.Context().Err() == nil { // the client is still there, so it is the exchange
			h.options.Log.Error("a request over HTTP is not answered", "request", id, "client", r.RemoteAddr, "error", err)
		}
		h.refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("the exchange is stopping; whether the request was done is known after it has started again (request %d)", id))
	}
}

func (h *xmlHandler) refuse(w http.ResponseWriter, status int, text string) {
	h.reply(w, status, h.options.Refuse(text))
}

func (h *xmlHandler) reply(w http.ResponseWriter, status int, xml []byte) {
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.Itoa(len(xml)))
	w.WriteHeader(status)
	_, _ = w.Write(xml) // a client that is gone misses it
}
