package model

import "math/rand/v2"

// TapeOrder is an order of a tape: whole shares, below 0 if it sells, and a whole limit.
type TapeOrder struct{ Amount, Limit int }

// A tape trades so many shares an order, at limits so far from the middle: few prices, so that several
// orders wait at each, and most that come later take several of them or a part of one.
const (
	tapeSharesMax = 20
	tapeMiddle    = 100
	tapeSpread    = 3
)

// Tape returns n orders for one symbol that is new, about as many buys as sells. The same seed gives the
// same orders. Buys and sells are meant for an account each.
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
