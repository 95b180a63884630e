package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
)

// verified checks the tables as `outcry verify` does, and compares them with the events.
func verified(a *Archive, events []exchange.Event) error {
	fills, err := a.CountFills(background)
	if err != nil {
		return err
	}
	state := newState()
	err = a.History(background, func(seq uint64, e *exchange.Event) error {
		if !e.Same(timeless(events[seq-1])) {
			return fmt.Errorf("record %d: %+v, not %+v", seq, e, events[seq-1])
		}
		return errors.Join(fills.Add(seq, e), state.Apply(e))
	})
	if err != nil {
		return err
	}
	snap, err := a.Tables(background)
	if err == nil {
		err = errors.Join(state.SameOrders(snap), state.SameHoldings(snap), fills.Check(background))
	}
	if err == nil {
		_, err = a.CheckRefs(background)
	}
	return errors.Join(err, a.CheckOrders(background), a.CheckMarket(background), a.CheckCandles(background),
		a.CheckPlaced(background))
}

// plantedIn lists the tables and columns that were added with order instructions or later.
var plantedIn = map[string][]string{
	"accounts": {"fills", "blocked_at", "blocked_nanos", "block_reason", "stp", "shares_max", "notional_max", "open_max",
		"cancel_at_ns", "n"},
	"symbols": {"halted_nanos", "tick", "lot", "protect", "band"}, "market": {"last_nanos"},
	"order_log": {"nanos", "instructions", "ref"}, "part_log": {"nanos"},
	"execution_log": {"nanos", "trade", "taker_fill", "resting_fill"},
	"cancel_log":    {"nanos", "n", "seq", "why"}, "halt_log": {"nanos"},
	"resting_orders": {"instructions", "reduced", "reduced_at_ns"},
	"fill_log":       nil, "amend_log": nil, "hold_log": nil, "cause_log": nil, "account_log": nil, "symbol_log": nil,
	"switch_log": nil, "placed_log": nil, "candles": nil, // all columns
}

// TestAWrongValueInAColumnIsNoticed changes one value at a time, also to and from NULL, and deletes rows.
func TestAWrongValueInAColumnIsNoticed(t *testing.T) {
	budget.SkipRaced(t, "one goroutine asks Postgres")
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := newTables(t)
	s, h := mustOpen(t, url), newHistory(seed)
	var events []exchange.Event
	complete := `SELECT EXISTS (SELECT FROM outcry.hold_log)
		AND EXISTS (SELECT FROM people.symbols WHERE halted_nanos > 0)
		AND EXISTS (SELECT FROM outcry.account_log WHERE blocked_ns IS NOT NULL)
		AND EXISTS (SELECT FROM people.accounts WHERE blocked_nanos > 0)
		AND EXISTS (SELECT FROM outcry.part_log) AND EXISTS (SELECT FROM outcry.resting_orders WHERE instructions & 512 <> 0)`
	for _, described := range allTables { // each column must have a value
		d, _, _ := described.describe()
		columns, planted := plantedIn[d.Name]
		for _, c := range d.Columns {
			if planted && (columns == nil || slices.Contains(columns, c)) {
				complete += fmt.Sprintf(" AND EXISTS (SELECT FROM %s WHERE %s IS NOT NULL)", named(d.Name), c)
			}
		}
	}
	for there, records := false, 500; !there; records = 10 { // some values exist for a few records only
		require.Less(t, len(events), 10_000)
		events = append(events, written(t, s, h, records)...)
		require.NoError(t, s.conn.QueryRow(background, complete).Scan(&there))
	}
	n, planted := 0, 0 // number of all columns, and of those that were tried
	for _, described := range allTables {
		d, types, nulls := described.describe()
		columns, there := plantedIn[d.Name]
		if !there {
			continue
		}
		try(t, s, events, "DELETE FROM "+named(d.Name)+" WHERE ctid = (SELECT max(ctid) FROM "+named(d.Name)+")")
		for i, c := range d.Columns {
			if columns != nil && !slices.Contains(columns, c) {
				continue
			}
			if n++; !budget.Full && n%3 != int(seed%3) {
				continue
			}
			planted++
			wrong := map[string]string{"bigint": c + " + 1", "integer": c + " + 1", "smallint": c + " + 1",
				"numeric": c + " + 0.00000001", "text": c + " || '7'",
				"bytea": "set_byte(" + c + ", 0, get_byte(" + c + ", 0) # 4)"}
			set := func(value, where string) {
				name := named(d.Name)
				try(t, s, events, fmt.Sprintf("UPDATE %s SET %s = %s WHERE ctid = (SELECT max(ctid) FROM %[1]s WHERE %[2]s %[4]s)",
					name, c, value, where))
			}
			set(wrong[types[i]], "IS NOT NULL")
			if nulls[i] && !(d.Name == "cancel_log" && c == "n") {
				set("NULL", "IS NOT NULL")
			}
		}
	}
	require.Greater(t, n, 60)
	require.GreaterOrEqual(t, planted, n/3)
	try(t, s, events, `UPDATE people.exchange_state SET exact_after = applied_seq`)
	try(t, s, events, `UPDATE people.exchange_state SET numbered_after = applied_seq`)
	try(t, s, events, `UPDATE outcry.order_log SET ref = ''
		WHERE id = (SELECT max(id) FROM outcry.order_log WHERE ref <> '')`)
	try(t, s, events, `UPDATE people.accounts SET open_max = 9 WHERE ctid = (SELECT max(ctid) FROM people.accounts)`)
	try(t, s, events, `UPDATE outcry.resting_orders SET instructions = instructions # 512
		WHERE id = (SELECT max(id) FROM outcry.resting_orders)`)
	try(t, s, events, `UPDATE outcry.order_log SET instructions = instructions # 2048 WHERE id = 1`)
}

// try changes the tables in a transaction that is rolled back, and requires that verification fails.
func try(t *testing.T, s *Store, events []exchange.Event, sql string) {
	t.Helper()
	undone := errors.New("undone")
	err := pgx.BeginFunc(background, s.conn, func(tx pgx.Tx) error {
		a := &Archive{conn: s.conn, tx: tx}
		var err error
		tag, err := tx.Exec(background, sql)
		const integrity = "23" // class of constraint violations
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(refused.Code, integrity) {
			return undone // a constraint refused the change
		}
		require.NoError(t, err, sql)
		require.Positive(t, tag.RowsAffected(), "no row was changed by %s", sql)
		a.state, err = readState(background, tx)
		require.NoError(t, err)
		require.Error(t, verified(a, events), "nobody notices %s", sql)
		return undone
	})
	require.ErrorIs(t, err, undone)
}
