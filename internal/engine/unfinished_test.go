package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestAnUnfinishedOrderWithoutAJournalIsAFailure, and no want of room: nothing may be told
// any more.
func TestAnUnfinishedOrderWithoutAJournalIsAFailure(t *testing.T) {
	m := inParts(t, Options{})
	for range 4000 { // more than the segments that are ready have room for
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	first := m.journal.Appended() + 1
	require.Equal(t, exchange.OK, m.do(buy("A", 4000, 5)).Reason)

	full := m.after(first, true)
	require.Equal(t, exchange.NoRoom, full.do(buy("A", 1, 1)).Reason)
	require.NoError(t, full.journal.Close())
	for _, c := range []exchange.Command{buy("A", 1, 1), cancelOf(4001, "1")} {
		_, err := full.Execute(background, []exchange.Command{c}, make([]exchange.Result, 1))
		require.Error(t, err, "%v", c)
	}
}

// TestAnOrderThatLosesItsJournalBetweenTwoPartsFails, and everything with it: the book is
// ahead of what is on record.
func TestAnOrderThatLosesItsJournalBetweenTwoPartsFails(t *testing.T) {
	m, clock := inPartsThatStand(t)
	ended := clock.buyAll(m)
	require.NoError(t, m.journal.Close())
	clock.goOn()
	require.Error(t, <-ended)
	_, err := m.Execute(background, []exchange.Command{queryOf(1001)}, make([]exchange.Result, 1))
	require.Error(t, err, "a query too: nothing may be told any more")
}
