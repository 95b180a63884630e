package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/testing/pgtest"
	"outcry/internal/testing/trailtest"
)

// TestWhatIsCommittedIsOnDiskWhateverTheDefaultIs queries the settings of the projector's own transactions,
// before and after its connection was lost, and those of a restore. The cluster of the tests, and here also
// the database and the role, disable durability.
func TestWhatIsCommittedIsOnDiskWhateverTheDefaultIs(t *testing.T) {
	url := pgtest.NewDatabase(t)
	db, err := pgx.Connect(background, url)
	require.NoError(t, err)
	defer db.Close(background)
	execute := func(sql string, args ...any) {
		t.Helper()
		_, err := db.Exec(background, sql, args...)
		require.NoError(t, err)
	}
	var role, database string
	require.NoError(t, db.QueryRow(background,
		`SELECT quote_ident(current_user), quote_ident(current_database())`).Scan(&role, &database))
	execute(fmt.Sprintf(`ALTER DATABASE %s SET synchronous_commit = off`, database))
	defer execute(fmt.Sprintf(`ALTER DATABASE %s RESET synchronous_commit`, database))
	execute(fmt.Sprintf(`ALTER ROLE %s IN DATABASE %s SET synchronous_commit = off`, role, database))
	defer execute(fmt.Sprintf(`ALTER ROLE %s IN DATABASE %s RESET synchronous_commit`, role, database))

	s := mustOpen(t, url)
	execute(`CREATE TABLE public.seen (setting text)`)
	execute(`CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`)
	execute(`CREATE CONSTRAINT TRIGGER see AFTER UPDATE ON public.exchange_state DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION see()`) // asked as it commits
	defer execute(`DROP FUNCTION see() CASCADE`)
	settings := func() (all []string) {
		rows, err := db.Query(background, `SELECT setting FROM public.seen`)
		require.NoError(t, err)
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return all
	}
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion})
	require.NoError(t, err)
	defer j.Close()
	require.NoError(t, s.SetJournal(background, j.ID(), "postgres"))
	require.Equal(t, []string{"on"}, settings())
	records := trail.New(j, trailtest.Options)
	p, err := NewProjector(ProjectorOptions{Store: s, Journal: j, Trail: records, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	h := newHistory(9)
	for n := range 3 {
		if n == 2 {
			execute(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`)
		}
		e := h.next()
		require.NoError(t, p.WaitApplied(background, put(t, j, records, &e)))
	}
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, []string{"on", "on", "on", "on"}, settings())
}

// TestARestoreIsCommittedToDisk checks that a restore's transaction is as durable as the projector's.
func TestARestoreIsCommittedToDisk(t *testing.T) {
	l := mustLoader(t, pgtest.NewDatabase(t))
	require.NoError(t, l.MakeSchema(background, SchemaVersion()))
	var setting string
	require.NoError(t, l.tx.QueryRow(background, `SHOW synchronous_commit`).Scan(&setting))
	require.Equal(t, "on", setting)
}
