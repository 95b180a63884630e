package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"

	"outcry/migrations"
)

// migration is one file of the schema.
type migration struct{ name, sql string }

// schema is all migrations, in their order: number n makes version n.
var schema = mustRead(migrations.FS)

// mustRead returns the migrations of a folder. It panics unless they are numbered 0001,
// 0002, 0003 …: they are in the program.
func mustRead(folder fs.ReadDirFS) (all []migration) {
	files, err := folder.ReadDir(".") // sorted by name
	if err != nil {
		panic(err)
	}
	for i, file := range files {
		sql, err := fs.ReadFile(folder, file.Name())
		if number := fmt.Sprintf("%04d_", i+1); err != nil || !strings.HasPrefix(file.Name(), number) {
			panic(fmt.Sprintf("postgres: %s is where migration %s has to be: %v", file.Name(), number, err))
		}
		all = append(all, migration{file.Name(), string(sql)})
	}
	return all
}

// SchemaVersion returns the version of the schema that this program brings a database
// to, and the newest that it can use: the number of the last migration.
func SchemaVersion() int { return len(schema) }

// noteVersion makes the table of the schema's version in a database that has none.
func (s *session) noteVersion(ctx context.Context, tx pgx.Tx) error {
	if s.noted {
		return nil
	}
	_, err := tx.Exec(ctx, `CREATE TABLE people.`+formerVersionTable+` (version int NOT NULL);
		INSERT INTO people.`+formerVersionTable+` VALUES (0)`)
	if err != nil {
		return fmt.Errorf("postgres: note the schema's version: %w", err)
	}
	s.noted = true
	return nil
}

// raise brings the schema from the version below to a version, in a transaction. The
// migrations before namedSince are for the schema that the transaction begins its path with.
func (s *session) raise(ctx context.Context, tx pgx.Tx, version int) error {
	m, table, path := schema[version-1], versionTable, strictPath
	if version < namedSince {
		table, path = peopleDot+formerVersionTable, s.quoted()+", pg_temp"
	}
	const setPath = `SELECT pg_catalog.set_config('search_path', $1, true)`
	_, err := tx.Exec(ctx, setPath, path)
	if err == nil {
		_, err = tx.Exec(ctx, m.sql)
	}
	if err == nil {
		_, err = tx.Exec(ctx, setPath, s.own)
	}
	if err != nil {
		return fmt.Errorf("postgres: migration %s: %w", m.name, err)
	}
	tag, err := tx.Exec(ctx, `UPDATE `+table+` SET version = $1 WHERE version = $2`, version, version-1)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%s has not one row with %d", table, version-1)
	}
	if err != nil {
		return fmt.Errorf("postgres: note the schema's version %d: %w", version, err)
	}
	return nil
}

// migrate brings the schema to the version of this program, one version after another,
// each in a transaction of its own: what ends it leaves a version whole, and the next
// try goes on from there. The connection holds the lock, so nobody else is at it. A
// newer schema is refused, as is one that check returns an error for, and nothing is
// changed.
func (s *Store) migrate(ctx context.Context, log *slog.Logger, check func(Position, bool) error) error {
	if err := s.conn.find(ctx, s.conn); err != nil { // again, with the lock
		return fmt.Errorf("postgres: find the exchange: %w", err)
	}
	version, newest := s.conn.version, SchemaVersion()
	if version > newest {
		return fmt.Errorf("postgres: %w: its schema has version %d, this program knows up to %d: a newer outcryd has "+
			"upgraded it, "+
			"and only that or a newer one can go on with it (outcryd --version says what a program reads)",
			errUnusable, version, newest)
	}
	upgrade := version > 0 && version < newest
	if check != nil {
		p, err := s.conn.look(ctx)
		if err == nil {
			err = check(p, upgrade)
		}
		if err != nil {
			return err
		}
	}
	if version < namedSince {
		if err := s.conn.checkPlaces(ctx); err != nil {
			return err
		}
	}
	if upgrade {
		log.Info("bringing the database's schema up to date, which may read all executions",
			"version", version, "new_version", newest)
	}
	for next := version + 1; next <= newest; next++ {
		err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
			if err := s.conn.noteVersion(ctx, tx); err != nil {
				return err
			}
			return s.conn.raise(ctx, tx, next)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
