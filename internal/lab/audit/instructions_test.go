package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/model"
)

// instructedStory continues story: order 3 is reduced to 1; order 5, an IOC buy at 101 of the same account with stp
// oldest, cancels order 3 and meets no other order; order 6 buys 4 at 99; order 7 replaces order 6 at 98.
func instructedStory(t *testing.T) (*truth, *rows) {
	truth, first := story()
	require.NoError(t, truth.advance(first))
	gtc := instructions{tif: "GTC"}
	truth.orders[3].instructions = gtc
	ioc := &order{id: 5, seq: 50, account: "b", sym: "S", amount: 2 * unit, limit: 101 * unit,
		instructions: instructions{tif: "IOC", stp: "oldest"}}
	return truth, &rows{
		orders: []*order{ioc,
			{id: 6, seq: 60, account: "a", sym: "S", amount: 4 * unit, limit: 99 * unit, instructions: gtc},
			{id: 7, seq: 70, account: "a", sym: "S", amount: 4 * unit, limit: 98 * unit, instructions: gtc, replaces: 6}},
		open:     map[uint64]int64{3: 0, 5: 0, 6: 0, 7: 4 * unit},
		canceled: map[uint64]cancelRow{3: {"1", "90", 50}, 5: {"2", "90", 50}, 6: {"4", "91", 70}},
		fills:    map[uint64][]fill{},
		reduces:  map[uint64][]amendRow{3: {{seq: 48, about: 3, order: 3, amount: unit, reduced: unit, at: "89"}}},
	}
}

func TestTruthFollowsInstructions(t *testing.T) {
	truth, found := instructedStory(t)
	require.NoError(t, truth.advance(found))
	require.NoError(t, truth.conserved())
	require.Equal(t, "4", model.Decimal(truth.shares[[2]string{"S", "b"}].free, 8))
}

func TestTruthRefusesWhatDoesNotFollowFromInstructions(t *testing.T) {
	for name, change := range map[string]func(*rows){
		"an IOC that rests":                 func(r *rows) { delete(r.canceled, 5) },
		"an IOC that is canceled in part":   func(r *rows) { r.canceled[5] = cancelRow{"1", "90", 50} },
		"an own order that is left":         func(r *rows) { delete(r.canceled, 3) },
		"an own order executed":             func(r *rows) { r.fills[5] = []fill{{5, 3, unit, 101 * unit, "90"}} },
		"a reduce of too much":              func(r *rows) { r.reduces[3][0].reduced = 3 * unit },
		"a reduce of nobody":                func(r *rows) { r.reduces[99] = r.reduces[3] },
		"a replacement of nobody":           func(r *rows) { r.orders[2].replaces = 99 },
		"a replaced order that stays":       func(r *rows) { delete(r.canceled, 6) },
		"a replaced order canceled earlier": func(r *rows) { r.canceled[6] = cancelRow{"4", "91", 65} },
		"a replacement of another kind":     func(r *rows) { r.orders[2].post = "yes" },
		"a replacement on the other side":   func(r *rows) { r.orders[2].amount = -4 * unit },
	} {
		truth, rows := instructedStory(t)
		change(rows)
		require.Error(t, truth.advance(rows), name)
	}
}

func TestOnlyAmendsThatWereSentAreThere(t *testing.T) {
	sent := func() (*knowledge, *sentOrder, amendRow) {
		h := newKnowledge(nil)
		o := h.order("1", "", 7, 0)
		o.old = 5
		return h, o, amendRow{about: 5, order: 5, account: "1", amount: o.amount, reduced: unit}
	}
	h, o, row := sent()
	o.fate, o.reduced = answered, "1"
	require.NoError(t, h.matchAmend(&row))
	require.ErrorContains(t, h.matchAmend(&row), "a second time")
	for name, change := range map[string]func(o *sentOrder, row *amendRow){
		"was refused":          func(o *sentOrder, _ *amendRow) { o.fate = refused },
		"never sent like this": func(_ *sentOrder, row *amendRow) { row.limit = unit },
		"with a reduction of":  func(o *sentOrder, _ *amendRow) { o.fate, o.reduced = answered, "2" },
		"with order 9":         func(o *sentOrder, row *amendRow) { o.fate, o.id, row.replaces = answered, 9, true },
		"but was never sent":   func(_ *sentOrder, row *amendRow) { row.about = 6 },
	} {
		h, o, row := sent()
		change(o, &row)
		require.ErrorContains(t, h.matchAmend(&row), name)
	}
}

// TestARepeatedReportHasToBeTheSame checks that a repeated order gets its first report, whatever has
// happened to the order since.
func TestARepeatedReportHasToBeTheSame(t *testing.T) {
	h := newKnowledge(nil)
	o := h.order("1", "S", 7, unit)
	o.give()
	first := wire.Answer{Kind: "opened", Order: o.element(), ID: "3", Open: "7"}
	h.recordOrder(o, &first)
	same := first
	h.recordRepeat(o, &same)
	require.Empty(t, h.wrong)
	other := first
	other.Open = "6"
	h.recordRepeat(o, &other)
	require.Len(t, h.wrong, 1)
}
