package postgres

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/tern/v2/migrate"

	"outcry/migrations"
)

// SchemaVersion returns the version of the schema that this program brings a database
// to, and the newest that it can use: the number of the last migration.
func SchemaVersion() int {
	names, err := migrate.FindMigrations(migrations.FS)
	if err != nil {
		panic(err) // the files are in the program
	}
	return len(names)
}

// migrate brings the schema to the version of this program, one version after another,
// each in a transaction of its own: what ends it leaves a version whole, and the next
// try goes on from there. The connection holds the lock, so nobody else is at it. A
// newer schema is refused, as is one that check returns an error for, and nothing is
// changed.
func (s *Store) migrate(ctx context.Context, log *slog.Logger, check func(Position, bool) error) error {
	m, err := migrate.NewMigrator(ctx, s.conn, versionTable)
	if err != nil {
		return fmt.Errorf("postgres: read the schema's version: %w", err)
	}
	if err := m.LoadMigrations(migrations.FS); err != nil {
		return fmt.Errorf("postgres: %w: read the migrations: %w", errUnusable, err)
	}
	version, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return fmt.Errorf("postgres: read the schema's version: %w", err)
	}
	newest := int32(len(m.Migrations))
	if version > newest {
		return fmt.Errorf("postgres: %w: its schema has version %d, this program knows up to %d: a newer outcryd has upgraded it, and only that or a newer one can go on with it (outcryd --version says what a program reads)",
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
		log.Info("bringing the database's schema up to date, which may read all executions", "version", version, "new_version", newest)
	}
	for ; version < newest; version++ {
		// A migration, which may take an hour and keeps the lock so long, has to end with
		// its client. The one before has ended with RESET ALL.
		if err := setNewer(ctx, s.conn.PgConn()); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		if err := m.MigrateTo(ctx, version+1); err != nil {
			return fmt.Errorf("postgres: migrate to version %d: %w", version+1, err)
		}
	}
	return nil
}
