package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/pgtest"
)

func mustOpenArchive(t *testing.T, url string) *Archive {
	t.Helper()
	a, err := OpenArchive(background, url)
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// written writes records of a history in batches of random size, and returns the events.
func written(t *testing.T, s *Store, h *history, records int) (events []exchange.Event) {
	t.Helper()
	b := newBatch()
	for b.reset(h.seq); len(events) < records; {
		e := h.next()
		events = append(events, e)
		require.NoError(t, addKept(b, h.seq, &e))
		if h.r.IntN(100) == 0 || len(events) == records {
			_, err := s.write(background, b)
			require.NoError(t, err)
			b.reset(h.seq)
		}
	}
	return events
}

// timeless returns e as the tables have it: without the time if its table has no time column.
func timeless(e exchange.Event) *exchange.Event {
	if e.Kind <= exchange.SharesDeposited {
		e.Time = 0
	}
	return &e
}

// TestTheTablesHoldTheJournalAgain reads a random history back: every record, in order, with every value.
func TestTheTablesHoldTheJournalAgain(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := newTables(t)
	s, h := mustOpen(t, url), newHistory(seed)
	events := written(t, s, h, 5000)
	for len(events) < 50000 && len(missing(events)) > 0 { // rare kinds of events may take longer
		events = append(events, written(t, s, h, 1000)...)
	}
	require.Empty(t, missing(events))
	a, last := mustOpenArchive(t, url), uint64(len(events))
	require.Equal(t, last, a.Position().Applied)
	require.Zero(t, a.HistoryAfter())
	written(t, s, h, 100) // the archive does not see these records

	state, next := newState(), uint64(1)
	require.NoError(t, a.History(background, func(seq uint64, e *exchange.Event) error {
		require.Equal(t, next, seq)
		require.True(t, e.Same(timeless(events[seq-1])), "seed %d, record %d: %+v, not %+v", seed, seq, e, events[seq-1])
		next++
		return state.Apply(e)
	}))
	require.Equal(t, last+1, next)
	snap, err := a.Tables(background)
	require.NoError(t, err)
	require.NoError(t, state.SameOrders(snap))
	require.NoError(t, state.SameHoldings(snap))
	require.NoError(t, a.CheckOrders(background))

	next = last - 500
	require.NoError(t, a.Records(background, next, func(seq uint64, e *exchange.Event) error {
		require.Equal(t, next, seq)
		require.True(t, e.Same(timeless(events[seq-1])))
		next++
		return nil
	}))
	require.Equal(t, last+1, next)

	_, err = a.tx.Exec(background, `DELETE FROM people.accounts`)
	require.ErrorContains(t, err, "read-only transaction")
}

// undoOperations reverts migration 4 and later ones.
const undoOperations = pgtest.UndoSchemas + `
	ALTER TABLE public.symbols DROP COLUMN halted_at, DROP COLUMN halt_reason;
	ALTER TABLE public.cancel_log DROP COLUMN n;
	ALTER TABLE public.opening_symbols DROP COLUMN halted_at, DROP COLUMN halt_reason;
	DROP TABLE public.halt_log, public.refs, public.part_log;
	ALTER TABLE public.exchange_state DROP COLUMN orders_after;`

// TestAnOldDatabaseIsUpgraded reverts all migrations except the first, which leaves a database of schema 1. Then it
// upgrades and continues: the history begins at that point.
func TestAnOldDatabaseIsUpgraded(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	url := newTables(t)
	s, h := mustOpen(t, url), newHistory(uint64(time.Now().UnixNano()))
	h.old, h.state.Index.FillsMax = true, 0
	written(t, s, h, 1000)
	opening := h.state.Digest()
	_, err := s.conn.Exec(background, undoOperations+`
		ALTER TABLE public.accounts DROP COLUMN seq; ALTER TABLE public.symbols DROP COLUMN seq;
		ALTER TABLE public.order_log DROP COLUMN seq; ALTER TABLE public.cancel_log DROP COLUMN seq;
		ALTER TABLE public.exchange_state DROP COLUMN history_after;
		DROP TABLE public.market, public.placement_log, public.opening_accounts, public.opening_symbols,
			public.opening_positions, public.opening_resting_orders;
		UPDATE public.outcry_schema_version SET version = 1`)
	require.NoError(t, err)
	_, err = OpenArchive(background, url)
	require.ErrorContains(t, err, fmt.Sprintf("its schema has version 1, this program needs %d", SchemaVersion()))
	require.True(t, Unusable(err))

	s = mustReopen(t, s, url)
	h.old = false
	written(t, s, h, 500)
	a := mustOpenArchive(t, url)
	require.Equal(t, uint64(1000), a.HistoryAfter())
	snap, err := a.Opening(background)
	require.NoError(t, err)
	state, err := snap.Restore()
	require.NoError(t, err)
	require.Equal(t, opening, state.Digest())
	fills, err := a.CountFills(background)
	require.NoError(t, err)
	require.NoError(t, a.History(background, func(seq uint64, e *exchange.Event) error {
		return errors.Join(fills.Add(seq, e), state.Apply(e))
	}))
	require.Equal(t, h.state.Digest(), state.Digest())
	require.NoError(t, fills.Check(background))
	require.NoError(t, a.CheckOrders(background))
	require.NoError(t, a.CheckMarket(background))
	require.NoError(t, a.CheckCandles(background))
	require.NoError(t, a.CheckPlaced(background))
}

func TestAnArchiveOfAnotherDatabaseIsRefused(t *testing.T) {
	url := pgtest.NewDatabase(t)
	_, err := OpenArchive(background, url)
	require.ErrorContains(t, err, "holds no exchange")
	require.True(t, Unusable(err))
	s := mustOpen(t, url)
	_, err = s.conn.Exec(background, `UPDATE outcry.schema_version SET version = 99`)
	require.NoError(t, err)
	_, err = OpenArchive(background, url)
	require.ErrorContains(t, err, fmt.Sprintf("its schema has version 99, this program knows up to %d", SchemaVersion()))
	_, err = OpenArchive(background, "postgres://%zz")
	require.True(t, Unusable(err))
	_, err = OpenArchive(background, "postgres:///x?host=/nowhere")
	require.Error(t, err)
	require.False(t, Unusable(err))
}

func TestRecordsHaveTheirRows(t *testing.T) {
	for want, e := range map[string]exchange.Event{
		"accounts, id 7":         {Kind: exchange.AccountOpened, Account: "7"},
		"symbols, sym A":         {Kind: exchange.SymbolMade, Symbol: "A"},
		"placement_log, seq 5":   {Kind: exchange.SharesDeposited, Symbol: "A", Account: "7"},
		"order_log, id 9":        {Kind: exchange.OrderAccepted, Order: 9},
		"cancel_log, order_id 9": {Kind: exchange.OrderCanceled, Order: 9},
		"cancel_log, seq 5":      {Kind: exchange.OrdersCanceled},
		"halt_log, seq 5":        {Kind: exchange.SymbolHalted, Symbol: "A"},
	} {
		table, key := RecordRow(&e, 5)
		require.Equal(t, want, fmt.Sprintf("%s, %s", table, key))
	}
}

// TestWhoWaitsForTablesIsToldWhetherAServerHasThem checks the argument served that OpenArchiveAt passes to
// waiting. It is true while a server, which applies further records, is connected.
func TestWhoWaitsForTablesIsToldWhetherAServerHasThem(t *testing.T) {
	url := newTables(t)
	s := mustOpen(t, url)
	enough := errors.New("enough")
	var looks []bool
	look := func(_ Position, served bool) error {
		switch looks = append(looks, served); len(looks) {
		case 2:
			s.Close()
			return nil
		case 20:
			return errors.New("the lock of a closed connection stays")
		}
		if !served {
			return enough
		}
		return nil
	}
	_, err := OpenArchiveAt(background, url, 1, look)
	require.ErrorIs(t, err, enough)
	require.Equal(t, []bool{true, true}, looks[:2])
}
