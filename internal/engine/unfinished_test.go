package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestAnUnfinishedOrderWithoutAJournalIsAFailure, not a rejection for lack of room: no result may be sent
// after it.
func TestAnUnfinishedOrderWithoutAJournalIsAFailure(t *testing.T) {
	m := inParts(t, Options{})
	for range 4000 { // more than fit into the segments that exist
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

// TestAnOrderThatLosesItsJournalBetweenTwoPartsFails, and so does everything else: the book has
// changes that are in no record.
func TestAnOrderThatLosesItsJournalBetweenTwoPartsFails(t *testing.T) {
	m, clock := inPartsWithBlockingClock(t)
	ended := clock.buyAll(m)
	require.NoError(t, m.journal.Close())
	clock.release()
	require.Error(t, <-ended)
	_, err := m.Execute(background, []exchange.Command{queryOf(1001)}, make([]exchange.Result, 1))
	require.Error(t, err, "even a query fails: no result may be sent any more")
}
