package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// upTimeout is how long a start of the server, including recovery, and the end of Postgres may take.
const upTimeout = 2 * time.Minute

// Exchange is a server with its own Postgres.
type Exchange struct {
	*Server
	Postgres *Postgres
	options  ServerOptions
}

// StartExchange starts Postgres and the server in dir and waits until the server accepts orders.
func StartExchange(ctx context.Context, dir string, o ServerOptions) (*Exchange, error) {
	pg, err := StartPostgres(ctx, dir)
	if err != nil {
		return nil, err
	}
	o.Data, o.DatabaseURL = filepath.Join(dir, "data"), pg.DirectURL()
	e := &Exchange{Postgres: pg, options: o}
	if err := e.Start(ctx); err != nil {
		e.End()
		return nil, err
	}
	return e, nil
}

// Start starts the server, or restarts it after it has ended, and waits until it accepts orders.
func (e *Exchange) Start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if e.Server, err = Launch(e.options); err != nil {
		return err
	}
	return e.WaitReady(ctx)
}

// End kills the server and stops Postgres.
func (e *Exchange) End() {
	if e.Server != nil {
		e.Kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), upTimeout)
	defer cancel()
	_ = e.Postgres.Stop(ctx)
}

// CatchUp waits until Postgres has every record, but no longer than most. It returns an error if that time is not
// enough or the server has ended.
func (s *Server) CatchUp(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		lag, err := s.Metric(ctx, "outcry_postgres_lag_records")
		if err == nil && lag == 0 {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.exited:
			return fmt.Errorf("the exchange ended by itself; its log ends with:\n%s", s.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("the tables do not catch up within %s: %v records are missing (%v, %w); the log ends with:\n%s",
				most, lag, err, ctx.Err(), s.LogTail())
		}
	}
}
