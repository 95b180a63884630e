package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestTimesNeverGoBackOverARestart: after a clean stop everything is in the database, and no record is replayed. Then
// only the snapshot has the time of the newest record, even if no order is open.
func TestTimesNeverGoBackOverARestart(t *testing.T) {
	snap := &exchange.Snapshot{OrderID: 2, Time: 1000,
		Accounts: []exchange.AccountState{{ID: "2"},
			{ID: "1", Opened: exchange.Notional(1000, 10), Balance: exchange.Notional(1000, 10)}},
		Symbols:   []exchange.SymbolState{{Symbol: "A", Deposited: exchange.Shares(1000).Position(), Last: 10}},
		Positions: []exchange.PositionState{{Symbol: "A", Account: "2", Shares: exchange.Shares(1000).Position()}}}
	state, err := snap.Restore()
	require.NoError(t, err)
	m := open(t, Options{})
	m.Close()
	clock := int64(500)
	m.Engine = New(Options{Journal: m.journal, State: state, Now: func() int64 { return clock }})
	trade := func() int64 {
		m.do(sell("A", 5, 10))
		executions := m.do(queryOf(m.do(buy("A", 5, 10)).Order)).Status.Executions
		require.Len(t, executions, 1)
		return executions[0].Time
	}
	require.EqualValues(t, 1000, trade())
	clock = 1500
	require.EqualValues(t, 1500, trade())
}
