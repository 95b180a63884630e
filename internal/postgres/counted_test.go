package postgres

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/trailtest"
	"outcry/internal/view/accounts"
)

// passed is a source of records for a projector; the test sends them one by one.
type passed struct {
	seq     uint64
	records chan []byte
}

func (p *passed) TryNext() (uint64, []byte, bool, error) {
	select {
	case record := <-p.records:
		p.seq++
		return p.seq, record, true, nil
	default:
		return 0, nil, false, nil
	}
}

func (p *passed) Close() {}

// TestTheTablesCountEventsAsTheViewDoes compares the counters of events and fills of all accounts, after each
// record of a random history with all kinds of events.
func TestTheTablesCountEventsAsTheViewDoes(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	records := uint64(budget.Of(3000))
	s, h := mustOpen(t, newTables(t)), newHistory(seed)
	p := &passed{records: make(chan []byte, 1)}
	v := accounts.NewView(accounts.Options{Records: trailtest.Follow(p, 0, nil), Log: slog.New(slog.DiscardHandler)},
		&exchange.Snapshot{})
	ctx, stop := context.WithCancel(background)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		v.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	kinds, quiet := map[exchange.EventKind]int{}, 0
	every := len(slices.Collect(exchange.EventKinds()))
	for b := newBatch(); h.seq < records || (quiet == 0 || len(kinds) < every) && h.seq < 20_000; {
		b.reset(h.seq)
		e := h.next()
		kinds[e.Kind]++
		if e.Kind == exchange.OrderReduced && e.Shares == 0 {
			quiet++
		}
		require.NoError(t, addKept(b, h.seq, &e))
		_, err := s.write(background, b)
		require.NoError(t, err)
		p.records <- exchange.AppendEvent(nil, &e)
		require.NoError(t, v.Await(background, h.seq))
		var id exchange.AccountID
		var events, fills uint64
		err = pgx.BeginFunc(background, s.conn, func(tx pgx.Tx) error {
			return load(background, tx, `SELECT id, n, fills FROM people.accounts`, []any{&id, &events, &fills}, func() error {
				a, _, err := v.Account(id)
				require.NoError(t, err)
				require.Equal(t, [2]uint64{a.N, a.LastFill}, [2]uint64{events, fills}, "account %s after record %d, %s",
					id, h.seq, e.Kind)
				return nil
			})
		})
		require.NoError(t, err)
	}
	for kind := range exchange.EventKinds() {
		require.NotZero(t, kinds[kind], kind)
	}
	require.NotZero(t, quiet, "some amends only give a ref")
}
