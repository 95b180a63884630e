package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Look returns, over any connection, the version of a database's schema, or 0 if it has no exchange, and the position
// of the projection, except for OrdersAfter. The schema may be of another version than this program's. The error says
// why it could not be read.
func Look(ctx context.Context, conn *pgx.Conn) (version int, p Position, err error) {
	s := &session{Conn: conn}
	if err = s.readPath(ctx); err == nil {
		err = s.find(ctx, s)
	}
	if err != nil {
		return 0, Position{}, fmt.Errorf("postgres: look at the database: %w", err)
	}
	p, err = s.look(ctx)
	return s.version, p, err
}

// look returns the position of the projection, except for OrdersAfter. It works with any version of the
// schema.
func (s *session) look(ctx context.Context) (p Position, err error) {
	if s.version == 0 {
		return Position{}, nil
	}
	var id *[16]byte
	// The column ack does not exist in every version.
	err = s.QueryRow(ctx, `SELECT applied_seq, journal_id, coalesce(pg_catalog.to_jsonb(s) ->> 'ack', '')
		FROM people.exchange_state s`).Scan(&p.Applied, &id, &p.Ack)
	if err != nil {
		return Position{}, fmt.Errorf("postgres: look at the database: %w", err)
	}
	if id != nil {
		p.Journal = *id
	}
	return p, nil
}
