package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"outcry/internal/view/market"
)

// minSeqWaitsMax is the maximum number of requests that wait at a time. They do not count as answers being made.
const minSeqWaitsMax = 256

// seqHeader is the header with the last record that the answer is sure to include; it may include later ones.
const seqHeader = "Outcry-Seq"

// await waits until the feed has the record of the parameter min_seq, which another node of a cluster may have
// reported. It returns at once without that parameter.
func (a *API) await(ctx context.Context, f *market.Feed, q query) error {
	text := q.Get("min_seq")
	if text == "" {
		return nil
	}
	seq, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return badRequest("min_seq %.100q is not the number of a record", text)
	}
	if f.Seq() >= seq {
		return nil
	}
	if a.waiting.Add(1) > minSeqWaitsMax {
		a.waiting.Add(-1)
		return fmt.Errorf("%d requests wait for a record, which is the limit; try again", minSeqWaitsMax)
	}
	defer a.waiting.Add(-1)
	return f.Await(ctx, seq)
}

// ready returns the hub once its feed has the record that the request asks for.
func (a *API) ready(r *http.Request, q query) (*hub, error) {
	h, err := a.current()
	if err == nil {
		err = a.await(r.Context(), h.feed, q)
	}
	return h, err
}
