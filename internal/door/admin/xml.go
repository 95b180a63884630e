package admin

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
)

// xmlHandler answers POST /xml. The status is 200 for every frame with a reply, even if the reply is an error: as over
// TCP, only the reply itself reports it.
type xmlHandler struct {
	options Options
	bodies  bodies
	failed  atomic.Uint64 // number of requests without a reply; it identifies each in the log and in its answer
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
	case err == nil:
		h.answer(w, r, body, release)
	case errors.As(err, &tooLarge):
		h.refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a frame is over the limit of %d bytes", tooLarge.Limit))
	case errors.Is(err, h.options.Busy):
		h.refuseBusy(w)
	case errors.As(err, &noMemory):
		h.refuse(w, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, os.ErrDeadlineExceeded):
		h.refuse(w, http.StatusRequestTimeout, fmt.Sprintf("the body did not arrive within %s", bodyTimeout))
	case errors.Is(err, errSlowest):
		h.refuse(w, http.StatusServiceUnavailable, "the body did not arrive: "+err.Error())
	default:
		h.refuse(w, http.StatusBadRequest, "the body did not arrive: "+err.Error())
	}
}

// noMemoryError is an error of Options.Admit.
type noMemoryError struct{ error }

// answer executes a frame and sends the reply. The frame's memory is released before the reply is sent, because sending
// may take as long as the client likes.
func (h *xmlHandler) answer(w http.ResponseWriter, r *http.Request, xml []byte, release func()) {
	err := h.options.Answer(r.Context(), xml, func(reply []byte) {
		release()
		h.reply(w, http.StatusOK, reply)
	})
	switch {
	case err == nil:
	case errors.Is(err, h.options.Busy):
		h.refuseBusy(w)
	default:
		id := h.failed.Add(1)
		if r.Context().Err() == nil { // the client is still connected, so the exchange is the cause
			h.options.Log.Error("a request over HTTP is not answered", "request", id, "client", r.RemoteAddr, "error", err)
		}
		h.refuse(w, http.StatusServiceUnavailable,
			fmt.Sprintf("the exchange is stopping; whether the request was done is known after it has started again "+
				"(request %d)", id))
	}
}

// refuseBusy answers a request of which nothing was done, because too many are in progress or waiting.
func (h *xmlHandler) refuseBusy(w http.ResponseWriter) {
	h.refuse(w, http.StatusServiceUnavailable, "too many requests are in progress; nothing was done, try again")
}

func (h *xmlHandler) refuse(w http.ResponseWriter, status int, text string) {
	h.reply(w, status, h.options.Refuse(text))
}

func (h *xmlHandler) reply(w http.ResponseWriter, status int, xml []byte) {
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.Itoa(len(xml)))
	w.WriteHeader(status)
	_, _ = w.Write(xml) // an error means that the client has disconnected
}
