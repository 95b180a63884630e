package fanout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

func level(i int) market.Level {
	return market.Level{Price: exchange.Price(i + 1), Shares: exchange.Shares(i + 2).Position()}
}

// TestMergedDeltasAreOne: the changes of several records become one change, which covers all of them.
func TestMergedDeltasAreOne(t *testing.T) {
	var m Merge
	m.Start(7)
	require.Zero(t, m.Levels())
	m.Add(&BookChange{Prev: 7, Seq: 9, Time: 10, Bids: []market.Level{level(1), level(3)}, Asks: []market.Level{level(5)}})
	gone := level(3)
	gone.Shares = exchange.Position{}
	m.Add(&BookChange{Prev: 9, Seq: 12, Time: 20, Bids: []market.Level{gone}, Asks: []market.Level{level(4)}})
	require.Equal(t, 4, m.Levels())
	require.Equal(t, BookChange{Prev: 7, Seq: 12, Time: 20, Bids: []market.Level{gone, level(1)},
		Asks: []market.Level{level(4), level(5)}}, m.Take())
	require.Zero(t, m.Levels())
	m.Add(&BookChange{Prev: 12, Seq: 13})
	require.EqualValues(t, 12, m.Take().Prev, "it continues after what was taken")
}

// TestAppliedLevelsAreTheBook: a level without shares is gone.
func TestAppliedLevelsAreTheBook(t *testing.T) {
	book := Totals{}
	book.Apply([]market.Level{level(1), level(2)})
	gone := level(1)
	gone.Shares = exchange.Position{}
	book.Apply([]market.Level{gone, level(3)})
	require.Equal(t, []market.Level{level(3), level(2)}, book.Bids())
	require.Equal(t, []market.Level{level(2), level(3)}, book.Asks())
}
