package main

import (
	"context"

	"outcry/internal/process/progress"
)

// sayEvery is how often the log says how far a stop is, and whom a founder waits for; tests say it more often.
var sayEvery = progress.LineEvery

// catchUp waits until Postgres has the journal up to its last record, and logs how far it is
// meanwhile. The error is that of ctx, or why the projector has ended.
func (s *server) catchUp(ctx context.Context, last uint64) error {
	defer progress.Log(s.log, sayEvery, "bringing Postgres up to date",
		func() []any { return []any{"applied_seq", s.projector.Applied(), "of", last} })()
	return s.projector.WaitApplied(ctx, last)
}
