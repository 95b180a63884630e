package postgres

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/testing/trailtest"
)

// TestTheBoundsOfTriesAndWaitsStand repeats the values of time limits, so that a change of one is deliberate.
func TestTheBoundsOfTriesAndWaitsStand(t *testing.T) {
	for want, bound := range map[string]time.Duration{
		"batch 1m0s": batchTimeMax, "record 1h0m0s": recordTimeMax, "said again 1m0s": stillAfter,
		"connect 10s": connectTimeout, "all of a connect 30s": reconnectMax, "the server's lock 5s": lockWait,
		"tables' locks 10s": tableLockWait, "in a transaction 1m0s": idleTransactionMax, "history 5s": historyTimeout,
	} {
		require.Regexp(t, " "+bound.String()+"$", want)
	}
	config, err := pgx.ParseConfig("postgres://nowhere/")
	require.NoError(t, err)
	setUp(config, "test", nil)
	require.Equal(t, connectTimeout, config.ConnectTimeout)
}

// TestPausesGrowUpToABound also checks that a pause ends with its context.
func TestPausesGrowUpToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := retryMin
		for _, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 2000, 2000} {
			begun := time.Now()
			require.NoError(t, pause(t.Context(), &delay))
			require.Equal(t, want*time.Millisecond, time.Since(begun))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, pause(ctx, &delay), context.Canceled)
	})
}

// TestWhatIsSaidOfPostgres checks the log: the first failed write is logged at once, later ones now and then,
// and the recovery once. A locked table does not mean that Postgres is down.
func TestWhatIsSaidOfPostgres(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour) // the fake clock starts at a fixed time
		var log lockedLines
		retries := 0
		p := &Projector{batch: newBatch(), timeMax: time.Minute, limit: time.Hour,
			options: ProjectorOptions{Log: slog.New(slog.NewTextHandler(&log, nil)), OnRetry: func() { retries++ }}}
		said := func() [2]int { return [2]int{log.count("cannot be written"), log.count("can be written to again")} }
		p.worked()
		require.Equal(t, [2]int{0, 0}, said(), "it never failed")
		require.Equal(t, p.timeMax, p.limit)

		p.failed(&pgconn.PgError{Code: lockNotAvailable})
		require.False(t, p.Down())
		require.Equal(t, [2]int{1, 0}, said())
		p.failed(errors.New("away"))
		require.True(t, p.Down())
		require.Equal(t, [2]int{1, 0}, said(), "just now")
		time.Sleep(stillAfter - time.Second)
		p.failed(errors.New("away"))
		require.Equal(t, [2]int{1, 0}, said())
		time.Sleep(time.Second)
		p.failed(errors.New("away"))
		require.Equal(t, [2]int{2, 0}, said())
		require.Equal(t, 4, retries)

		p.worked()
		require.False(t, p.Down())
		require.Equal(t, [2]int{2, 1}, said())
		p.worked()
		require.Equal(t, [2]int{2, 1}, said())
		p.failed(errors.New("away"))
		require.Equal(t, [2]int{3, 1}, said(), "at once: it has worked between")
	})
}

// TestATryThatFailedIsRepeatedAfterAPause expects no pause if a smaller batch may help. A sequence counts the
// attempts, because it is not rolled back.
func TestATryThatFailedIsRepeatedAfterAPause(t *testing.T) {
	for code, paused := range map[string]bool{"P0001": true, "57014": false} {
		t.Run(code, func(t *testing.T) {
			database := newTables(t)
			s := mustOpen(t, database)
			mustExec(t, mustConnect(t, database, "admin"), `CREATE SEQUENCE tries`)
			onOrders(t, database, `IF nextval('tries') <= 3 THEN RAISE 'no' USING ERRCODE = '`+code+`'; END IF;`)
			p := mustProjector(t, s, 100)
			pauses, retries := 0, 0
			p.options.OnRetry = func() { retries++ }
			p.pause = func(context.Context, *time.Duration) error { pauses++; return nil }
			require.NoError(t, p.fill(background))
			_, err := p.write(background)
			require.NoError(t, err)
			require.Positive(t, retries)
			if paused {
				require.Equal(t, retries, pauses)
			} else {
				require.Zero(t, pauses)
			}
		})
	}
}

// mustProjector returns a projector that is not running, on a journal with records, which are only in files.
func mustProjector(t *testing.T, s *Store, records int) *Projector {
	t.Helper()
	return mustProjectorOf(t, s, mustJournal(t, records))
}

// mustJournal returns a journal with a random history.
func mustJournal(t *testing.T, records int) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion, SegmentBytes: 16 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	appendRecords(t, j, trail.New(j, trailtest.Options), records)
	return j
}

