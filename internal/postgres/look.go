package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Look returns, over any connection, the version of the schema that a database has, 0
// if it holds no exchange, and where the projection stands, except for OrdersAfter. The
// schema may be of another version than this program's. The error says why it could not
// be read.
func Look(ctx context.Context, conn *pgx.Conn) (version int, p Position, err error) {
	there := false
	err = conn.QueryRow(ctx, `SELECT to_regclass('exchange_state') IS NOT NULL AND to_regclass($1) IS NOT NULL`,
		versionTable).Scan(&there)
	if err == nil && there {
		var id *[16]byte
		// The column ack is not there in every version.
		err = conn.QueryRow(ctx, `SELECT version, applied_seq, journal_id, coalesce(to_jsonb(s) ->> 'ack', '')
			FROM exchange_state s, `+versionTable).
			Scan(&version, &p.Applied, &id, &p.Ack)
		if id != nil {
			p.Journal = *id
		}
	}
	if err != nil {
		return 0, Position{}, fmt.Errorf("postgres: look at the database: %w", err)
	}
	return version, p, nil
}
