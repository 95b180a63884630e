package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// sourcePage is the number of rows that a source fetches at once.
const sourcePage = 1000

// source reads the rows of a query one by one through a cursor. A connection can have any number of open
// cursors, but only one query.
type source[E any] struct {
	tx     pgx.Tx
	cursor string
	into   []any    // destinations for Scan
	made   func() E // returns the row just scanned
	page   []E      // rows that were fetched and not yet taken
	ended  bool     // there are no further rows to fetch

	// wrong is the error of a value in the page's last row that could not be read, or nil. Reading ends with
	// that row.
	wrong error
}

// open starts the query.
func (s *source[E]) open(ctx context.Context, sql string) error {
	_, err := s.tx.Exec(ctx, "DECLARE "+s.cursor+" NO SCROLL CURSOR FOR "+sql)
	return err
}

// close ends the query. In a failed transaction it does nothing, because the cursor has already ended.
func (s *source[E]) close(ctx context.Context) { _, _ = s.tx.Exec(ctx, "CLOSE "+s.cursor) }

// head returns the next row without consuming it, or nil at the end.
func (s *source[E]) head(ctx context.Context) (*E, error) {
	if len(s.page) == 0 && !s.ended {
		if err := s.fetch(ctx); err != nil {
			return nil, err
		}
	}
	if len(s.page) == 0 {
		return nil, nil
	}
	return &s.page[0], nil
}

// consume removes the row that head returned.
func (s *source[E]) consume() { s.page = s.page[1:] }

// fault returns the error of a value in the row that head returned, or nil.
func (s *source[E]) fault() error {
	if len(s.page) == 1 {
		return s.wrong
	}
	return nil
}

// fetch reads the next page.
func (s *source[E]) fetch(ctx context.Context) error {
	rows, err := s.tx.Query(ctx, fmt.Sprintf("FETCH %d FROM %s", sourcePage, s.cursor))
	if err != nil {
		return err
	}
	defer rows.Close()
	s.page = s.page[:0:0]
	for rows.Next() {
		err := rows.Scan(s.into...)
		var value pgx.ScanArgError
		if errors.As(err, &value) {
			s.wrong, s.ended = value.Err, true
			s.page = append(s.page, s.made())
			return nil
		}
		if err != nil {
			return err
		}
		s.page = append(s.page, s.made())
	}
	s.ended = len(s.page) < sourcePage
	return rows.Err()
}
