package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The relations that people read are in a schema of the operator's, which is the first one
// of search_path when an exchange is made. All other tables are in the schema outcry. The
// statements of this package name both: people stands for the first one, whose name a
// session puts there. Once it has, no statement depends on search_path.
const (
	internalSchema = "outcry"
	peopleDot      = "people."

	// strictPath finds what belongs to Postgres, and no table.
	strictPath = "pg_catalog, pg_temp"
)

const (
	// versionTable has one row, with the schema's version, which is how many of the
	// migrations it has, and the name of the schema that people read.
	versionTable = internalSchema + ".schema_version"

	// formerVersionTable has the version alone, until migration namedSince: then all tables
	// are in the schema that people read, and the migrations name none.
	formerVersionTable = "outcry_schema_version"
	namedSince         = 8
)

// SQLSTATE of a statement that names a table which is none, or none any more.
const (
	wrongObjectType = "42809"
	undefinedTable  = "42P01"
)

// readByPeople are the tables that people read.
var readByPeople = []string{"exchange_state", "accounts", "symbols", "positions", "market", "candles"}

// named returns a table's name with its schema, as statements have it.
func named(table string) string {
	schema := internalSchema
	if slices.Contains(readByPeople, table) {
		schema = "people"
	}
	return schema + "." + pgx.Identifier{table}.Sanitize()
}

// session is a connection whose statements say people for the schema that people read.
type session struct {
	*pgx.Conn
	path []string // the schemas of search_path when it began
	own  string   // search_path since: functions and operators are Postgres's first, tables are temporary last

	version int    // of the schema, 0 if there are no tables
	noted   bool   // the database has a version
	people  string // the schema that people read, or will; "" if the path has none for them
}

// openSession connects with a config that setUp has made ready, and finds the exchange.
func openSession(ctx context.Context, config *pgx.ConnConfig) (*session, error) {
	conn, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &session{Conn: conn}
	if err = s.readPath(ctx); err == nil {
		_, err = conn.Exec(ctx, `SELECT pg_catalog.set_config('search_path', $1, false)`, s.own)
	}
	if err == nil {
		err = s.find(ctx, s)
	}
	if hasCode(err, wrongObjectType) || hasCode(err, undefinedTable) {
		err = s.find(ctx, s) // another server's migration moved the version between two statements: once, for good
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("postgres: find the exchange: %w", err)
	}
	return s, nil
}

// readPath reads search_path.
func (s *session) readPath(ctx context.Context) error {
	if err := s.Conn.QueryRow(ctx, `SELECT pg_catalog.current_schemas(false)`).Scan(&s.path); err != nil {
		return err
	}
	s.own = "pg_catalog"
	for _, name := range s.path { // for triggers, which an operator may have on tables
		if !strings.HasPrefix(name, "pg_") {
			s.own += ", " + pgx.Identifier{name}.Sanitize()
		}
	}
	s.own += ", pg_temp"
	return nil
}

// find finds the exchange, or where one would be made, over the session or a transaction
// of it.
func (s *session) find(ctx context.Context, q rowQuerier) error {
	s.version, s.noted, s.people = 0, false, ""
	err := q.QueryRow(ctx, `SELECT pg_catalog.to_regclass($1) IS NOT NULL`, versionTable).Scan(&s.noted)
	if err != nil {
		return err
	}
	if s.noted {
		return s.findNoted(ctx, q)
	}
	err = q.QueryRow(ctx, `SELECT n.nspname
		  FROM pg_catalog.unnest($1::pg_catalog.text[]) WITH ORDINALITY AS path (name, place)
		  JOIN pg_catalog.pg_namespace n ON n.nspname = path.name
		  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = $2 AND c.relkind = 'r'
		 ORDER BY path.place LIMIT 1`, s.path, formerVersionTable).Scan(&s.people)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		s.people = firstForPeople(s.path)
		return nil
	case err != nil:
		return err
	}
	s.noted = true
	return q.QueryRow(ctx, `SELECT version FROM people.`+formerVersionTable).Scan(&s.version)
}

// findNoted is find for a database that says where the exchange is.
func (s *session) findNoted(ctx context.Context, q rowQuerier) error {
	var there bool
	err := q.QueryRow(ctx, `SELECT version, people,
		pg_catalog.to_regclass(pg_catalog.quote_ident(people) || '.exchange_state') IS NOT NULL
		FROM `+versionTable).Scan(&s.version, &s.people, &there)
	if err == nil && !there {
		err = fmt.Errorf("%w: the schema %q has no exchange_state, which %s says it has: if it was renamed, correct that; "+
			"to begin anew, drop the schema %s too", errUnusable, s.people, versionTable, internalSchema)
	}
	return err
}

