package jsonrpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// TestASlowBookTellsNothingTwice: a timer that is due between a change and its flush tells the change, and the flush
// then has nothing to tell. A delta of nothing would have seq 0 and break the chain.
func TestASlowBookTellsNothingTwice(t *testing.T) {
	s := &slowBook{bids: levelTotals{}, asks: levelTotals{}, seq: 5}
	b, none := &bookTeller{channel: "book.S.100ms", slow: s}, &topic{}
	s.pending.add(&delta{seq: 6, checksum: 9, bids: []market.Level{{Price: 1, Shares: exchange.Position{}}}})
	b.flush(none) // as the timer does
	require.EqualValues(t, []any{uint64(6), uint32(9)}, []any{s.seq, s.checksum})
	s.told = time.Time{}
	b.flush(none)
	require.EqualValues(t, []any{uint64(6), uint32(9)}, []any{s.seq, s.checksum})
}
