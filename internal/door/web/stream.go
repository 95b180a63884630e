package web

import (
	"errors"
	"net/http"
	"os"
	"time"

	"outcry/internal/view/market"
)

// pieceMost is how many bytes are written to a reader at a time. The reader has APIOptions.WriteTimeout to read that
// much.
const pieceMost = 32 << 10

// stream sends events until the reader disconnects or the feed ends.
func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	q := query{r.URL.Query()}
	h, err := a.ready(r, q)
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	depth, err := q.number("depth", depthDefault, 1, streamDepthMost)
	key := topicKey{depth: depth, interval: noCandles}
	if given := q.Get("sym"); err == nil && given != "" {
		key.name, err = symbolOf(given)
	}
	if err == nil && q.Get("interval") != "" {
		key.interval, err = q.interval()
	}
	var reader *reader
	var first [][]byte
	if err == nil {
		hello := appendHello(nil, h.feed.Seq(), a.start, a.options.Version, a.options.Orders)
		reader, first, err = h.join([][]byte{hello}, int(a.readersMax.Load()), key)
	}
	if err != nil {
		if errors.Is(err, errTooManyReaders) {
			a.options.Metrics.refused.Inc()
		}
		refuse(w, statusOf(err), err)
		return
	}
	defer h.leave(reader)
	a.options.Metrics.readers.Inc()
	defer a.options.Metrics.readers.Dec()
	if err := a.follow(w, r, h, reader, first); errors.Is(err, os.ErrDeadlineExceeded) {
		a.options.Metrics.cutOff.Inc()
	}
}

// follow sends the given events and then all later ones, until a write fails. If the reader has disconnected or the
// feed has ended, the error is nil or ErrEnded.
func (a *API) follow(w http.ResponseWriter, r *http.Request, h *hub, reader *reader, events [][]byte) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	// Events are written to the socket unchanged, without chunked encoding: one write for all new events.
	header.Set("Transfer-Encoding", "identity")
	out := sender{w: w, control: http.NewResponseController(w), timeout: a.options.WriteTimeout, ended: h.feed.Ended()}
	// Lift the server's time limits, which are meant for requests that end.
	if err := out.control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	for {
		if err := out.send(events); err != nil {
			return err
		}
		clear(events) // lets the memory of events be freed once no reader needs them
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
		case <-h.feed.Ended():
		case <-r.Context().Done():
			return nil
		}
	}
}

// sender writes events to a reader in pieces. The timeout is for one piece, so that a slow reader is not mistaken for
// one that reads nothing, however much there is to send.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration   // timeout for one piece
	ended   <-chan struct{} // closed when the feed has ended
	piece   []byte          // bytes to write next
}

// send writes events. It returns ErrEnded if the feed ends before the last of several pieces is written.
func (s *sender) send(events [][]byte) error {
	for _, e := range events {
		for len(e) > 0 {
			if len(s.piece) == pieceMost {
				if err := s.flush(); err != nil {
					return err
				}
				select {
				case <-s.ended:
					return market.ErrEnded
				default:
				}
			}
			n := min(len(e), pieceMost-len(s.piece))
			s.piece, e = append(s.piece, e[:n]...), e[n:]
		}
	}
	return s.flush()
}

// flush writes the current piece.
func (s *sender) flush() error {
	if len(s.piece) == 0 {
		return nil
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(s.piece); err != nil {
		return err
	}
	s.piece = s.piece[:0]
	return s.control.Flush()
}
