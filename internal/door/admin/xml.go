package admin

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
)

// xmlHandler answers POST /xml. The status is 200 for every frame that was answered,
// also if the answer is an error: as over TCP, the reply says so.
type xmlHandler struct {
	options Options
	bodies  bodies
	failed  atomic.Uint64 // requests that were not answered; each has a number in the log and in its reply
}

// ServeHTTP implements http.Handler.
func (h *xmlHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	case errors.Is(err, os.ErrDeadlineExceeded):
		h.refuse(w, http.StatusRequestTimeout, fmt.Sprintf("the body did not arrive within %s", bodyTimeout))
	case errors.Is(err, errSlowest):
		h.refuse(w, http.StatusServiceUnavailable, "the body did not arrive: "+err.Error())
	case err != nil:
		h.refuse(w, http.StatusBadRequest, "the body did not arrive: "+err.Error())
	default:
		h.answer(w, r, body, release)
	}
}

// noMemoryError is Admit's.
type noMemoryError struct{ error }

// answer has a frame answered. Its memory is given back before the reply is sent:
// that may take as long as the client likes.
func (h *xmlHandler) answer(w http.ResponseWriter, r *http.Request, xml []byte, release func()) {
	err := h.options.Answer(r.Context(), xml, func(reply []byte) {
		release()
		h.reply(w, http.StatusOK, reply)
	})
	switch {
	case err == nil:
	case errors.Is(err, h.options.Busy):
		h.refuse(w, http.StatusServiceUnavailable, "too many requests are under way; nothing was done, try again")
	default:
		id := h.failed.Add(1)
		if r.Context().Err() == nil { // the client is still there, so it is the exchange
			h.options.Log.Error("a request over HTTP is not answered", "request", id, "client", r.RemoteAddr, "error", err)
		}
		h.refuse(w, http.StatusServiceUnavailable,
			fmt.Sprintf("the exchange is stopping; whether the request was done is known after it has started again "+
				"(request %d)", id))
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
