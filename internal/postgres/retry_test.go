package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/testing/pgtest"
	"outcry/internal/testing/trailtest"
)

// projection is a running projector on a journal of random events.
type projection struct {
	*Projector
	t       *testing.T
	dir     string
	history *history
	ended   chan error
	log     lockedLines

	mu      sync.Mutex // guards the fields below
	batches []int      // number of records in each
	retries int
}

// lockedLines holds lines of a log. Safe for concurrent use.
type lockedLines struct {
	mu    sync.Mutex
	lines []string
}

// Write implements io.Writer.
func (l *lockedLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

// count returns the number of lines that contain text.
func (l *lockedLines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// newProjection appends records and starts a projector whose batches may take timeMax.
func newProjection(t *testing.T, s *Store, records int, timeMax time.Duration) *projection {
	t.Helper()
	p := &projection{t: t, dir: t.TempDir(), history: newHistory(uint64(records)), ended: make(chan error, 1)}
	j, err := journal.Open(p.dir, journal.Options{Version: exchange.EventVersion, SegmentBytes: 16 << 10})
	require.NoError(t, err)
	p.Projector, err = NewProjector(ProjectorOptions{Store: s, Journal: j, Trail: trail.New(j, trailtest.Options),
		Log: slog.New(slog.NewTextHandler(&p.log, nil)),
		OnBatch: func(records int, _ int64, _ time.Duration) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.batches = append(p.batches, records)
		},
		OnRetry: func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.retries++
		}})
	require.NoError(t, err)
	p.timeMax, p.limit = timeMax, timeMax
	p.append(records)
	ctx, cancel := context.WithCancel(background)
	go func() { p.ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-p.ended)
		require.NoError(t, j.Close())
	})
	return p
}

// append appends random records and waits until they are durable.
func (p *projection) append(records int) {
	p.t.Helper()
	for range records {
		e := p.history.next()
		put(p.t, p.options.Journal, p.options.Trail, &e)
	}
	require.NoError(p.t, p.options.Journal.Wait(background, p.options.Journal.Appended()))
}

// caughtUp waits until the tables have all records, and compares them with the state.
func (p *projection) caughtUp(database string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(background, 5*time.Minute)
	defer cancel()
	require.NoError(p.t, p.WaitApplied(ctx, p.options.Journal.Appended()))
	archive := mustOpenArchive(p.t, database)
	defer archive.Close()
	state, err := archive.State(background)
	require.NoError(p.t, err)
	require.Equal(p.t, p.history.state.Digest(), state.Digest())
}

// attempts returns the sizes of the committed batches, and the number of failed attempts.
func (p *projection) attempts() (batches []int, retries int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.batches, p.retries
}

