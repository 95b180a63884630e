package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outcry/migrations"
)

// versionTable has one row, with the schema's version: how many of the migrations it has.
const versionTable = "outcry_schema_version"

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

// executor is a connection or a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	rowQuerier
}

// currentVersion returns the schema's version, 0 in a database without one, in which it
// makes the table for it.
func currentVersion(ctx context.Context, q executor) (version int, err error) {
	there := false
	err = q.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, versionTable).Scan(&there)
	if err == nil && !there {
		// Both or none: statements that are sent together are one transaction.
		_, err = q.Exec(ctx, `CREATE TABLE `+versionTable+` (version int NOT NULL); INSERT INTO `+versionTable+` VALUES (0)`)
	}
	if err == nil {
		err = q.QueryRow(ctx, `SELECT version FROM `+versionTable).Scan(&version)
	}
	if err != nil {
		return 0, fmt.Errorf("postgres: read the schema's version: %w", err)
	}
	return version, nil
}

// raise brings the schema from the version below to a version, in a transaction.
func raise(ctx context.Context, tx pgx.Tx, version int) error {
	m := schema[version-1]
	if _, err := tx.Exec(ctx, m.sql); err != nil {
		return fmt.Errorf("postgres: migration %s: %w", m.name, err)
	}
	tag, err := tx.Exec(ctx, `UPDATE `+versionTable+` SET version = $1 WHERE version = $2`, version, version-1)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%s has not one row with %d", versionTable, version-1)
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
	version, err := currentVersion(ctx, s.conn)
	if err != nil {
		return err
	}
	newest := SchemaVersion()
	if version > newest {
		return fmt.Errorf("postgres: %w: its schema has version %d, this program knows up to %d: a newer outcryd has "+
			"upgraded it, "+
			"and only that or a newer one can go on with it (outcryd --version says what a program reads)",
			errUnusable, version, newest)
	}
	upgrade := version > 0 && version < newest
	if check != nil {
		_, p, err := Look(ctx, s.conn)
		if err == nil {
			err = check(p, upgrade)
		}
		if err != nil {
			return err
		}
	}
	if upgrade {
		log.Info("bringing the database's schema up to date, which may read all executions",
			"version", version, "new_version", newest)
	}
	for next := version + 1; next <= newest; next++ {
		err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error { return raise(ctx, tx, next) })
		if err != nil {
			return err
		}
	}
	return nil
}
