package audit

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/model"
)

// story is a small market: a sell of 5 and a sell of 3 at 100, a sell of 2 at 101, and a buy of 6 at 101,
// after which order 2 is canceled. Each test changes one detail.
func story() (*truth, *rows) {
	t := newTruth()
	t.openAccount("a", product(1000*unit, unit))
	t.openAccount("b", new(big.Int))
	t.placeShares("S", "b", big.NewInt(10*unit))
	o := func(id uint64, account string, amount, limit int64) *order {
		return &order{id: id, seq: int64(10 * id), account: account, sym: "S", amount: amount * unit, limit: limit * unit}
	}
	return t, &rows{
		orders:   []*order{o(1, "b", -5, 100), o(2, "b", -3, 100), o(3, "b", -2, 101), o(4, "a", 6, 101)},
		open:     map[uint64]int64{1: 0, 2: 0, 3: 2 * unit, 4: 0},
		canceled: map[uint64]cancelRow{2: {"2", "77", 45}},
		fills: map[uint64][]fill{4: {
			{taker: 4, resting: 1, shares: 5 * unit, price: 100 * unit, time: "70"},
			{taker: 4, resting: 2, shares: 1 * unit, price: 100 * unit, time: "70"},
		}},
	}
}

func TestTruthFollowsAMarket(t *testing.T) {
	truth, rows := story()
	require.NoError(t, truth.advance(rows))
	require.NoError(t, truth.conserved())
	require.Equal(t, "400", model.Decimal(truth.cash["a"].free, 16))
	require.Equal(t, "600", model.Decimal(truth.cash["b"].free, 16))
	require.Equal(t, "0", model.Decimal(truth.cash["a"].held, 16))
	require.Equal(t, "2", model.Decimal(truth.shares[[2]string{"S", "b"}].free, 8))
	require.Equal(t, "2", model.Decimal(truth.shares[[2]string{"S", "b"}].held, 8))
	require.EqualValues(t, 2, truth.fills)
	require.EqualValues(t, 1, truth.cancels)
	require.Equal(t, "77", truth.orders[2].status().CanceledAt)
}

// TestTruthFindsTheMomentOfACancel checks that a later buy that skips a canceled order proves that the order was
// canceled before.
func TestTruthFindsTheMomentOfACancel(t *testing.T) {
	truth, rows := story()
	rows.orders = append(rows.orders, &order{id: 5, seq: 50, account: "a", sym: "S", amount: unit, limit: 101 * unit})
	rows.fills[5] = []fill{{taker: 5, resting: 3, shares: unit, price: 101 * unit, time: "80"}}
	rows.open[3], rows.open[5] = unit, 0
	require.NoError(t, truth.advance(rows))
	require.NoError(t, truth.conserved())

	truth, rows = story()
	rows.orders = append(rows.orders, &order{id: 5, seq: 50, account: "a", sym: "S", amount: unit, limit: 101 * unit})
	rows.fills[5] = []fill{{taker: 5, resting: 3, shares: unit, price: 101 * unit, time: "80"}}
	rows.open[3], rows.open[5] = unit, 0
	rows.canceled[2] = cancelRow{"2", "77", 55}
	require.ErrorContains(t, truth.advance(rows), "by price and time it must be", "the cancel came later")
}

// TestASecondLookKeepsWhatTheFirstHasFound checks that a second read of the tables keeps the orders still to be
// queried.
func TestASecondLookKeepsWhatTheFirstHasFound(t *testing.T) {
	truth, found := story()
	require.NoError(t, truth.advance(found))
	require.NoError(t, truth.advance(&rows{open: map[uint64]int64{3: 2 * unit}}))
	require.Len(t, truth.touched, 4)
}

func TestTruthRefusesWhatDoesNotFollow(t *testing.T) {
	for name, change := range map[string]func(*rows){
		"a worse price first":         func(r *rows) { r.fills[4][0].resting, r.fills[4][0].price = 3, 101*unit },
		"a newer order first":         func(r *rows) { r.fills[4][0].resting = 2 },
		"a price of nobody":           func(r *rows) { r.fills[4][1].price-- },
		"a share too many":            func(r *rows) { r.fills[4][1].shares++ },
		"an execution lost":           func(r *rows) { r.fills[4] = r.fills[4][:1] },
		"an execution twice":          func(r *rows) { r.fills[4] = append(r.fills[4], r.fills[4][1]) },
		"executions of no order":      func(r *rows) { r.fills[9] = r.fills[4] },
		"an order lost":               func(r *rows) { r.orders = r.orders[1:] },
		"a cancel of too much":        func(r *rows) { r.canceled[2] = cancelRow{"3", "77", 45} },
		"a cancel of what was filled": func(r *rows) { r.canceled[1] = cancelRow{"5", "77", 45} },
		"a cancel lost":               func(r *rows) { delete(r.canceled, 2) },
		"open shares lost":            func(r *rows) { r.open[3] = unit },
	} {
		t.Run(name, func(t *testing.T) {
			truth, rows := story()
			change(rows)
			require.Error(t, truth.advance(rows))
		})
	}
}

func TestHoldingsAreComparedToTheLastFraction(t *testing.T) {
	truth, rows := story()
	require.NoError(t, truth.advance(rows))
	want := truth.shares
	table := func() map[[2]string][2]string {
		return map[[2]string][2]string{{"S", "a"}: {"6", "0"}, {"S", "b"}: {"2.00", "2"}}
	}
	require.NoError(t, compareHoldings("position", table(), want, 8))
	for name, change := range map[string]func(map[[2]string][2]string){
		"a fraction more": func(m map[[2]string][2]string) { m[[2]string{"S", "a"}] = [2]string{"6.00000001", "0"} },
		"held and free":   func(m map[[2]string][2]string) { m[[2]string{"S", "b"}] = [2]string{"4", "0"} },
		"a row lost":      func(m map[[2]string][2]string) { delete(m, [2]string{"S", "a"}) },
		"a row of nobody": func(m map[[2]string][2]string) { m[[2]string{"S", "c"}] = [2]string{"0", "0"} },
	} {
		t.Run(name, func(t *testing.T) {
			have := table()
			change(have)
			require.Error(t, compareHoldings("position", have, want, 8))
		})
	}
}

func TestConservedRefusesSharesFromNowhereAndDebts(t *testing.T) {
	truth, _ := story()
	truth.position("S", "b").free = big.NewInt(11 * unit)
	require.ErrorContains(t, truth.conserved(), "symbol S")
	truth, _ = story()
	truth.cash["b"].free = big.NewInt(-1)
	require.ErrorContains(t, truth.conserved(), "account b has -0.0000000000000001 free")
}