// onOrders makes the database execute do for the new orders of each batch, which are in the table fresh.
func onOrders(t *testing.T, database, do string) {
	t.Helper()
	mustExec(t, mustConnect(t, database, "admin"),
		`CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+do+` RETURN NULL; END $$;
		CREATE TRIGGER look AFTER INSERT ON outcry.order_log REFERENCING NEW TABLE AS fresh
			FOR EACH STATEMENT EXECUTE FUNCTION look()`)
}

// TestABatchThatIsTooMuchIsTriedSmaller makes Postgres refuse transactions with more than some orders, with
// each error that may be due to size or time, and with one that is not.
func TestABatchThatIsTooMuchIsTriedSmaller(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do      string
		most    int           // most records in a batch, if known
		timeMax time.Duration // time limit of a batch
	}{
		"too large": {`IF (SELECT count(*) FROM fresh) > 40 THEN RAISE 'too large' USING ERRCODE = '54000'; END IF;`,
			1000, time.Minute},
		"out of memory": {`IF (SELECT count(*) FROM fresh) > 40 THEN RAISE 'no memory' USING ERRCODE = '53200'; END IF;`,
			1000, time.Minute},
		"one at a time": {`IF (SELECT count(*) FROM fresh) > 1 THEN RAISE 'canceled' USING ERRCODE = '57014'; END IF;`, 100,
			time.Minute},
		"late": {`IF (SELECT count(*) FROM fresh) > 40 THEN PERFORM pg_sleep(60); END IF;`, 1000,
			500 * time.Millisecond},
		"something else": {`IF (SELECT count(*) FROM fresh) > 400 THEN RAISE 'no'; END IF;`, 1000, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := newTables(t)
			s := mustOpen(t, database)
			onOrders(t, database, c.do)
			p := newProjection(t, s, 1000, c.timeMax)
			p.caughtUp(database)
			batches, retries := p.attempts()
			require.Positive(t, retries)
			require.Greater(t, len(batches), 1)
			for _, n := range batches {
				require.Less(t, n, c.most)
			}
		})
	}
}

// TestARecordThatTakesLongGetsMoreTime makes every batch exceed the time limit.
func TestARecordThatTakesLongGetsMoreTime(t *testing.T) {
	t.Parallel()
	database := newTables(t)
	s := mustOpen(t, database)
	onOrders(t, database, `IF (SELECT min(id) FROM fresh) = 1 THEN PERFORM pg_sleep(1); END IF;`)
	p := newProjection(t, s, 60, 200*time.Millisecond)
	p.caughtUp(database)
	_, retries := p.attempts()
	require.Greater(t, retries, 6, "halved down to one, then given more time")
}

// TestWhatAnErrorMakesOfTheNextTry expects a smaller batch at once if the batch was too much; a smaller one
// later if Postgres failed for another reason; and the same batch if a lock was the reason. A single record
// gets more time, up to a bound.
func TestWhatAnErrorMakesOfTheNextTry(t *testing.T) {
	late := fmt.Errorf("write: %w", context.DeadlineExceeded)
	answer := func(code string) error { return fmt.Errorf("write: %w", &pgconn.PgError{Code: code}) }
	type next struct {
		atOnce bool
		size   int
		limit  time.Duration
	}
	for _, test := range []struct {
		err     error
		records uint64
		limit   time.Duration
		want    next
	}{
		{late, 9, batchTimeMax, next{true, 4, batchTimeMax}},
		{answer("57014"), 9, batchTimeMax, next{true, 4, batchTimeMax}},
		{answer("25P04"), 2, batchTimeMax, next{true, 1, batchTimeMax}},
		{answer("53200"), 9, batchTimeMax, next{true, 4, batchTimeMax}},
		{answer("53400"), 9, batchTimeMax, next{true, 4, batchTimeMax}},
		{answer("54000"), 9, batchTimeMax, next{true, 4, batchTimeMax}},
		{answer("XX000"), 9, batchTimeMax, next{true, 4, batchTimeMax}},
		{answer("57P01"), 9, batchTimeMax, next{false, 4, batchTimeMax}},
		{answer(lockNotAvailable), 9, batchTimeMax, next{false, 100, batchTimeMax}},
		{late, 1, batchTimeMax, next{false, 100, 2 * batchTimeMax}},
		{late, 1, recordTimeMax - 1, next{false, 100, recordTimeMax}},
		{late, 1, recordTimeMax, next{false, 100, recordTimeMax}},
		{answer("57014"), 1, batchTimeMax, next{false, 100, batchTimeMax}},
	} {
		p := &Projector{batch: &batch{first: 5, last: 4 + test.records}, size: 100, limit: test.limit}
		atOnce := p.shrink(test.err)
		require.Equal(t, test.want, next{atOnce, p.size, p.limit}, "%v of %d records", test.err, test.records)
	}
}

// TestALimitOfTheDatabaseDoesNotStopTheTables sets a statement_timeout on the role or the database that a
// batch exceeds.
func TestALimitOfTheDatabaseDoesNotStopTheTables(t *testing.T) {
	database := newTables(t)
	s := mustOpen(t, database)
	onOrders(t, database, `PERFORM pg_sleep(0.5);`) // over an earlier session, to which the limit does not apply
	limitDatabase(t, mustConnect(t, database, "admin"), map[string]string{"statement_timeout": "250ms"})
	p := newProjection(t, mustReopen(t, s, database), 100, time.Minute)
	p.caughtUp(database)
	_, retries := p.attempts()
	require.Zero(t, retries)
}

// TestALostConnectionIsReplaced breaks the connection without closing it: for both sides, or so that only
// Postgres keeps waiting for its client. Either leaves a session that holds the lock, and perhaps locks on
// rows.
func TestALostConnectionIsReplaced(t *testing.T) {
	for name, lose := range map[string]func(*pair){
		"nothing is carried": func(p *pair) { p.freeze() },
		"the client sees it": func(p *pair) { p.freeze(); p.client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			database := pgtest.NewDatabase(t)
			r := newRelay(t, database, nil)
			s, err := OpenChecked(background, r.url, "0123456789abcdef", slog.New(slog.DiscardHandler), nil)
			require.NoError(t, err)
			t.Cleanup(s.Close)
			p := newProjection(t, s, 500, 500*time.Millisecond)
			p.caughtUp(database)
			r.each(lose)
			p.append(500)
			p.caughtUp(database)
			require.Empty(t, p.ended)
			require.False(t, p.Down())
			require.Greater(t, r.connections(), 1)
		})
	}
}

// TestAPoolerThatComesLaterEndsNothing puts a pooler between the projector and Postgres while the exchange trades, and
// then removes it.
func TestAPoolerThatComesLaterEndsNothing(t *testing.T) {
	database := pgtest.NewDatabase(t)
	var between atomic.Bool
	r := newRelay(t, database, func(r *relay, p *pair) bool { return !between.Load() || multiplexes(r, p) })
	s := mustOpen(t, r.url)
	p := newProjection(t, s, 100, time.Minute)
	p.caughtUp(database)
	between.Store(true)
	mustExec(t, mustConnect(t, database, "admin"), fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, s.conn.PgConn().PID()))
	p.append(100)
	require.Eventually(t, func() bool { _, retries := p.attempts(); return retries > 2 }, time.Minute, time.Millisecond)
	require.Empty(t, p.ended)
	require.True(t, p.Down())
	between.Store(false)
	p.caughtUp(database)
}

// TestWhateverASessionDoesTheProjectorGoesOn lets other sessions of the same role interfere in many ways.
func TestWhateverASessionDoesTheProjectorGoesOn(t *testing.T) {
	lock := fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, int64(lockKey))
	allow := func(connections string) string { return `ALTER DATABASE %s ALLOW_CONNECTIONS ` + connections }
	for name, c := range map[string]struct{ worst, end string }{
		"drops an index":  {`ALTER TABLE outcry.resting_orders DROP CONSTRAINT resting_orders_pkey`, ``},
		"drops a table":   {`BEGIN; DROP TABLE outcry.halt_log`, `ROLLBACK`},
		"renames a table": {`ALTER TABLE public.accounts RENAME TO gone`, `ALTER TABLE public.gone RENAME TO accounts`},
		"renames the state": {`ALTER TABLE public.exchange_state RENAME TO gone`,
			`ALTER TABLE public.gone RENAME TO exchange_state`},
		"takes the lock":      {lock, `SELECT pg_advisory_unlock_all()`},
		"locks out the epoch": {`BEGIN; LOCK TABLE public.exchange_state`, `ROLLBACK`},
		"refuses connections": {allow("false"), allow("true")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := newTables(t)
			s := mustOpen(t, database)
			p := newProjection(t, s, 100, time.Minute)
			p.caughtUp(database)
			admin, killer := mustConnect(t, database, "psql"), mustConnect(t, database, "psql")
			if name == "refuses connections" { // no statement in the session can do this
				inside := admin.Config().Database
				c.worst, c.end = fmt.Sprintf(c.worst, inside), fmt.Sprintf(c.end, inside)
				admin = mustConnect(t, strings.Replace(database, "/"+inside, "/postgres", 1), "psql")
			}
			pid := s.conn.PgConn().PID()
			waits := make(chan error, 1)
			if c.worst == lock { // the session gets the lock when the projector's session has ended
				go func() {
					_, err := admin.Exec(background, c.worst)
					waits <- err
				}()
			} else {
				mustExec(t, admin, c.worst)
				waits <- nil
			}
			mustExec(t, killer, fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, pid))
			require.NoError(t, <-waits)
			p.append(100)
			if c.end != "" {
				require.Eventually(t, func() bool { _, retries := p.attempts(); return retries > 1 }, time.Minute, time.Millisecond)
				require.Empty(t, p.ended)
				mustExec(t, admin, c.end)
			}
			p.caughtUp(database)
			require.Empty(t, p.ended)
		})
	}
}

// TestASegmentThatCannotBeDeletedEndsNothing replaces a segment by a directory, so that its deletion fails.
// The projector must continue.
func TestASegmentThatCannotBeDeletedEndsNothing(t *testing.T) {
	database := newTables(t)
	s := mustOpen(t, database)
	p := newProjection(t, s, 13, time.Minute)
	slow, err := p.options.Journal.NewReader(1)
	require.NoError(t, err)
	p.append(2000)
	p.caughtUp(database)
	segments, err := filepath.Glob(filepath.Join(p.dir, "*.seg"))
	require.NoError(t, err)
	require.Greater(t, len(segments), 2)
	oldest := segments[0]
	require.NoError(t, os.Rename(oldest, oldest+".kept"))
	require.NoError(t, os.MkdirAll(filepath.Join(oldest, "full"), 0o700))
	slow.Close()
	const says = "an old segment of the journal cannot be deleted"
	require.Eventually(t, func() bool { return p.log.count(says) > 0 }, time.Minute, time.Millisecond)
	p.append(100)
	p.caughtUp(database)
	require.Empty(t, p.ended)
	require.Equal(t, 1, p.log.count(says), "once, however often it is tried")
	require.NoError(t, os.RemoveAll(oldest))
	require.NoError(t, os.Rename(oldest+".kept", oldest))
	require.Eventually(t, func() bool { return p.options.Journal.SegmentCount() == 1 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return p.log.count("can be deleted again") == 1 }, time.Minute, time.Millisecond)
}
