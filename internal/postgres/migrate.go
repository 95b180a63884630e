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

// migration is one file of the schema's migrations.
type migration struct{ name, sql string }

// schema has all migrations in order: migration n upgrades to version n.
var schema = mustRead(migrations.FS)

// mustRead returns the migrations in a folder. They are embedded in the program, so it panics unless they are
// numbered 0001, 0002, 0003 and so on.
func mustRead(folder fs.ReadDirFS) (all []migration) {
	files, err := folder.ReadDir(".") // ReadDir sorts by name
	if err != nil {
		panic(err)
	}
	for i, file := range files {
		sql, err := fs.ReadFile(folder, file.Name())
		if number := fmt.Sprintf("%04d_", i+1); err != nil || !strings.HasPrefix(file.Name(), number) {
			panic(fmt.Sprintf("postgres: %s is in the place of migration %s: %v", file.Name(), number, err))
		}
		all = append(all, migration{file.Name(), string(sql)})
	}
	return all
}

// SchemaVersion returns the version to which this program upgrades a schema, which is also the newest that it
// can use: the number of the last migration.
func SchemaVersion() int { return len(schema) }

// noteVersion creates the table with the schema's version, if it does not exist.
func (s *session) noteVersion(ctx context.Context, tx pgx.Tx) error {
	if s.noted {
		return nil
	}
	_, err := tx.Exec(ctx, `CREATE TABLE people.`+formerVersionTable+` (version int NOT NULL);
		INSERT INTO people.`+formerVersionTable+` VALUES (0)`)
	if err != nil {
		return fmt.Errorf("postgres: record the schema's version: %w", err)
	}
	s.noted = true
	return nil
}

// raise upgrades the schema from version-1 to version in a transaction. Migrations before namedSince name no
// schema, so their search_path is the schema that people read.
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
		err = fmt.Errorf("%s must have one row with %d", table, version-1)
	}
	if err != nil {
		return fmt.Errorf("postgres: record the schema's version %d: %w", version, err)
	}
	return nil
}

// migrate upgrades the schema to this program's version. Each version has its own transaction, so an
// interrupted upgrade leaves a complete version, and the next try continues from there. The connection holds
// the lock, so no other server migrates. It returns an error and changes nothing if the schema is newer than
// this program, or if check returns an error.
func (s *Store) migrate(ctx context.Context, log *slog.Logger, check func(Position, bool) error) error {
	if err := s.conn.find(ctx, s.conn); err != nil { // a second time, now with the lock
		return fmt.Errorf("postgres: find the exchange: %w", err)
	}
	version, newest := s.conn.version, SchemaVersion()
	if version > newest {
		return fmt.Errorf("postgres: %w: its schema has version %d, this program knows up to %d: a newer outcryd has "+
			"upgraded it, "+
			"and only that or a newer one can use it (outcryd --version prints what a program reads)",
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
