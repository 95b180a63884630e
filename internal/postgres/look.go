package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Look tells, over any connection, the version of the schema that a database has, 0
// where it holds no exchange, the last record that its tables include, and the journal
// that they follow. It may be of another version than this program's. The error says
// why it could not be read.
func Look(ctx context.Context, conn *pgx.Conn) (version int, applied uint64, journal [16]byte, err error) {
	there := false
	err = conn.QueryRow(ctx, `SELECT to_regclass('exchange_state') IS NOT NULL AND to_regclass($1) IS NOT NULL`, versionTable).Scan(&there)
	if err == nil && there {
		var id *[16]byte
		err = conn.QueryRow(ctx, `SELECT version, applied_seq, journal_id FROM exchange_state, `+versionTable).Scan(&version, &applied, &id)
		if id != nil {
			journal = *id
		}
	}
	if err != nil {
		return 0, 0, journal, fmt.Errorf("postgres: look at the database: %w", err)
	}
	return version, applied, journal, nil
}