// mustProjectorOf returns a projector of a journal that is not running.
func mustProjectorOf(t *testing.T, s *Store, j *journal.Journal) *Projector {
	t.Helper()
	p, err := NewProjector(ProjectorOptions{Store: s, Journal: j, Trail: trail.New(j, trailtest.Options),
		Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { p.records.Close() })
	return p
}

// addKept adds an event to a batch as a projector does: what the event refers to is overwritten afterwards.
func addKept(b *batch, seq uint64, e *exchange.Event) error {
	var kept exchange.KeptEvent
	kept.Keep(e)
	err := b.add(seq, &kept)
	kept.Recycle()
	kept.Keep(&exchange.Event{Kind: exchange.SymbolHalted, Symbol: "OTHER",
		Reason: strings.Repeat("!", len(e.Ref)+len(e.Reason))})
	return err
}

// put appends an event to a journal and puts it on the trail, as an engine does, and returns its seq.
func put(t *testing.T, j *journal.Journal, records *trail.Trail[exchange.KeptEvent], e *exchange.Event) uint64 {
	t.Helper()
	seq, err := j.Append(exchange.AppendEvent(nil, e))
	require.NoError(t, err)
	if at := records.Place(seq); at.Value != nil {
		at.Value.Keep(e)
		at.Put()
	}
	return seq
}

// appendRecords appends a random history to a journal and waits until it is durable.
func appendRecords(t *testing.T, j *journal.Journal, all *trail.Trail[exchange.KeptEvent], records int) {
	t.Helper()
	h := newHistory(uint64(records))
	for range records {
		e := h.next()
		put(t, j, all, &e)
	}
	require.NoError(t, j.Wait(background, j.Appended()))
}

// TestASmallerBatchBeginsWhereTheLargerDid also checks that the projector keeps no more of the journal than
// needed.
func TestASmallerBatchBeginsWhereTheLargerDid(t *testing.T) {
	const records = 2000 // several segments
	p := mustProjector(t, nil, records)
	require.NoError(t, p.fill(background))
	require.Equal(t, records, p.batch.records())
	first := p.records
	p.size = records
	require.NoError(t, p.refill(background))
	require.Same(t, first, p.records, "it is not larger")
	appendRecords(t, p.options.Journal, p.options.Trail, records)
	p.fillAhead(background)
	p.size = 7
	require.NoError(t, p.refill(background))
	require.Equal(t, [2]uint64{1, 7}, [2]uint64{p.batch.first, p.batch.last})
	require.NotSame(t, first, p.records)
	require.Equal(t, [2]uint64{8, 7}, [2]uint64{p.ahead.first, p.ahead.last}, "what was taken before does not follow")
	p.commit()
	p.size = records
	require.NoError(t, p.fill(background))
	require.Equal(t, [2]uint64{8, records + 7}, [2]uint64{p.batch.first, p.batch.last}, "the new follower continues")
	p.fillAhead(background)
	p.endAhead()
	require.NoError(t, p.aheadErr)
	p.commit() // the closed follower keeps no segments
	require.NoError(t, p.fill(background))
	last := p.batch.last
	require.EqualValues(t, 2*records, last)
	require.NoError(t, p.options.Journal.RemoveBefore(last+1))
	require.Greater(t, p.options.Journal.First(), uint64(records+1))
}

// TestWhereTheTablesStandAfterALostConnectionDecides checks that, depending on applied_seq after a reconnect,
// the batch is committed, must be written again, or does not fit the tables.
func TestWhereTheTablesStandAfterALostConnectionDecides(t *testing.T) {
	database := newTables(t)
	s := mustOpen(t, database)
	for applied, want := range map[int]struct {
		done bool
		err  string
	}{4: {}, 9: {done: true}, 6: {err: "it is at record 6, expected 4"}, 3: {err: "it is at record 3, expected " +
		"4"}} {
		_, err := s.conn.Exec(background, `UPDATE people.exchange_state SET applied_seq = $1`, applied)
		require.NoError(t, err)
		p := &Projector{batch: &batch{first: 5, last: 9}, options: ProjectorOptions{Store: s,
			Log: slog.New(slog.DiscardHandler)}}
		delay := retryMin
		done, err := p.reconnect(background, &delay)
		require.Equal(t, want.done, done, applied)
		if want.err == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want.err)
		require.True(t, Unusable(err))
	}
}

// TestADatabaseThatIsTakenIsNotTriedAgain also checks that such a database is not reported as down.
func TestADatabaseThatIsTakenIsNotTriedAgain(t *testing.T) {
	database := newTables(t)
	p := mustProjector(t, mustOpen(t, database), 10)
	retries := 0
	p.options.OnRetry = func() { retries++ }
	mustExec(t, mustConnect(t, database, "admin"), `UPDATE public.exchange_state SET epoch = epoch + 1`)
	require.NoError(t, p.fill(background))
	_, err := p.write(background)
	require.ErrorIs(t, err, ErrTaken)
	require.Zero(t, retries)
	require.False(t, p.Down())
}
