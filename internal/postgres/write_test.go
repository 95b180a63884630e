package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
)

// TestABatchReadsNoWholeTable writes to tables without statistics, and to tables with statistics that say they
// are small.
func TestABatchReadsNoWholeTable(t *testing.T) {
	s := mustOpen(t, newTables(t))
	h := newHistory(6)
	written(t, s, h, 1000)
	scans := func() (n int64) {
		_, err := s.conn.Exec(background, `SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()`)
		require.NoError(t, err)
		require.NoError(t, s.conn.QueryRow(background, `SELECT sum(seq_scan) FROM pg_stat_user_tables
			WHERE relname NOT IN ('exchange_state', 'schema_version')`).Scan(&n))
		return n
	}
	before := scans()
	written(t, s, h, 1000)
	require.Equal(t, before, scans())
	_, err := s.reconnect(background)
	require.NoError(t, err)
	_, err = s.conn.Exec(background, `ANALYZE`)
	require.NoError(t, err)
	before = scans()
	written(t, s, h, 1000)
	require.Equal(t, before, scans(), "a new connection does not either")
}

// TestTablesThatTheJournalDoesNotFitAreNotWritten changes the tables without the projector's knowledge. The
// batch must fail as a whole.
func TestTablesThatTheJournalDoesNotFitAreNotWritten(t *testing.T) {
	opening := []exchange.Event{
		{Kind: exchange.SymbolMade, Symbol: "A"},
		{Kind: exchange.AccountOpened, Account: "1", Balance: exchange.Notional(1000, 1e8)},
		{Kind: exchange.AccountOpened, Account: "2", Balance: exchange.Notional(1000, 1e8)},
		{Kind: exchange.SharesDeposited, Symbol: "A", Account: "2", Deposited: exchange.Shares(100).Position()},
		{Kind: exchange.OrderAccepted, Symbol: "A", Account: "1", Order: 1, Terms: exchange.Terms{Side: exchange.Buy,
			Limit: 5}, Shares: 10},
		{Kind: exchange.OrderAccepted, Symbol: "A", Account: "1", Order: 2, Terms: exchange.Terms{Side: exchange.Buy,
			Limit: 4}, Shares: 10},
	}
	fill := exchange.Event{Kind: exchange.OrderAccepted, Symbol: "A", Account: "2", Order: 3,
		Terms:  exchange.Terms{Side: exchange.Sell, Limit: 5},
		Shares: 6,
		Fills:  []exchange.Fill{{Resting: 1, Account: "1", Shares: 6, Price: 5}}}
	cancel := exchange.Event{Kind: exchange.OrderCanceled, Symbol: "A", Account: "1", Order: 2,
		Terms:  exchange.Terms{Side: exchange.Buy, Limit: 4},
		Shares: 10}
	for damage, event := range map[string]exchange.Event{
		`DELETE FROM people.accounts WHERE id = '1'`:                           fill,
		`UPDATE people.accounts SET held = 0`:                                  fill,
		`DELETE FROM people.positions`:                                         fill,
		`UPDATE people.positions SET shares = 0`:                               fill,
		`DELETE FROM outcry.resting_orders WHERE id = 1`:                       fill,
		`UPDATE outcry.resting_orders SET open = 5 WHERE id = 1`:               fill,
		`INSERT INTO outcry.order_log VALUES (3, '', '', 0, 0, 0)`:             fill,
		`INSERT INTO outcry.execution_log VALUES (3, 1, 1, '', true, 0, 0, 0)`: fill,
		`DELETE FROM outcry.resting_orders WHERE id = 2`:                       cancel,
		`UPDATE outcry.resting_orders SET open = 11 WHERE id = 2`:              cancel,
		`INSERT INTO outcry.cancel_log VALUES (2, 0, 0)`:                       cancel,
	} {
		t.Run(damage, func(t *testing.T) {
			s, b := mustOpen(t, newTables(t)), newBatch()
			b.reset(0)
			for i := range opening {
				require.NoError(t, addKept(b, uint64(i+1), &opening[i]))
			}
			_, err := s.write(background, b)
			require.NoError(t, err)
			_, err = s.conn.Exec(background, damage)
			require.NoError(t, err)
			before, err := s.Load(background)
			require.NoError(t, err)

			b.reset(b.last)
			require.NoError(t, addKept(b, b.first, &event))
			_, err = s.write(background, b)
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrTaken)
			after, err := s.Load(background)
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}

// TestRowsOfOperationsThatDoNotFitAreNamed changes rows of a cancel of many orders and of a halt. A read of
// the history must name the first wrong row.
func TestRowsOfOperationsThatDoNotFitAreNamed(t *testing.T) {
	order := func(id exchange.OrderID, sym exchange.Symbol, account exchange.AccountID) exchange.Event {
		return exchange.Event{Kind: exchange.OrderAccepted, Symbol: sym, Account: account, Order: id,
			Terms:  exchange.Terms{Side: exchange.Buy, Limit: 5},
			Shares: 10}
	}
	cancel := func(id exchange.OrderID, sym exchange.Symbol) exchange.Cancel {
		return exchange.Cancel{Order: id, Symbol: sym, Terms: exchange.Terms{Side: exchange.Buy, Limit: 5}, Shares: 10}
	}
	events := []exchange.Event{
		{Kind: exchange.SymbolMade, Symbol: "A"}, {Kind: exchange.SymbolMade, Symbol: "B"},
		{Kind: exchange.AccountOpened, Account: "1", Balance: exchange.Notional(1000, 1e8)},
		{Kind: exchange.AccountOpened, Account: "2", Balance: exchange.Notional(1000, 1e8)},
		order(1, "B", "1"), order(2, "A", "1"), order(3, "A", "1"), order(4, "A", "2"),
		{Kind: exchange.OrdersCanceled, Time: 9*exchange.Second + 5, Account: "1",
			Cancels: []exchange.Cancel{cancel(2, "A"), cancel(3, "A"), cancel(1, "B")}},
		{Kind: exchange.SymbolHalted, Time: 9*exchange.Second + 5, Symbol: "A", Reason: "news"}, {Kind: exchange.SymbolHalted,
			Time: 9*exchange.Second + 5, Symbol: "B"},
		{Kind: exchange.SymbolResumed, Time: 10 * exchange.Second, Symbol: "A"},
	}
	url := newTables(t)
	s, b := mustOpen(t, url), newBatch()
	b.reset(0)
	for i := range events {
		require.NoError(t, addKept(b, uint64(i+1), &events[i]))
	}
	_, err := s.write(background, b)
	require.NoError(t, err)
	_, err = s.conn.Exec(background,
		`CREATE TEMP TABLE cancels AS SELECT * FROM outcry.cancel_log;
		CREATE TEMP TABLE halts AS SELECT * FROM outcry.halt_log`)
	require.NoError(t, err)
	for damage, want := range map[string]string{
		`SELECT 1`: "",
		`DELETE FROM outcry.cancel_log WHERE order_id = 2`: "cancel_log, seq 9: " +
			"its cancel 1 is missing",
		`DELETE FROM outcry.cancel_log WHERE order_id = 3`: "cancel_log, seq 9: " +
			"its cancel 2 is missing",
		`UPDATE outcry.cancel_log SET n = 2 WHERE n = 3`: "cancel_log, seq 9: " +
			"its cancel 3 is missing, or another one is duplicated",
		`UPDATE outcry.cancel_log SET n = NULL`: "cancel_log, order_id " +
			"2: it is of record 9, which another row has too",
		`UPDATE outcry.cancel_log SET order_id = 4 WHERE order_id = 3`: "cancel_log, seq 9: " +
			"order 4 is of account 2, the others are of account 1",
		`UPDATE outcry.cancel_log SET order_id = 7 WHERE order_id = 3`: "cancel_log, seq 9: " +
			"there is no order 7",
		`UPDATE outcry.cancel_log SET time = 8 WHERE order_id = 3`: "cancel_log, seq 9: " +
			"order 3 is canceled at 8.000000005, the others at 9.000000005",
		`UPDATE outcry.cancel_log SET n = 6 - n WHERE n > 1;
			UPDATE outcry.cancel_log SET n = n - 1 WHERE n = 4`: "cancel_log, seq 9",
		`UPDATE outcry.halt_log SET seq = 9 WHERE seq = 10`: "cancel_log, seq 9: it " +
			"is of record 9, which another row has too",
		`DELETE FROM outcry.halt_log WHERE seq = 11`: "halt_log, seq 12: it " +
			"is of record 12, but no row is of record 11",
		`UPDATE outcry.halt_log SET reason = E'two\nlines' WHERE seq = 10`: "halt_log, seq 10: " +
			"exchange: not an event: halt of A",
	} {
		t.Run(damage, func(t *testing.T) {
			_, err := s.conn.Exec(background, damage)
			require.NoError(t, err)
			t.Cleanup(func() {
				_, err := s.conn.Exec(background,
					`TRUNCATE outcry.cancel_log, outcry.halt_log;
						INSERT INTO outcry.cancel_log SELECT * FROM cancels; INSERT INTO outcry.halt_log SELECT * FROM halts`)
				require.NoError(t, err)
			})
			archive := mustOpenArchive(t, url)
			err = archive.History(background, func(seq uint64, e *exchange.Event) error {
				require.True(t, e.Same(timeless(events[seq-1])), "%+v", e)
				return nil
			})
			archive.Close() // an open archive would block the restoring of the tables
			if want == "" {
				require.NoError(t, err)
				snap, err := s.Load(background)
				require.NoError(t, err)
				halts := map[exchange.Symbol]*exchange.Halt{}
				for _, sym := range snap.Symbols {
					halts[sym.Symbol] = sym.Halt
				}
				require.Equal(t, map[exchange.Symbol]*exchange.Halt{"A": nil, "B": {Since: 9*exchange.Second + 5}}, halts)
				return
			}
			require.ErrorContains(t, err, want)
		})
	}
}

// TestEveryKindOfRecordHasRows checks that a record of a kind without rows ends the projection. Otherwise it
// would be lost when its segment is deleted.
func TestEveryKindOfRecordHasRows(t *testing.T) {
	known := map[exchange.EventKind]bool{}
	for kind := range exchange.EventKinds() {
		known[kind] = true
	}
	for n := range 256 {
		kind := exchange.EventKind(n)
		b := newBatch()
		b.reset(0)
		err := addKept(b, 1, &exchange.Event{Kind: kind, Account: "1", Symbol: "A", Order: 1,
			Terms: exchange.Terms{Side: exchange.Buy, Limit: 1}, Shares: 1})
		if known[kind] {
			require.NoError(t, err, kind)
			require.NotPanics(t, func() { RecordRow(&exchange.Event{Kind: kind}, 1) }, kind)
			continue
		}
		require.ErrorContains(t, err, "record 1 is of unknown kind event("+fmt.Sprint(n)+")")
	}
}

// mustWriteAgain makes a batch fail after most of its statements, and then writes it again unchanged.
func mustWriteAgain(t *testing.T, s *Store, b *batch) {
	t.Helper()
	do := func(sql string) {
		_, err := s.conn.Exec(background, sql)
		require.NoError(t, err)
	}
	do(`ALTER TABLE outcry.placed_log ADD CONSTRAINT late CHECK (false) NOT VALID`)
	_, err := s.write(background, b)
	require.ErrorContains(t, err, "late")
	do(`ALTER TABLE outcry.placed_log DROP CONSTRAINT late`)
	_, err = s.write(background, b)
	require.NoError(t, err)
}

// TestABatchThatFailedLateIsWrittenAgain makes each batch fail after most of its statements, and then writes
// it again unchanged.
func TestABatchThatFailedLateIsWrittenAgain(t *testing.T) {
	s := mustOpen(t, newTables(t))
	h, b := newHistory(3), newBatch()
	for range 10 {
		b.reset(h.seq)
		for range 100 {
			e := h.next()
			require.NoError(t, addKept(b, h.seq, &e))
		}
		mustWriteAgain(t, s, b)
	}
	snap, err := s.Load(background)
	require.NoError(t, err)
	restored, err := snap.Restore()
	require.NoError(t, err)
	compareStates(t, h.state, restored)
}

// TestAnAccountWithManyRecordsHasSeveralRows writes a batch in which each account has far more orders and
// executions than fit into a row. Postgres would compress larger rows and store them elsewhere. Each batch
// fails once.
func TestAnAccountWithManyRecordsHasSeveralRows(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := newTables(t)
	s, h, b, w := mustOpen(t, url), newHistory(seed), newBatch(), newDetailTwin()
	var events []exchange.Event
	for _, size := range []int{100, 10_000, 5_000} {
		b.reset(h.seq)
		for range size {
			e := h.next()
			events = append(events, e)
			w.apply(h.seq, &e)
			require.NoError(t, addKept(b, h.seq, &e))
		}
		mustWriteAgain(t, s, b)
	}
	for table, column := range map[string]string{"fill_log": "fills", "placed_log": "orders"} {
		var longest, elsewhere int
		require.NoError(t, s.conn.QueryRow(background, `SELECT max(octet_length(`+column+`)),
			(SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'outcry.`+table+`'::regclass)
			FROM outcry.`+table).Scan(&longest, &elsewhere))
		require.LessOrEqual(t, longest, rowBytesMax, table)
		require.Greater(t, longest, rowBytesMax-2*itemBytesMax, "%s: a row has what it may have", table)
		require.Zero(t, elsewhere, table)
	}
	a := mustOpenArchive(t, url)
	require.NoError(t, a.CheckPlaced(background))
	fills, err := a.CountFills(background)
	require.NoError(t, err)
	require.NoError(t, a.History(background, fills.Add))
	require.NoError(t, fills.Check(background))
	past, err := OpenHistory(background, url, "")
	require.NoError(t, err)
	t.Cleanup(past.Close)
	requireFills(t, past, events)
	requireOrders(t, h, w, past)
	requireTrades(t, h, w, past)
}
