package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// sourcePage is how many rows of a query a source has in memory.
const sourcePage = 1000

// source reads the rows of a query one after the other, through a cursor: a connection
// can have any number of those at once, and only one query.
type source[E any] struct {
	tx     pgx.Tx
	cursor string
	into   []any    // what a row is scanned into
	made   func() E // what has been scanned
	page   []E      // rows that are not taken yet
	ended  bool     // there are no others

	// wrong says which value of the last row of the page could not be read, nil if all
	// could. There are no rows after that one.
	wrong error
}

// open begins the query.
func (s *source[E]) open(ctx context.Context, sql string) error {
	_, err := s.tx.Exec(ctx, "DECLARE "+s.cursor+" NO SCROLL CURSOR FOR "+sql)
	return err
}

// close ends the query. It fails in a transaction that has failed, which ends it too.
func (s *source[E]) close(ctx context.Context) { _, _ = s.tx.Exec(ctx, "CLOSE "+s.cursor) }

// head returns the row that comes next, until it is taken; nil at the end.
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

// take goes on to the next row.
func (s *source[E]) take() { s.page = s.page[1:] }

// fault returns what is wrong with a value of the head, nil if nothing is.
func (s *source[E]) fault() error {
	if len(s.page) == 1 {
		return s.wrong
	}
	return nil
}

// fetch reads a page.
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
