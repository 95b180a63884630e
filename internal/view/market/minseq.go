package market

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// minSeqTimeout is how long a request waits for the record that it names.
	minSeqTimeout = 5 * time.Second

	// minSeqWaitsMax is how many requests may wait so at a time. They have no place among
	// the answers under way meanwhile.
	minSeqWaitsMax = 256
)

// seqHeader tells the record up to which an answer has everything, and perhaps more.
const seqHeader = "Outcry-Seq"

// await waits until the feed has the record that min_seq names, which may be one of another
// node of a cluster. Without it, it does not wait.
func (a *API) await(ctx context.Context, f *Feed, q query) error {
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
		return fmt.Errorf("%d requests wait for a record and no more are taken; try again", minSeqWaitsMax)
	}
	defer a.waiting.Add(-1)
	return f.Await(ctx, seq)
}

// Await waits until the feed has a record, five seconds at the most. The error wraps ErrBehind if it has not come by
// then or before ctx ended, or ErrEnded.
func (f *Feed) Await(ctx context.Context, seq uint64) error {
	if f.Seq() >= seq {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, minSeqTimeout)
	defer cancel()
	err := f.pace.Await(ctx, seq)
	switch last := f.Seq(); {
	case last >= seq:
		return nil
	case err != nil:
		return fmt.Errorf("%w: record %d has not come within %s, the last one is %d; try again",
			ErrBehind, seq, minSeqTimeout, last)
	}
	return f.end()
}

// ready returns the feed, once it has the record that a request waits for.
func (a *API) ready(r *http.Request, q query) (*Feed, error) {
	f, err := a.current()
	if err == nil {
		err = a.await(r.Context(), f, q)
	}
	return f, err
}
