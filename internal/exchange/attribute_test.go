package exchange

import (
	"bytes"
	"outcry/internal/testing/fieldtest"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests in this file iterate over the fields of orders, events and so on with reflection: they fail if a new field
// is not handled somewhere. Each test names the fields that it does not apply to.

// requireAllSet requires that each field not named in but is set in at least one of the values.
func requireAllSet[T any](t *testing.T, values []T, but ...string) {
	t.Helper()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if !field.IsExported() || field.Anonymous || slices.Contains(but, field.Name) {
			continue
		}
		require.True(t, slices.ContainsFunc(values, func(v T) bool {
			return !reflect.ValueOf(v).FieldByIndex(field.Index).IsZero()
		}), "%s of a %T is never set here", field.Name, values[0])
	}
}

// TestEveryFieldOfAnEventIsJournaled checks that each field is written for at least one kind of event, and
// compared by Same. TestDecodeReadsWhatAppendWrote checks that it is read, with events drawn by anyEvent.
func TestEveryFieldOfAnEventIsJournaled(t *testing.T) {
	e := Event{Ref: "r"}
	fieldtest.Each(t, e, []string{"Kind"}, func(name string, changed Event) {
		require.False(t, changed.Same(&e), "Same does not compare %s", name)
		written := false
		for kind := range EventKinds() {
			plain := e
			plain.Kind, changed.Kind = kind, kind
			written = written || !bytes.Equal(AppendEvent(nil, &plain), AppendEvent(nil, &changed))
		}
		require.True(t, written, "AppendEvent writes %s for no kind", name)
	})
	var drawn []Event
	for seed := range 3000 {
		drawn = append(drawn, anyEvent().Example(seed))
	}
	requireAllSet(t, drawn)
}

// TestARefKnowsEveryFieldOfAnOrder checks that a repeated request with another value in any field is not the
// same request, whether it is compared with a command or with a record.
func TestARefKnowsEveryFieldOfAnOrder(t *testing.T) {
	c := Command{Kind: PlaceOrder, Account: "1", Symbol: "A", Terms: Terms{Side: Buy, Limit: 6}, Shares: 5, Ref: "r"}
	notOfAnOrder := []string{"Kind", "OwnOnly", "Repeat", "Account", "Ref", "Balance", "Deposited", "Order",
		"OnDisconnect", "Report", "More"}
	fieldtest.Each(t, c, notOfAnOrder, func(name string, changed Command) {
		require.False(t, changed.Use().Same(c.Use()), "RefUse does not have %s", name)
	})
	e := Event{Kind: OrderAccepted, Account: "1", Symbol: "A", Terms: Terms{Side: Buy, Limit: 6}, Shares: 5, Ref: "r"}
	require.Equal(t, c.Use(), e.Use())
	ofItsRecord := []string{"Kind", "Time", "Account", "Ref", "Balance", "Deposited", "Order", "Before", "Fills",
		"Reason", "Cancels", "OnDisconnect", "Hold", "Rest", "Own", "Amend", "Cause", "AccountRules", "SymbolRules", "Due"}
	fieldtest.Each(t, e, ofItsRecord, func(name string, changed Event) {
		require.False(t, changed.Use().Same(e.Use()), "RefUse does not have %s of a record", name)
	})
}

// TestABookKeepsEveryFieldOfAnOrder compares resting and canceled orders with what the book returns.
func TestABookKeepsEveryFieldOfAnOrder(t *testing.T) {
	b := NewBook()
	rests := Order{
		ID:           3,
		Account:      ann,
		Terms:        Terms{Side: Buy, Post: true, STP: CancelNewest, Limit: 6},
		Shares:       5,
		Open:         4,
		Executions:   []Execution{{Shares: 1, Price: 6, Time: 7}},
		OnDisconnect: true,
		Taken:        Took(1),
		Lineage:      &Lineage{First: 1, Replaces: 2, Executed: 9},
	}
	require.NoError(t, b.Restore(&rests))
	found, _ := b.Find(3)
	require.Equal(t, rests, found)
	canceled := rests
	canceled.Open, canceled.Canceled, canceled.CanceledAt = 0, 4, 8
	_, r := b.Cancel(3, ann.ID, 8)
	require.Equal(t, OK, r)
	found, _ = b.Find(3)
	require.Equal(t, canceled, found)
	atOnce := Order{ID: 4, Account: ann, Terms: Terms{Side: Sell, TIF: IOC, Type: Market, Limit: 6}, Shares: 5, Open: 5}
	b.Submit(&atOnce, 9, nil)
	found, _ = b.Find(4)
	require.Equal(t, atOnce, found)
	requireAllSet(t, []Order{rests, canceled, atOnce})
}

// TestEveryFieldOfASnapshotsOrderCounts changes one field of a snapshot's order at a time: Restore fails or the
// digest differs, and SameOrders finds the difference.
func TestEveryFieldOfASnapshotsOrderCounts(t *testing.T) {
	snap := func(o OrderState) *Snapshot {
		return &Snapshot{OrderID: 9, Symbols: []SymbolState{{Symbol: "A"}}, Orders: []OrderState{o},
			Accounts: []AccountState{{ID: "1", Opened: Cash{Lo: 30}, Held: Cash{Lo: 30}}}}
	}
	o := OrderState{
		ID:      3,
		Account: "1",
		Symbol:  "A",
		Terms:   Terms{Side: Buy, Limit: 6},
		Shares:  5,
		Open:    5,
		Taken:   Took(0),
	}
	state, err := snap(o).Restore()
	require.NoError(t, err)
	require.NoError(t, state.SameOrders(snap(o)))
	view := []string{"Time", "Unsent", "Ref", "NewRef"} // only the view of accounts has these, and no book does
	fieldtest.Each(t, o, append(view, "Executions"), func(name string, changed OrderState) {
		require.Error(t, state.SameOrders(snap(changed)), "SameOrders does not compare %s", name)
		if other, err := snap(changed).Restore(); err == nil && name != "Taken" { // the digest does not cover Taken
			require.NotEqual(t, state.Digest(), other.Digest(), "the digest does not have %s", name)
		}
	})
}
