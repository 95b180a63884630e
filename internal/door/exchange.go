package door

import (
	"context"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// Exchange is the part of the engine that a Server uses. Its methods are called from many goroutines.
type Exchange interface {
	// Execute executes the commands in order and fills results, which has the same length. No result may be
	// shown to a client before Durable has returned nil for the mark. The error means that the exchange has
	// failed or is stopping, or is ctx's; then no result may ever be shown. If it is ctx's, the results of commands
	// that were executed are filled, the others are zero, and neither slice is used any more.
	Execute(ctx context.Context, commands []engine.Request, results []exchange.Result) (engine.Mark, error)
	// Recall completes a result that Execute left pending as InHistory: the order is only in the database. It loads up to
	// most executions. The mark that Execute returned covers the loaded data.
	Recall(ctx context.Context, c *engine.Request, r *exchange.Result, most int)
	// Ready returns how many of the commands, from the first on, Execute can execute without querying the database. It
	// does not wait.
	Ready(commands []engine.Request) int
	// Durable waits until everything that the mark covers may be shown to clients: it is durable, and no other machine
	// has become the leader without it. An error is ctx's, or means that it may never be shown.
	Durable(ctx context.Context, m engine.Mark) error
	// Notify sends to wake as soon as it is worthwhile to call Durable. wake must have a buffer of one.
	// Notify does not wait.
	Notify(m engine.Mark, wake chan<- struct{})
	// IsDurable reports whether Durable(m) would return nil at once.
	IsDurable(m engine.Mark) bool
	// NewOrigin returns an origin, which links orders to a connection: they are canceled after EndOrigin.
	// Call EndOrigin after the connection's last call of Execute. Neither method waits.
	NewOrigin() *engine.Origin
	EndOrigin(o *engine.Origin)
	// Mark returns the mark of all that its caller has read so far.
	Mark() engine.Mark
}

// View answers queries of accounts about themselves.
type View interface {
	// Show completes a result that Execute left pending as InView. It waits, within a time limit of its own, until the
	// view includes the record that the result names. The data that it returns is durable. The caller has checked that
	// the client may see the account. If history is false, Show does not query the database: a result that needs it
	// becomes HistoryUnavailable.
	Show(ctx context.Context, c *exchange.Command, r *exchange.Result, history bool)
}
