package exchangetest

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"outcry/internal/postgres"
	"outcry/internal/testing/pgtest"
)

// NewTables returns the URL of a database with the tables of an exchange without records, for this test alone. It is
// as a server leaves it that is killed after it has made them. Tests that are about the making of tables use
// pgtest.NewDatabase, which costs a server's first start six times as much processor time.
func NewTables(t testing.TB) string {
	t.Helper()
	return pgtest.NewCopy(t, "tables", makeTables)
}

// makeTables makes the tables in an empty database.
func makeTables(url string) error {
	ctx := context.Background()
	store, err := postgres.Open(ctx, url, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	store.Close()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `UPDATE public.exchange_state SET epoch = 0`); err != nil { // the first server's is 1
		return fmt.Errorf("reset the epoch: %w", err)
	}
	return nil
}
