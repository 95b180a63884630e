package market

import (
	"errors"
	"net/http"
	"os"
	"time"

	"outcry/internal/exchange"
)

// bufferMost is how much memory a reader keeps between updates.
const bufferMost = 64 << 10

// stream answers with events until the reader or the feed ends.
func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	f, err := a.current()
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	q := query{r.URL.Query()}
	depth, err := q.number("depth", depthDefault, 1, streamDepthMost)
	var name exchange.Symbol
	if given := q.Get("sym"); err == nil && given != "" {
		name, err = symbolOf(given)
	}
	var reader *reader
	var first []byte
	if err == nil {
		reader, first, err = f.hub.join(appendHello(nil, f.Seq(), a.start, a.options.Version), a.options.ReadersMax, name, depth)
	}
	if err != nil {
		if errors.Is(err, errTooManyReaders) {
			a.options.Metrics.refused.Inc()
		}
		refuse(w, statusOf(err), err)
		return
	}
	defer f.hub.leave(reader)
	a.options.Metrics.readers.Inc()
	defer a.options.Metrics.readers.Dec()
	if err := a.follow(w, r, f.hub, reader, first); errors.Is(err, os.ErrDeadlineExceeded) {
		a.options.Metrics.cutOff.Inc()
	}
}

// follow sends events, the first ones first. It returns why it ends: nil where the
// reader has gone or the feed has ended.
func (a *API) follow(w http.ResponseWriter, r *http.Request, h *hub, reader *reader, events []byte) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	// Events go to the socket as they are, one write for all that are new.
	header.Set("Transfer-Encoding", "identity")
	control := http.NewResponseController(w)
	// The server's limits are for requests that end.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	for {
		if len(events) > 0 {
			if err := control.SetWriteDeadline(time.Now().Add(a.options.WriteTimeout)); err != nil {
				return err
			}
			if _, err := w.Write(events); err != nil {
				return err
			}
			if err := control.Flush(); err != nil {
				return err
			}
		}
		if cap(events) > bufferMost {
			events = nil
		}
		var more <-chan struct{}
		var ended bool
		if events, more, ended = h.appendNews(events[:0], reader); len(events) > 0 {
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return nil
		}
	}
}
