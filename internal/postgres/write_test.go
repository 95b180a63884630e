package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/postgres/pgtest"
)

// TestABatchReadsNoWholeTable writes to tables that Postgres knows nothing of yet,
// and to tables that it knows to be small.
func TestABatchReadsNoWholeTable(t *testing.T) {
	s := mustOpen(t, pgtest.NewDatabase(t))
	h := newHistory(6)
	written(t, s, h, 1000)
	scans := func() (n int64) {
		_, err := s.conn.Exec(background, `SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()`)
		require.NoError(t, err)
		require.NoError(t, s.conn.QueryRow(background, `SELECT sum(seq_scan) FROM pg_stat_user_tables
			WHERE relname NOT IN ('exchange_state', 'outcry_schema_version')`).Scan(&n))
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

// TestTablesThatTheJournalDoesNotFitAreNotWritten changes the tables behind the
// projector's back. The batch fails as a whole.
func TestTablesThatTheJournalDoesNotFitAreNotWritten(t *testing.T) {
	opening := []exchange.Event{
		{Kind: exchange.SymbolMade, Symbol: "A"},
		{Kind: exchange.AccountOpened, Account: "1", Balance: exchange.Notional(1000, 1e8)},
		{Kind: exchange.AccountOpened, Account: "2", Balance: exchange.Notional(1000, 1e8)},
		{Kind: exchange.SharesPlaced, Symbol: "A", Account: "2", Placed: exchange.Shares(100).Position()},
		{Kind: exchange.OrderAccepted, Symbol: "A", Account: "1", Order: 1, Side: exchange.Buy, Shares: 10, Limit: 5},
		{Kind: exchange.OrderAccepted, Symbol: "A", Account: "1", Order: 2, Side: exchange.Buy, Shares: 10, Limit: 4},
	}
	fill := exchange.Event{Kind: exchange.OrderAccepted, Symbol: "A", Account: "2", Order: 3, Side: exchange.Sell, Shares: 6, Limit: 5,
		Fills: []exchange.Fill{{Resting: 1, Account: "1", Shares: 6, Price: 5}}}
	cancel := exchange.Event{Kind: exchange.OrderCanceled, Symbol: "A", Account: "1", Order: 2, Side: exchange.Buy, Shares: 10, Limit: 4}
	for damage, event := range map[string]exchange.Event{
		`DELETE FROM accounts WHERE id = '1'`:                           fill,
		`UPDATE accounts SET held = 0`:                                  fill,
		`DELETE FROM positions`:                                         fill,
		`UPDATE positions SET shares = 0`:                               fill,
		`DELETE FROM resting_orders WHERE id = 1`:                       fill,
		`UPDATE resting_orders SET open = 5 WHERE id = 1`:               fill,
		`INSERT INTO order_log VALUES (3, '', '', 0, 0, 0)`:             fill,
		`INSERT INTO execution_log VALUES (3, 1, 1, '', true, 0, 0, 0)`: fill,
		`DELETE FROM resting_orders WHERE id = 2`:                       cancel,
		`UPDATE resting_orders SET open = 11 WHERE id = 2`:              cancel,
		`INSERT INTO cancel_log VALUES (2, 0, 0)`:                       cancel,
	} {
		t.Run(damage, func(t *testing.T) {
			s, b := mustOpen(t, pgtest.NewDatabase(t)), newBatch()
			b.reset(0)
			for i := range opening {
				require.NoError(t, b.add(uint64(i+1), &opening[i]))
			}
			_, err := s.write(background, b)
			require.NoError(t, err)
			_, err = s.conn.Exec(background, damage)
			require.NoError(t, err)
			before, err := s.Load(background)
			require.NoError(t, err)

			b.reset(b.last)
			require.NoError(t, b.add(b.first, &event))
			_, err = s.write(background, b)
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrTaken)
			after, err := s.Load(background)
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}
