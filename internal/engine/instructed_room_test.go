package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestAReportWaitsForTheEndOfItsOrder: the report of an order in parts is incomplete before the order is finished, so
// a repeated request is not answered with the first parts alone.
func TestAReportWaitsForTheEndOfItsOrder(t *testing.T) {
	m := inParts(t, Options{})
	for range 4000 { // more than fit into the segments that exist
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	m.all(buy("A", 1, 1))
	order := reported(named("r", buy("A", 2000, 5)))
	first := m.journal.Appended() + 1
	want := m.do(order)
	require.Len(t, want.Status.Executions, exchange.ReportExecutionsMax+1)
	full := m.after(first, true)
	require.Len(t, full.do(queryOf(4002)).Status.Executions, 2)
	got := full.do(order)
	require.Equal(t, exchange.NoRoom, got.Reason)
	require.Equal(t, exchange.Result{Order: 4002}, full.do(named("r", buy("A", 2000, 5))), "without a report")
	full.freeDisk()
	require.Equal(t, want, full.do(order))

	second := m.journal.Appended() + 1
	amended := reported(as("s", amend(4001, "1", exchange.Buy, 1000, 5)))
	want = m.do(amended)
	require.Len(t, want.Status.Executions, 1000)
	full = m.after(second, true)
	require.Equal(t, exchange.NoRoom, full.do(amended).Reason)
	full.freeDisk()
	require.Equal(t, want, full.do(amended))
	full.agrees()
}

// TestWithoutRoomAnAmendAndAMarketOrderChangeNothing tries orders and amends that need one part and many.
func TestWithoutRoomAnAmendAndAMarketOrderChangeNothing(t *testing.T) {
	m := inParts(t, Options{})
	m.all(exchange.Command{Kind: exchange.DepositShares, Symbol: "A", Account: "1",
		Deposited: exchange.Shares(10).Position()})
	old := m.do(buy("A", 10, 3)).Order
	for range 4000 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	require.Eventually(t, func() bool { return m.journal.RoomBytes() > 1<<16 }, time.Minute, time.Millisecond)
	m.fillDisk()
	before := m.Stats()
	refuse := func(c exchange.Command) {
		t.Helper()
		require.Equal(t, exchange.NoRoom, m.refused(exchange.NoRoom, c).Reason)
		require.Equal(t, before, m.Stats(), "nothing has changed")
		require.NoError(t, m.CheckLedger())
		require.Equal(t, exchange.Status{Open: 10, Executions: []exchange.Execution{}}, statusOf(m, old))
	}
	market := atMarket(buy("A", 4000, 5))
	refuse(market)
	market.Limit = 0
	refuse(named("x", market))
	refuse(as("x", amend(old, "1", exchange.Buy, 4000, 5)))
	refuse(fok(buy("A", 4000, 5)))
	_, why := m.untilRefused(buy("B", 1, 1))
	require.Equal(t, exchange.NoRoom, why)
	before = m.Stats()
	refuse(amend(old, "1", exchange.Buy, 11, 5))
	refuse(amend(old, "1", exchange.Buy, 11, 2))
	refuse(amend(old, "1", exchange.Buy, 9, 0))
	refuse(as("x", amend(old, "1", exchange.Buy, 10, 0)))
	refuse(atMarket(buy("A", 1, 5)))
	refuse(atMarket(sell("A", 1, 3)))
	m.freeDisk()
	require.Eventually(t, func() bool {
		return m.do(as("x", amend(old, "1", exchange.Buy, 4000, 5))).Reason == exchange.OK
	}, time.Minute, time.Millisecond)
	m.agrees()
}

func statusOf(m *market, id exchange.OrderID) exchange.Status {
	s := m.do(queryOf(id)).Status
	s.Executions = append([]exchange.Execution{}, s.Executions...)
	return s
}
