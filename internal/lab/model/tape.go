package model

import "math/rand/v2"

// TapeOrder is an order of a tape. Amount is in whole shares, negative for a sell; Limit is a whole
// number of dollars.
type TapeOrder struct{ Amount, Limit int }

// The largest amount of a tape order, and the largest distance of its limit from the middle. There are few prices,
// so several orders are open at each price, and most later orders execute against several of them or against part
// of one.
const (
	tapeSharesMax = 20
	tapeMiddle    = 100
	tapeSpread    = 3
)

// Tape returns n orders for one new symbol, about as many buys as sells. The same seed gives the same
// orders. All buys are meant for one account, all sells for another.
func Tape(seed uint64, n int) []TapeOrder {
	r := rand.New(rand.NewPCG(seed, 0x74617065))
	orders := make([]TapeOrder, n)
	for i := range orders {
		o := TapeOrder{Amount: 1 + r.IntN(tapeSharesMax), Limit: tapeMiddle - tapeSpread + r.IntN(2*tapeSpread+1)}
		if r.IntN(2) == 0 {
			o.Amount = -o.Amount
		}
		orders[i] = o
	}
	return orders
}
