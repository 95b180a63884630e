package main

import (
	"context"

	"outcry/internal/process/progress"
)

// sayEvery is how often the log reports the progress of a stop, and the nodes for which a new cluster waits. Tests
// shorten it.
var sayEvery = progress.LineEvery

// catchUp waits until Postgres has the journal up to record last, and logs the progress. The error is ctx's, or
// says why the projector has ended.
func (s *server) catchUp(ctx context.Context, last uint64) error {
	defer progress.Log(s.log, sayEvery, "bringing Postgres up to date",
		func() []any { return []any{"applied_seq", s.projector.Applied(), "of", last} })()
	return s.projector.WaitApplied(ctx, last)
}
