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

// step is a part of a round.
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

// checks compare what clients know, the tables and the exchange with each other. The exchange must be up, and no
// client may be trading.
func (s *server) checks() []check {
	return []check{
		{"commands sent again", s.RetryAll},
		{"orders without an answer", s.Settle},
		{"Postgres", func(ctx context.Context) error { return s.server.CatchUp(ctx, s.patient(catchUpTimeout)) }},
		{"tables", s.checkTables},
		{"answers", s.CheckAnswers},
		{"views", s.CheckViews},
		{"conservation", s.checkConservation},
		{"linearizability", func(context.Context) error { return s.CheckLinear() }},
	}
}

// stopAndCheck stops the server in order and checks that the tables are complete.
func (s *server) stopAndCheck(ctx context.Context) error {
	if err := s.stopServer(ctx); err != nil {
		return err
	}
	if err := s.checkTables(ctx); err != nil {
		return fmt.Errorf("after an orderly stop: %w", err)
	}
	return s.verify(ctx)
}

// verify runs outcry verify, and checks that the digest computed from the tables equals the digest of the
// server's memory when it stopped.
func (s *server) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.patient(verifyTimeout))
	defer cancel()
	out, err := exec.CommandContext(ctx, s.client, "verify", "--database-url", s.pg.DirectURL(), s.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("outcry verify: %w: %s", err, out)
	}
	_, tables, ok := strings.Cut(string(out), ", digest ")
	memory, logged := s.server.LastAttr("digest")
	if !ok || !logged || strings.TrimSpace(tables) != memory {
		return fmt.Errorf("memory had the digest %q at the stop, and outcry verify says: %s", memory, out)
	}
	s.report.Verified++
	return nil
}

// checkTables checks the tables over a direct connection, without the proxy.
func (s *server) checkTables(ctx context.Context) (err error) {
	if s.db == nil || s.db.IsClosed() || s.db.Ping(ctx) != nil {
		if s.db, err = s.connect(ctx); err != nil {
			return err
		}
	}
	return s.CheckTables(ctx, s.db)
}

// checkConservation checks the gauges that must always be 0.
func (s *server) checkConservation(ctx context.Context) error {
	for _, gauge := range []string{"outcry_cash_imbalance_dollars", "outcry_share_imbalance_symbols"} {
		v, err := s.server.Metric(ctx, gauge)
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
func (s *server) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patient(catchUpTimeout))
	defer cancel()
	for {
		db, err := pgx.Connect(ctx, s.pg.DirectURL())
		if err == nil {
			return db, nil
		}
		if waitErr := wait(ctx, 20*time.Millisecond); waitErr != nil {
			return nil, fmt.Errorf("torture: Postgres does not come back: %w", err)
		}
	}
}
