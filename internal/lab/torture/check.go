package torture

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const verifyTimeout = 5 * time.Minute

// step is a part of a check.
type step = func(context.Context) error

// inTurn runs the steps one after another until one fails.
func inTurn(ctx context.Context, steps ...step) error {
	for _, do := range steps {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// check compares the three views with each other. The exchange must be up and no client trading.
func (r *runner) check(ctx context.Context) error {
	catchUp := func(ctx context.Context) error { return r.server.CatchUp(ctx, r.patient(catchUpTimeout)) }
	linear := func(context.Context) error { return r.CheckLinear() }
	err := inTurn(ctx, r.RetryAll, r.Settle, catchUp, r.checkTables, r.CheckAnswers, r.CheckViews, r.checkConservation,
		linear)
	if err == nil {
		r.Forget()
	}
	return err
}

// stopAndCheck stops the server in order and checks that the tables are complete.
func (r *runner) stopAndCheck(ctx context.Context) error {
	if err := r.stopServer(ctx); err != nil {
		return err
	}
	if err := r.checkTables(ctx); err != nil {
		return fmt.Errorf("after an orderly stop: %w", err)
	}
	return r.verify(ctx)
}

// verify runs outcry verify, and checks that the digest computed from the tables equals the digest of the
// server's memory when it stopped.
func (r *runner) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.patient(verifyTimeout))
	defer cancel()
	out, err := exec.CommandContext(ctx, r.client, "verify", "--database-url", r.pg.DirectURL(), r.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("outcry verify: %w: %s", err, out)
	}
	_, tables, ok := strings.Cut(string(out), ", digest ")
	memory, told := r.server.LastAttr("digest")
	if !ok || !told || strings.TrimSpace(tables) != memory {
		return fmt.Errorf("memory had the digest %q at the stop, and outcry verify says: %s", memory, out)
	}
	r.report.Verified++
	return nil
}

// checkTables checks the tables over a direct connection, without the proxy.
func (r *runner) checkTables(ctx context.Context) (err error) {
	if r.db == nil || r.db.IsClosed() || r.db.Ping(ctx) != nil {
		if r.db, err = r.connect(ctx); err != nil {
			return err
		}
	}
	return r.CheckTables(ctx, r.db)
}

// checkConservation checks the gauges that must always be 0.
func (r *runner) checkConservation(ctx context.Context) error {
	for _, gauge := range []string{"outcry_cash_imbalance_dollars", "outcry_share_imbalance_symbols"} {
		v, err := r.server.Metric(ctx, gauge)
		if err != nil {
			return err
		}
		if v != 0 {
			return fmt.Errorf("%s is %v", gauge, v)
		}
	}
	return nil
}

// connect opens a direct connection to Postgres, without the proxy. It retries while the postmaster
// starts.
func (r *runner) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patient(catchUpTimeout))
	defer cancel()
	for {
		db, err := pgx.Connect(ctx, r.pg.DirectURL())
		if err == nil {
			return db, nil
		}
		if waitErr := wait(ctx, 20*time.Millisecond); waitErr != nil {
			return nil, fmt.Errorf("torture: Postgres does not come back: %w", err)
		}
	}
}
