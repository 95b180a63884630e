package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/pgtest"
)

func mustOpenHistory(t *testing.T, url string) *History {
	t.Helper()
	past, err := OpenHistory(background, url, "")
	require.NoError(t, err)
	t.Cleanup(past.Close)
	return past
}

// TestHistoryKnowsEveryRef compares the uses of refs in the tables with the events.
func TestHistoryKnowsEveryRef(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	url := newTables(t)
	s, h := mustOpen(t, url), newHistory(seed)
	want, keys := map[exchange.RefKey]exchange.RefUse{}, []exchange.RefKey{{Account: "1", Ref: "none"},
		{Account: "77", Ref: "ref-5"}}
	kinds := map[exchange.CommandKind]int{}
	for _, e := range written(t, s, h, 2000) {
		if e.Ref != "" {
			key := exchange.RefKey{Account: e.Account, Ref: e.Ref}
			want[key], keys = e.Use(), append(keys, key)
			kinds[want[key].Kind]++
		}
	}
	require.Len(t, kinds, 4, "orders, amends, placements and accounts have refs")
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
	url := newTables(t)
	s, h := mustOpen(t, url), newHistory(1)
	events := written(t, s, h, 200)
	past := mustOpenHistory(t, url)
	for _, e := range events {
		if e.Kind == exchange.OrderAccepted && e.Ref != "" {
			_, err := s.conn.Exec(background, `DELETE FROM outcry.order_log WHERE id = $1`, e.Order)
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

// TestAnAccountUsesARefOnce checks that the table itself refuses a second use.
func TestAnAccountUsesARefOnce(t *testing.T) {
	s := mustOpen(t, newTables(t))
	b := newBatch()
	b.reset(0)
	for seq := uint64(1); seq <= 2; seq++ {
		e := exchange.Event{Kind: exchange.AccountOpened, Account: "1", Ref: "r"}
		if seq == 2 {
			e = exchange.Event{Kind: exchange.SharesDeposited, Account: "1", Symbol: "A", Deposited: exchange.Position{Lo: 1},
				Ref: "r"}
		}
		require.NoError(t, addKept(b, seq, &e))
	}
	_, err := s.write(background, b)
	require.ErrorContains(t, err, "refs_pkey")
}

// refsCount is the number of refs in BenchmarkRefs. docs/decisions/0011 has figures for ten million.
var refsCount = flag.Int("refs", 20_000, "`refs` in BenchmarkRefs")

// BenchmarkRefs reads all refs, as a start does, and queries some of them, as a session does.
func BenchmarkRefs(b *testing.B) {
	url := pgtest.NewDatabase(b)
	s := mustOpen(b, url)
	begun := time.Now()
	_, err := s.conn.Exec(background,
		`INSERT INTO outcry.refs SELECT (1000000 + n % 1000)::text, 'client-' || n % 1000 || ':' || n, n, NULL
			FROM generate_series(1, $1::bigint) n`, *refsCount)
	require.NoError(b, err)
	b.Logf("%d refs written in %s", *refsCount, time.Since(begun))
	var table, key int64
	require.NoError(b, s.conn.QueryRow(background,
		`SELECT pg_relation_size('outcry.refs'), pg_relation_size('outcry.refs_pkey')`).Scan(&table, &key))
	past, err := OpenHistory(background, url, "")
	require.NoError(b, err)
	defer past.Close()
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			n := 0
			require.NoError(b, past.EachRef(background, func(exchange.RefKey) bool { n++; return true }))
			require.Equal(b, *refsCount, n)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N**refsCount), "ns/ref")
		b.ReportMetric(float64(table+key)/float64(*refsCount), "B/ref")
	})
	for _, together := range []int{1, 16} {
		b.Run(fmt.Sprintf("ask=%d", together), func(b *testing.B) {
			keys := make([]exchange.RefKey, together)
			for i := range keys {
				keys[i].Account = "1000001" // this account has none of the refs
			}
			for n := 0; b.Loop(); n++ {
				for i := range keys {
					keys[i].Ref = exchange.Ref(fmt.Sprintf("client-2:%d", n*together+i))
				}
				_, err := past.Refs(background, keys)
				require.NoError(b, err)
			}
		})
	}
}
