package postgres

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/pgtest"
)

// TestNumbersGoOnThroughAnUpgrade turns a database back to schema 9 in the middle of its history. After the upgrade,
// each account's events, and each symbol's trades and candles, are numbered as if there had been no upgrade.
func TestNumbersGoOnThroughAnUpgrade(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := newTables(t)
	s, h := mustOpen(t, url), newHistory(seed)
	events := written(t, s, h, budget.Of(4500))
	asNinth(t, s)
	s = mustReopen(t, s, url)
	upgraded := uint64(len(events))
	events = append(events, written(t, s, h, budget.Of(2100))...)

	w := newDetailTwin()
	for i := range events {
		w.apply(uint64(i+1), &events[i])
	}
	a := mustOpenArchive(t, url)
	require.Equal(t, upgraded, a.state.numberedAfter)
	require.NoError(t, verified(a, events))
	snap, err := s.Load(background)
	require.NoError(t, err)
	for _, account := range snap.Accounts {
		require.Equal(t, w.events[account.ID], account.Events, "account %s", account.ID)
	}
	past, err := OpenHistory(background, url, "")
	require.NoError(t, err)
	defer past.Close()
	for i := range exchange.Intervals {
		got, err := past.Candles(background, "A", i, 0, 0, 1<<20)
		require.NoError(t, err)
		require.Equal(t, w.candles["A"][i], got, i.String())
	}
	open := map[exchange.OrderID]bool{}
	for _, o := range snap.Orders {
		open[o.ID] = true
		require.Equal(t, w.orders[o.ID].Ref, o.Ref, "order %d", o.ID)
		require.Equal(t, w.orders[o.ID].NewRef, o.NewRef, "order %d", o.ID)
	}
	for id, o := range w.orders {
		want := o.now()
		d, found, err := past.OrderAt(background, id, exchange.Moment{})
		require.NoError(t, err)
		require.True(t, found)
		if accepted := w.first[id]; accepted.Changed <= events[upgraded-1].Time && !open[id] {
			d.Ref = want.Ref // schema 9 may have lost the ref
		}
		require.Equal(t, want.State, d.State)
		if ambiguous := want.Why == exchange.CanceledSTP && d.Why == exchange.CanceledRest; ambiguous {
			d.Why = want.Why // older programs did not record this difference
		}
		require.Equal(t, want.OrderDetail, d.OrderDetail, "order %d", id)
		require.Len(t, d.Fills, len(want.fills))
	}
	for id, all := range w.fills { // executions before the upgrade have no trade numbers
		for _, sym := range []exchange.Symbol{"A", "B", "C"} {
			var want []exchange.AccountFill
			for _, f := range all {
				if f.Symbol == sym {
					want = append(want, f)
				}
			}
			want = want[max(0, len(want)-1000):]
			got, err := past.Trades(background, id, sym, 0, 0, 0, 0, 1000)
			require.NoError(t, err)
			require.Len(t, got, len(want))
			for i := range got {
				if got[i].Trade == 0 {
					want[i].Trade = 0
				}
			}
			require.Equal(t, append([]exchange.AccountFill{}, want...), append([]exchange.AccountFill{}, got...))
		}
	}
}

// asNinth turns a database into one as a program with schema 9 would leave it.
func asNinth(t *testing.T, s *Store) {
	t.Helper()
	var rows []fillRow
	var row fillRow
	require.NoError(t, pgx.BeginFunc(background, s.conn, func(tx pgx.Tx) error {
		return load(background, tx, fillLog.query(""), fillLog.into(&row), func() error {
			one := row
			one.fills = nil
			taker := exchange.OrderID(0)
			require.NoError(t, readFills(row.fills, func(f accountFill) bool {
				away, side := int64(f.taker-taker), uint64(0)
				if taker = f.taker; f.isTaker {
					side = 1
				}
				one.fills = binary.AppendUvarint(one.fills, uint64(away<<1^away>>63)<<1|side)
				one.fills = binary.AppendUvarint(one.fills, uint64(f.n))
				return true
			}))
			rows = append(rows, one)
			return nil
		})
	}))
	require.NotEmpty(t, rows)
	for _, r := range rows {
		_, err := s.conn.Exec(background, `UPDATE outcry.fill_log SET fills = $3 WHERE account = $1 AND last = $2`,
			r.account, int64(r.last), r.fills)
		require.NoError(t, err)
	}
	_, err := s.conn.Exec(background, pgtest.UndoDoors)
	require.NoError(t, err)
}
