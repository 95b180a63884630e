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

// The tables and views that people read are in the operator's schema: the first schema of search_path when the
// exchange was created. All other tables are in the schema outcry. The statements of this package name the schema of
// each relation. In place of the operator's schema they use the name people, which a session replaces by the real
// name. Such statements do not depend on search_path.
const (
	internalSchema = "outcry"
	peopleDot      = "people."

	// strictPath is a search_path that finds Postgres's own objects and none of the exchange's tables.
	strictPath = "pg_catalog, pg_temp"
)

const (
	// versionTable has one row, with the schema's version (the number of its last migration) and the name of
	// the schema that people read.
	versionTable = internalSchema + ".schema_version"

	// formerVersionTable has only the version. It is used before migration namedSince: until then all tables
	// are in the schema that people read, and migrations name no schema.
	formerVersionTable = "outcry_schema_version"
	namedSince         = 8
)

// SQLSTATEs of a statement that names a relation of the wrong kind, or one that does not exist.
const (
	wrongObjectType = "42809"
	undefinedTable  = "42P01"
)

// readByPeople are the tables in the schema that people read.
var readByPeople = []string{"exchange_state", "accounts", "symbols", "positions", "market", "candles"}

// named returns a table's name with its schema, for use in a statement.
func named(table string) string {
	schema := internalSchema
	if slices.Contains(readByPeople, table) {
		schema = "people"
	}
	return schema + "." + pgx.Identifier{table}.Sanitize()
}

// session is a connection that replaces people in its statements by the schema that people read.
type session struct {
	*pgx.Conn
	path []string // schemas in search_path when the session began
	own  string   // search_path that the session sets: pg_catalog first, temporary tables last

	version int    // version of the schema, 0 without tables
	noted   bool   // versionTable exists
	people  string // schema that people read; "" if the exchange has none yet and search_path has no candidate
}

// openSession connects with a config that setUp has prepared, and finds the exchange.
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
		// another server's migration moved the table between two statements; that happens only once
		err = s.find(ctx, s)
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("postgres: find the exchange: %w", err)
	}
	return s, nil
}

// readPath reads search_path and sets path and own.
func (s *session) readPath(ctx context.Context) error {
	if err := s.Conn.QueryRow(ctx, `SELECT pg_catalog.current_schemas(false)`).Scan(&s.path); err != nil {
		return err
	}
	s.own = "pg_catalog"
	for _, name := range s.path { // triggers that an operator added may depend on these schemas
		if !strings.HasPrefix(name, "pg_") {
			s.own += ", " + pgx.Identifier{name}.Sanitize()
		}
	}
	s.own += ", pg_temp"
	return nil
}

// find finds the exchange, or the schema in which one would be created, by a query over q, which is the session or one
// of its transactions.
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

// findNoted implements find for a database that has versionTable.
func (s *session) findNoted(ctx context.Context, q rowQuerier) error {
	var there bool
	err := q.QueryRow(ctx, `SELECT version, people,
		pg_catalog.to_regclass(pg_catalog.quote_ident(people) || '.exchange_state') IS NOT NULL
		FROM `+versionTable).Scan(&s.version, &s.people, &there)
	if err == nil && !there {
		err = fmt.Errorf("%w: the schema %q has no exchange_state, which %s says it has: if it was renamed, correct that; "+
			"to start from the beginning, drop the schema %s too", errUnusable, s.people, versionTable, internalSchema)
	}
	return err
}

// firstForPeople returns the first schema in which a new exchange may create the tables that people read, or "". It
// skips the internal schema, which is in the search_path of a role named outcry.
func firstForPeople(path []string) string {
	for _, name := range path {
		if name != internalSchema && name != "information_schema" && !strings.HasPrefix(name, "pg_") {
			return name
		}
	}
	return ""
}

// quoted returns the schema that people read as a quoted SQL identifier.
func (s *session) quoted() string { return pgx.Identifier{s.people}.Sanitize() }

// in returns a statement with people replaced by the schema that people read.
func (s *session) in(sql string) string { return strings.ReplaceAll(sql, peopleDot, s.quoted()+".") }

// checkPlaces returns an error if an exchange cannot be created, or upgraded from a schema before namedSince:
// search_path has no schema for the tables that people read, or the role may not create the internal schema.
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

// leadToPeople sets the role's search_path to the schema that people read, if the role has the internal
// schema's name. By default "$user" would select the internal schema, and \d would list all tables. A
// search_path that an operator has set for the role or the database is kept.
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

// Exec executes a statement that may use the name people.
func (s *session) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return s.Conn.Exec(ctx, s.in(sql), args...)
}

// Query runs a query that may use the name people.
func (s *session) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return s.Conn.Query(ctx, s.in(sql), args...)
}

// QueryRow runs a query that may say people and returns its first row.
func (s *session) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return s.Conn.QueryRow(ctx, s.in(sql), args...)
}

// Prepare prepares a statement that may use the name people, once per connection. The statement's name is a digest
// that pgx makes because it gets the text as the name: Postgres uses only the first 63 bytes of a name.
func (s *session) Prepare(ctx context.Context, sql string) (*pgconn.StatementDescription, error) {
	sql = s.in(sql)
	return s.Conn.Prepare(ctx, sql, sql)
}

// Begin begins a transaction. Its statements may use people as the name of the readers' schema.
func (s *session) Begin(ctx context.Context) (pgx.Tx, error) {
	return s.BeginTx(ctx, pgx.TxOptions{})
}

// BeginTx begins a transaction. Its statements may use people as the name of the readers' schema.
func (s *session) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := s.Conn.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	return transaction{tx, s}, nil
}

// transaction is a transaction of a session.
type transaction struct {
	pgx.Tx
	of *session
}

// Exec executes a statement that may use the name people.
func (t transaction) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.Tx.Exec(ctx, t.of.in(sql), args...)
}

// Query runs a query that may use the name people.
func (t transaction) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.Tx.Query(ctx, t.of.in(sql), args...)
}

// QueryRow runs a query that may say people and returns its first row.
func (t transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.Tx.QueryRow(ctx, t.of.in(sql), args...)
}
