package postgres

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/pgtest"
)

// TestMigrationsAreNumberedWithoutAGap checks that a misnamed file is refused: otherwise it would be skipped, or run
// as another version.
func TestMigrationsAreNumberedWithoutAGap(t *testing.T) {
	file := &fstest.MapFile{Data: []byte("SELECT 1")}
	require.Equal(t, []migration{{"0001_a.sql", "SELECT 1"}, {"0002_b.sql", "SELECT 1"}},
		mustRead(fstest.MapFS{"0002_b.sql": file, "0001_a.sql": file}))
	for _, names := range [][]string{{"0002_b.sql"}, {"0001_a.sql", "0003_c.sql"}, {"0001_a.sql", "0001_b.sql"},
		{"1_a.sql"}} {
		folder := fstest.MapFS{}
		for _, name := range names {
			folder[name] = file
		}
		require.Panics(t, func() { mustRead(folder) }, names)
	}
}

// TestAMigrationThatFailsLeavesTheVersionBefore makes the last statement of each version's migration fail. The
// database must be left at the preceding version, and the next attempt must continue from there.
func TestAMigrationThatFailsLeavesTheVersionBefore(t *testing.T) {
	url := pgtest.NewDatabase(t)
	whole := schema
	t.Cleanup(func() { schema = whole })
	for i := range whole {
		schema = append(append([]migration{}, whole[:i]...), migration{whole[i].name, whole[i].sql + "; SELECT 1/0"})
		_, err := Open(background, url, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "postgres: migration "+whole[i].name+": ERROR: division by zero")
		conn, err := pgx.Connect(background, url)
		require.NoError(t, err)
		var version int
		table := "public." + formerVersionTable
		if i >= namedSince {
			table = versionTable
		}
		err = conn.QueryRow(background, `SELECT version FROM `+table).Scan(&version)
		if i == 0 { // migration 1 also makes the version's table
			require.True(t, hasCode(err, "42P01"), "%v", err)
			err = nil
		}
		require.NoError(t, err)
		require.NoError(t, conn.Close(background))
		require.Equal(t, i, version)
	}
	schema = whole
	mustOpen(t, url)
}

// TestASchemaOfAnotherVersionThanItsFileMakesIsNotRaised checks that a migration runs only on the preceding
// version. The lock also excludes concurrent migrations, which could run a file twice.
func TestASchemaOfAnotherVersionThanItsFileMakesIsNotRaised(t *testing.T) {
	s := mustOpen(t, pgtest.NewDatabase(t))
	newest := SchemaVersion()
	whole := schema
	t.Cleanup(func() { schema = whole })
	schema = append(append([]migration{}, whole...), migration{"0099_next.sql", "SELECT 1"},
		migration{"0100_more.sql", "SELECT 1"})
	undone := errors.New("undone")
	err := pgx.BeginFunc(background, s.conn, func(tx pgx.Tx) error {
		require.NoError(t, s.conn.raise(background, tx, newest+1))
		require.ErrorContains(t, s.conn.raise(background, tx, newest+1), "outcry.schema_version must have one row")
		return undone
	})
	require.ErrorIs(t, err, undone)
	require.Error(t, raiseAlone(background, s, newest+2))
}

func raiseAlone(ctx context.Context, s *Store, version int) error {
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error { return s.conn.raise(ctx, tx, version) })
}
