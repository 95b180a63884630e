package postgres

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/pgtest"
)

// amendOften reduces an order n times, some of them in the batch that accepts it. It gives another order n refs and
// leaves a third order unchanged. It returns the resulting state.
func amendOften(t testing.TB, s *Store, n int) *exchange.State {
	t.Helper()
	state, b := exchange.NewState(), newBatch()
	b.reset(0)
	add := func(e exchange.Event) {
		e.Time = int64(b.last+1) * 1_000_000_007
		require.NoError(t, state.Apply(&e), "record %d", b.last+1)
		require.NoError(t, addKept(b, b.last+1, &e))
	}
	shares := exchange.Shares(10 * n)
	place := func(id exchange.OrderID) {
		add(exchange.Event{Kind: exchange.OrderAccepted, Account: "1", Symbol: "A", Order: id, Shares: shares,
			Terms: exchange.Terms{Side: exchange.Sell, Limit: 5}})
	}
	amend := func(id exchange.OrderID, less exchange.Shares, ref string) {
		o, _ := state.Books["A"].Find(id)
		amount := exchange.Shares(0)
		if less > 0 {
			amount = o.Open - less
		}
		e := exchange.Event{Ref: exchange.Ref(ref), Amend: o.Amendment(exchange.OrderReduced, amount, 0, less)}
		amend := e.Amend
		e.Note(exchange.OrderReduced, &o, "A", less, 0)
		e.Ref, e.Amend = exchange.Ref(ref), amend
		add(plain(e))
	}
	add(exchange.Event{Kind: exchange.SymbolMade, Symbol: "A"})
	add(exchange.Event{Kind: exchange.AccountOpened, Account: "1"})
	add(exchange.Event{Kind: exchange.SharesDeposited, Account: "1", Symbol: "A", Deposited: (3 * shares).Position()})
	for id := range exchange.OrderID(3) {
		place(id + 1)
	}
	for i := range n {
		if i == n/3 || i == 2*n/3 {
			_, err := s.write(background, b)
			require.NoError(t, err)
			b.reset(b.last)
		}
		amend(1, 1, "")
	}
	amend(2, 3, "")
	for i := range n {
		amend(2, 0, fmt.Sprint(i))
	}
	amend(1, 0, "last")
	_, err := s.write(background, b)
	require.NoError(t, err)
	return state
}

// TestAStartReadsFewAmends checks that a load reads few amends, however many an open order had.
func TestAStartReadsFewAmends(t *testing.T) {
	t.Parallel()
	const n = 900
	url := newTables(t)
	s := mustOpen(t, url)
	state := amendOften(t, s, n)
	_, err := s.conn.Exec(background, `ANALYZE`)
	require.NoError(t, err)
	read := func() (rows int64) {
		_, err := s.conn.Exec(background, `SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()`)
		require.NoError(t, err)
		require.NoError(t, s.conn.QueryRow(background, `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables
			WHERE relname = 'amend_log'`).Scan(&rows))
		return rows
	}
	for range 2 { // rows that the program wrote, then rows that an upgrade derived from the log
		before := read()
		snap, err := s.Load(background)
		require.NoError(t, err)
		require.LessOrEqual(t, read()-before, int64(4*len(snap.Orders)))
		require.Equal(t, []exchange.Ref{"last", exchange.Ref(fmt.Sprint(n - 1)), ""},
			[]exchange.Ref{snap.Orders[0].NewRef, snap.Orders[1].NewRef, snap.Orders[2].NewRef})
		require.Equal(t, exchange.Shares(n), snap.Orders[0].Lineage.Reduced)
		require.NoError(t, state.SameOrders(snap))
		restored, err := snap.Restore()
		require.NoError(t, err)
		require.Equal(t, state.Digest(), restored.Digest())
		a := mustOpenArchive(t, url)
		tables, err := a.Tables(background)
		require.NoError(t, err)
		require.NoError(t, state.SameOrders(tables))
		a.Close()
		_, err = s.conn.Exec(background, pgtest.UndoDoors)
		require.NoError(t, err)
		s = mustReopen(t, s, url)
	}
}
