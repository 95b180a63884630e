package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/pgtest"
)

// newestTime returns the latest time of the events whose rows keep one.
func newestTime(events []exchange.Event) (newest int64) {
	for i := range events {
		newest = max(newest, timeless(events[i]).Time)
	}
	return newest
}

// TestTheNewestTimeIsKeptOverARestart checks that the latest time is read from the tables after a clean stop.
// The last records have earlier times than those before them, and the record with the latest time has no row
// with its time.
func TestTheNewestTimeIsKeptOverARestart(t *testing.T) {
	t.Parallel()
	url := newTables(t)
	s, b := mustOpen(t, url), newBatch()
	keeps := func(want int64) {
		t.Helper()
		snap, err := s.Load(background)
		require.NoError(t, err)
		require.Equal(t, want, snap.Time)
		state, err := snap.Restore()
		require.NoError(t, err)
		require.Equal(t, want, state.Time)
		a := mustOpenArchive(t, url)
		state, err = a.State(background)
		require.NoError(t, err)
		require.Equal(t, want, state.Time)
	}
	keeps(0)
	for _, times := range [][]int64{{10, 9 * exchange.Second}, {8 * exchange.Second, 7}, {5*exchange.Second + 3}} {
		b.reset(b.last)
		for _, at := range times {
			e := exchange.Event{Kind: exchange.AccountOpened, Time: at, Account: exchange.AccountID("abcdef"[b.last : b.last+1])}
			require.NoError(t, addKept(b, b.last+1, &e))
		}
		_, err := s.write(background, b)
		require.NoError(t, err)
		keeps(9 * exchange.Second)
		s = mustReopen(t, s, url)
		keeps(9 * exchange.Second)
	}
}

// TestAnUpgradeFindsTheNewestTime puts the latest time into each table in turn, and the upgrade must find it. It must
// also notice a recorded time that is earlier than a row's.
func TestAnUpgradeFindsTheNewestTime(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := newTables(t)
	s, h := mustOpen(t, url), newHistory(seed)
	events := written(t, s, h, 1500)
	asNinth(t, s)
	s = mustReopen(t, s, url)
	snap, err := s.Load(background)
	require.NoError(t, err)
	newest := newestTime(events)
	require.Equal(t, newest, snap.Time)
	try(t, s, events, `UPDATE people.exchange_state SET time_ns = time_ns - 1`)
	for _, at := range []string{"order_log", "part_log", "cancel_log", "halt_log", "amend_log", "cause_log", "account_log",
		"symbol_log", "switch_log"} {
		newest += 2*exchange.Second + 1
		column, value := "time_ns", `$1`
		switch at {
		case "order_log", "part_log", "cancel_log", "halt_log":
			column, value = "(time, nanos)", `($1::bigint / 1000000000, $1::bigint % 1000000000)`
		}
		tag, err := s.conn.Exec(background, `UPDATE outcry.`+at+` SET `+column+` = `+value+
			` WHERE seq = (SELECT min(seq) FROM outcry.`+at+`)`, newest)
		require.NoError(t, err)
		require.Positive(t, tag.RowsAffected(), at)
		_, err = s.conn.Exec(background, pgtest.UndoDoors)
		require.NoError(t, err)
		s = mustReopen(t, s, url)
		snap, err := s.Load(background)
		require.NoError(t, err)
		require.Equal(t, newest, snap.Time, at)
	}
}
