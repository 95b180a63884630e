package main

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/pgtest"
)

// somebody opens a database session that plays another user of the database.
func somebody(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	conn := allTables(t, database)
	t.Cleanup(func() { conn.Close(background) })
	return conn
}

func do(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(background, sql)
	require.NoError(t, err)
}

const endServers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'outcryd%' ` +
	`AND datname = current_database()`

// TestWhateverASessionDoesTradingGoesOn lets another database session cause as much trouble as it can while orders
// are sent, and then ends the trouble.
func TestWhateverASessionDoesTradingGoesOn(t *testing.T) {
	t.Parallel()
	for name, worst := range map[string]func(t *testing.T, database string) (end func()){
		"locks every table": func(t *testing.T, database string) func() {
			conn := somebody(t, database)
			do(t, conn, `BEGIN; LOCK TABLE exchange_state, accounts, symbols, positions, order_log, execution_log, `+
				`resting_orders IN ACCESS EXCLUSIVE MODE`)
			return func() { do(t, conn, `ROLLBACK`) }
		},
		"ends our sessions again and again": func(t *testing.T, database string) func() {
			ctx, cancel := context.WithCancel(background)
			conn := somebody(t, database)
			var running sync.WaitGroup
			running.Go(func() {
				for ctx.Err() == nil {
					_, _ = conn.Exec(ctx, endServers+"; SELECT pg_sleep(0.001)") // the context is canceled at the end
				}
			})
			return func() { cancel(); running.Wait() }
		},
		"takes all connections": func(t *testing.T, database string) func() {
			first := somebody(t, database)
			var all []*pgx.Conn
			for {
				do(t, first, endServers)
				conn, err := pgx.Connect(background, database)
				if err != nil {
					break
				}
				all = append(all, conn)
			}
			return func() {
				for _, conn := range all {
					require.NoError(t, conn.Close(background))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, _ := pgtest.NewCluster(t)
			p := start(t, "--data="+t.TempDir(), "--database-url="+pg.URL())
			c := dial(t, p.xml)
			c.must(t, opening)
			orders := 0
			trade := func(n int) {
				t.Helper()
				for range n {
					orders += 2
					require.NotContains(t, c.must(t, `<transactions id="2"><order sym="S" amount="-1" limit="3"/></transactions>`),
						"error")
					require.NotContains(t, c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="3"/></transactions>`),
						"error")
				}
			}
			trade(20)
			end := worst(t, pg.URL())
			until := time.Now().Add(patience)
			for !strings.Contains(p.log.String(), "Postgres cannot be written") { // a batch may still commit
				require.True(t, time.Now().Before(until), "nothing has kept the tables from being written")
				trade(1)
				time.Sleep(5 * time.Millisecond)
			}
			trade(20)
			end()
			require.Eventually(t, func() bool { return metric(t, p, "outcry_postgres_lag_records") == 0 }, patience, lookEvery)
			require.Eventually(t, func() bool { return strings.Contains(p.log.String(), "can be written to again") }, patience,
				5*time.Millisecond)
			p.stop(t)
			conserved(t, pg.URL())
			require.Equal(t, [][]string{{strconv.Itoa(orders)}}, query(t, text(t, pg.URL()), `SELECT count(*) FROM orders`))
		})
	}
}

// TestAKilledServerStartsWhileATableIsLocked kills a server whose database session waits for a table lock, as
// during a CREATE INDEX. During that wait Postgres does not notice that the session's client is gone.
func TestAKilledServerStartsWhileATableIsLocked(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	p := start(t, flags...)
	c := dial(t, p.xml)
	c.must(t, opening)
	require.Eventually(t, func() bool { return metric(t, p, "outcry_postgres_lag_records") == 0 }, patience, lookEvery)
	reader := somebody(t, database)
	do(t, reader, `BEGIN; LOCK TABLE order_log IN SHARE MODE`)
	c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="1"/></transactions>`)
	require.Eventually(t, func() bool {
		return len(query(t, text(t, database),
			`SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'order_log'::regclass`)) == 1
	}, patience, lookEvery)
	p.kill()
	p = start(t, flags...)
	require.Contains(t, dial(t, p.xml).must(t, `<transactions id="1"><query id="1"/></transactions>`),
		`<open shares="1"/>`)
	do(t, reader, `ROLLBACK`)
	require.Eventually(t, func() bool { return metric(t, p, "outcry_postgres_lag_records") == 0 }, patience, lookEvery)
	p.stop(t)
}

// TestAStartWaitsForAConnection starts a server while Postgres has no connection left.
func TestAStartWaitsForAConnection(t *testing.T) {
	t.Parallel()
	pg, _ := pgtest.NewCluster(t)
	var all []*pgx.Conn
	for {
		conn, err := pgx.Connect(background, pg.URL())
		if err != nil {
			break
		}
		all = append(all, conn)
	}
	p := launch(t, "--data="+t.TempDir(), "--database-url="+pg.URL())
	require.Eventually(t, func() bool { return strings.Contains(p.log.String(), "SQLSTATE 53300") }, patience,
		5*time.Millisecond)
	for _, conn := range all {
		require.NoError(t, conn.Close(background))
	}
	p.waitReady(t)
	p.stop(t)
}

// TestASessionThatIsEndedAtAStartIsReplaced ends the database session in the first two attempts to record the
// journal's id.
func TestASessionThatIsEndedAtAStartIsReplaced(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	p := start(t, flags...)
	p.stop(t)
	do(t, somebody(t, text(t, database)), `CREATE SEQUENCE deaths;
		CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('deaths') <= 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER die BEFORE UPDATE OF journal_id ON exchange_state FOR EACH ROW EXECUTE FUNCTION die()`)
	p = start(t, flags...)
	p.stop(t)
	require.Equal(t, [][]string{{"3"}}, query(t, text(t, database), `SELECT last_value FROM deaths`))
}
