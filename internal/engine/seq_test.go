package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// wrote executes a command, and returns its result and the number of records that it appended.
func (m *market) wrote(c exchange.Command) (r exchange.Result, records uint64) {
	m.t.Helper()
	before := m.journal.Appended()
	results := make([]exchange.Result, 1)
	_, err := m.Engine.Execute(background, requests(c), results)
	require.NoError(m.t, err)
	return results[0], m.journal.Appended() - before
}

// work returns the work of the journal's records, beginning with record first.
func (m *market) work(first uint64) (work uint32) {
	m.t.Helper()
	for _, e := range m.events(first) {
		work += uint32(e.Work())
	}
	return work
}

// TestAResultSaysWhichRecordWasTheCommands: Result.Seq is the last record of the command, or 0 if it appended none.
// Result.Work is that of the command's records.
func TestAResultSaysWhichRecordWasTheCommands(t *testing.T) {
	m := inParts(t, Options{})
	first, again := named("r", sell("A", 1, 5)), cancelAfter("1", 60)
	reduced := exchange.Command{Kind: exchange.AmendOrder, Account: "2", Order: 1}
	rested := sell("A", 5, 7)
	for _, test := range []struct {
		name    string
		command exchange.Command
		records uint64
	}{
		{"an account", exchange.Command{Kind: exchange.OpenAccount, Account: "3"}, 1},
		{"a symbol", exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C"}, 1},
		{"an existing symbol", exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C"}, 0},
		{"shares", exchange.Command{Kind: exchange.DepositShares, Symbol: "C", Account: "3",
			Deposited: exchange.Shares(5).Position()}, 1},
		{"an order", first, 1},
		{"its ref again", first, 0},
		{"a refused order", buy("A", 1000, 1001), 0},
		{"further orders", sell("A", 1, 5), 1},
		{"further orders", sell("A", 1, 6), 1},
		{"an order in parts", buy("A", 3, 6), 2},
		{"an order that rests", rested, 1},
		{"a query", queryOf(1), 0},
		{"an amend that reduces", amended(5, 4, 0), 1},
		{"an amend of nothing", amended(5, 4, 0), 0},
		{"an amend that replaces", amended(5, 4, 8), 1},
		{"an amend of nothing", reduced, 0},
		{"a cancel", cancelOf(6, "2"), 1},
		{"a cancel again", cancelOf(6, "2"), 0},
		{"a switch", again, 1},
		{"a cancel of nothing", exchange.Command{Kind: exchange.CancelAll, Account: "2"}, 0},
		{"an order", sell("A", 1, 9), 1},
		{"a cancel of all", exchange.Command{Kind: exchange.CancelAll, Account: "2"}, 1},
		{"a view", exchange.Command{Kind: exchange.ShowAccount, Account: "2"}, 0},
	} {
		first := m.journal.Appended() + 1
		r, records := m.wrote(test.command)
		require.Equal(t, test.records, records, "%s: %+v", test.name, r)
		want := uint64(0)
		if records > 0 {
			want = m.journal.Appended()
		}
		require.Equal(t, want, r.Seq, test.name)
		require.Equal(t, m.work(first), r.Work, test.name)
	}
}

// TestWorkOfOthersIsNoCommands: the work of a command does not include finishing another client's order, operations of
// operators, or cancels after a disconnect.
func TestWorkOfOthersIsNoCommands(t *testing.T) {
	m := inParts(t, Options{})
	for range 4000 { // more than fit into the segments that exist
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	first := m.journal.Appended() + 1
	r, records := m.wrote(buy("A", 4000, 5))
	require.EqualValues(t, 2000, records)
	require.EqualValues(t, 2000+4000, r.Work)
	full := m.after(first, true)
	full.freeDisk()
	r, records = full.wrote(sell("A", 1, 9))
	require.EqualValues(t, 1999+1, records, "the other parts of the order of before, and the new one")
	require.EqualValues(t, 1, r.Work)

	m.halt("A", "")
	m.resume("A")
	m.cancelAll("2", "")
	r, _ = m.wrote(queryOf(1))
	require.Zero(t, r.Work)
	r, _ = m.wrote(sell("A", 1, 9))
	require.EqualValues(t, 1, r.Work)
}

// amended returns an amend of a sell of account 2 to a new total and limit. 0 leaves either unchanged.
func amended(id exchange.OrderID, total exchange.Shares, limit exchange.Price) exchange.Command {
	return exchange.Command{Kind: exchange.AmendOrder, Account: "2", Order: id, Shares: total,
		Terms: exchange.Terms{Side: exchange.Sell, Limit: limit}}
}
