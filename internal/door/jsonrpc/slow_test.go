package jsonrpc

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/trailtest"
	"outcry/internal/view/market"
)

// noRecords is an empty journal.
type noRecords struct{}

func (noRecords) TryNext() (seq uint64, record []byte, ok bool, err error) { return 0, nil, false, nil }
func (noRecords) Close()                                                   {}

// TestASlowBookTellsNothingTwice: a timer that fires after a flush has sent everything must send nothing. A delta
// without levels would repeat seq.
func TestASlowBookTellsNothingTwice(t *testing.T) {
	feed := market.NewFeed(market.Options{Records: trailtest.Follow(noRecords{}, 5, nil),
		Log: slog.New(slog.DiscardHandler)}, &market.Snapshot{Seq: 5, Symbols: []exchange.SymbolState{{Symbol: "S"}}})
	none := &topic{}
	s := &slowBook{paced: newPaced(), channel: "book.S.100ms"}
	require.NoError(t, feed.View("S", func(m *market.Market) {
		s.Begin(none, m)
		one := &market.Change{Seq: 6, Prev: 5, Market: m,
			Bids: []market.Level{{Price: 1, Shares: exchange.Shares(1).Position()}}}
		require.True(t, s.Change(none, one))
		require.True(t, s.Flush(none, m))
		require.EqualValues(t, 6, s.seq)
		s.pace.Sent(time.Time{})
		require.False(t, s.Tick(none, m))
		require.EqualValues(t, 6, s.seq)
	}))
}
