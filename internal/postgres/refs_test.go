package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/postgres/pgtest"
)

func mustOpenHistory(t *testing.T, url string) *History {
	t.Helper()
	past, err := OpenHistory(background, url)
	require.NoError(t, err)
	t.Cleanup(past.Close)
	return past
}

// TestHistoryKnowsEveryRef compares what the tables say of refs with the events that
// have used them.
func TestHistoryKnowsEveryRef(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := pgtest.NewDatabase(t)
	s, h := mustOpen(t, url), newHistory(seed)
	want, keys := map[exchange.RefKey]exchange.RefUse{}, []exchange.RefKey{{Account: "1", Ref: "none"}, {Account: "77", Ref: "ref-5"}}
	kinds := map[exchange.CommandKind]int{}
	for _, e := range written(t, s, h, 2000) {
		if e.Ref != "" {
			key := exchange.RefKey{Account: e.Account, Ref: e.Ref}
			want[key], keys = e.Use(), append(keys, key)
			kinds[want[key].Kind]++
		}
	}
	require.Len(t, kinds, 3, "orders, placements and accounts have refs")
	past := mustOpenHistory(t, url)
	got, err := past.Refs(background, keys)
	require.NoError(t, err)
	require.Equal(t, want, got)
	none, err := past.Refs(background, keys[:2])
	require.NoError(t, err)
	require.Empty(t, none)

	found := map[exchange.RefKey]bool{}
	require.NoError(t, past.EachRef(background, func(key exchange.RefKey) bool {
		require.False(t, found[key])
		found[key] = true
		return true
	}))
	require.Len(t, found, len(want))
	for key := range want {
		require.True(t, found[key], "%v", key)
	}
	some := 0
	require.NoError(t, past.EachRef(background, func(exchange.RefKey) bool { some++; return some < 10 }))
	require.Equal(t, 10, some)

	a := mustOpenArchive(t, url)
	n, err := a.CheckRefs(background)
	require.NoError(t, err)
	require.EqualValues(t, len(want), n)
	inArchive, err := a.Refs(background, keys)
	require.NoError(t, err)
	require.Equal(t, want, inArchive)
}

func TestRefsThatCannotBeReadAreAnError(t *testing.T) {
	url := pgtest.NewDatabase(t)
	s, h := mustOpen(t, url), newHistory(1)
	events := written(t, s, h, 200)
	past := mustOpenHistory(t, url)
	for _, e := range events {
		if e.Kind == exchange.OrderAccepted && e.Ref != "" {
			_, err := s.conn.Exec(background, `DELETE FROM order_log WHERE id = $1`, e.Order)
			require.NoError(t, err)
			_, err = past.Refs(background, []exchange.RefKey{{Account: e.Account, Ref: e.Ref}})
			require.ErrorContains(t, err, fmt.Sprintf("ref %s of account %s: no table has its record", e.Ref, e.Account))
			break
		}
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	_, err := past.Refs(ended, []exchange.RefKey{{Account: "1", Ref: "r"}})
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
	require.ErrorIs(t, past.EachRef(ended, func(exchange.RefKey) bool { return true }), context.Canceled)
}

// TestAnAccountUsesARefOnce: the table itself takes none twice.
func TestAnAccountUsesARefOnce(t *testing.T) {
	s := mustOpen(t, pgtest.NewDatabase(t))
	b := newBatch()
	b.reset(0)
	for seq := uint64(1); seq <= 2; seq++ {
		e := exchange.Event{Kind: exchange.AccountOpened, Account: "1", Ref: "r"}
		if seq == 2 {
			e = exchange.Event{Kind: exchange.SharesPlaced, Account: "1", Symbol: "A", Placed: exchange.Position{Lo: 1}, Ref: "r"}
		}
		require.NoError(t, b.add(seq, &e))
	}
	_, err := s.write(background, b)
	require.ErrorContains(t, err, "refs_pkey")
}