// firstForPeople returns the first schema that a new exchange may use for what people read,
// "" if there is none. A role of the name outcry has the internal one in its path.
func firstForPeople(path []string) string {
	for _, name := range path {
		if name != internalSchema && name != "information_schema" && !strings.HasPrefix(name, "pg_") {
			return name
		}
	}
	return ""
}

// quoted is the schema that people read, as SQL.
func (s *session) quoted() string { return pgx.Identifier{s.people}.Sanitize() }

// in returns a statement with the schema that people read.
func (s *session) in(sql string) string { return strings.ReplaceAll(sql, peopleDot, s.quoted()+".") }

// checkPlaces returns why an exchange of an older version, or none, cannot be brought to
// this one: there is no schema for what people read, or none can be made for the rest.
func (s *session) checkPlaces(ctx context.Context) error {
	if s.people == "" {
		return fmt.Errorf("postgres: %w: search_path names no schema for the tables: it has %v; give the role one, "+
			"or the URL a search_path", errUnusable, s.path)
	}
	var may bool
	var role string
	err := s.QueryRow(ctx, `SELECT current_user, coalesce(
		(SELECT pg_catalog.has_schema_privilege(oid, 'USAGE') AND pg_catalog.has_schema_privilege(oid, 'CREATE')
		   FROM pg_catalog.pg_namespace WHERE nspname = $1),
		pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'))`, internalSchema).Scan(&role, &may)
	if err != nil {
		return fmt.Errorf("postgres: ask what role may do: %w", err)
	}
	if !may {
		return fmt.Errorf("postgres: %w: role %q may not make the schema outcry in database %q, or tables in it; "+
			"a superuser can: CREATE SCHEMA outcry AUTHORIZATION %s",
			errUnusable, role, s.Config().Database, pgx.Identifier{role}.Sanitize())
	}
	return nil
}

// leadToPeople has sessions of a role that has the internal schema's name begin with the
// one that people read: "$user" would lead them to the other, and \d list all tables. A
// search_path that an operator has set for the role or the database stays.
func (s *session) leadToPeople(ctx context.Context) error {
	var database string
	err := s.QueryRow(ctx, `SELECT pg_catalog.quote_ident(d.datname) FROM pg_catalog.pg_database d
		WHERE d.datname = pg_catalog.current_database() AND current_user = $1 AND NOT EXISTS
			(SELECT FROM pg_catalog.pg_db_role_setting s LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
			  WHERE (s.setrole = 0 OR r.rolname = current_user) AND s.setdatabase IN (0, d.oid)
			    AND pg_catalog.array_to_string(s.setconfig, ' ') LIKE '%search_path=%')`, internalSchema).Scan(&database)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = s.Exec(ctx, `ALTER ROLE `+internalSchema+` IN DATABASE `+database+` SET search_path = `+s.quoted())
	}
	if err != nil {
		return fmt.Errorf("postgres: set the role's search_path: %w", err)
	}
	return nil
}

// Exec is that of the connection, for a statement that says people.
func (s *session) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return s.Conn.Exec(ctx, s.in(sql), args...)
}

// Query is that of the connection, for a statement that says people.
func (s *session) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return s.Conn.Query(ctx, s.in(sql), args...)
}

// QueryRow is that of the connection, for a statement that says people.
func (s *session) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return s.Conn.QueryRow(ctx, s.in(sql), args...)
}

// Prepare is that of the connection, for a statement that says people.
func (s *session) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return s.Conn.Prepare(ctx, name, s.in(sql))
}

// Begin is that of the connection; the transaction's statements say people too.
func (s *session) Begin(ctx context.Context) (pgx.Tx, error) {
	return s.BeginTx(ctx, pgx.TxOptions{})
}

// BeginTx is that of the connection; the transaction's statements say people too.
func (s *session) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := s.Conn.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	return transaction{tx, s}, nil
}

// transaction is one of a session.
type transaction struct {
	pgx.Tx
	of *session
}

// Exec is that of the transaction, for a statement that says people.
func (t transaction) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.Tx.Exec(ctx, t.of.in(sql), args...)
}

// Query is that of the transaction, for a statement that says people.
func (t transaction) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.Tx.Query(ctx, t.of.in(sql), args...)
}

// QueryRow is that of the transaction, for a statement that says people.
func (t transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.Tx.QueryRow(ctx, t.of.in(sql), args...)
}
