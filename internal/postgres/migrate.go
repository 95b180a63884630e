package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/tern/v2/migrate"

	"outcry/migrations"
)

// deathCheck is how often Postgres looks, while it changes the schema, whether the
// server that asked for it is still there. It looks by itself only when it is done,
// which may be in an hour, and keeps the lock so long.
const deathCheck = time.Second

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
		if err := s.endWithUs(ctx); err != nil {
			return err
		}
		if err := m.MigrateTo(ctx, version+1); err != nil {
			return fmt.Errorf("postgres: migrate to version %d: %w", version+1, err)
		}
	}
	return nil
}

// endWithUs has Postgres give up a statement whose client is gone. A migration resets
// it. A Postgres before version 14 lacks the setting.
func (s *Store) endWithUs(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, `SELECT set_config(name, $1, false) FROM pg_settings WHERE name = 'client_connection_check_interval'`,
		fmt.Sprint(deathCheck.Milliseconds()))
	if err != nil {
		return fmt.Errorf("postgres: have a migration end with its client: %w", err)
	}
	return nil
}
