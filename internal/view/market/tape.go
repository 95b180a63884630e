package market

import "outcry/internal/exchange"

// Bounds of the trades in memory. A symbol's ring grows while the symbol trades, up to ringMax trades of 40 bytes. All
// rings together have up to slotsMax places, 42 MB. Beyond that, each ring still grows to ringMin.
const (
	ringMin  = 16
	ringMax  = 16_384
	slotsMax = 1 << 20
)

// tape is the newest trades of a symbol, in a ring that grows.
//
// Invariant: trade number n, counted from 1, is in ring[n%len(ring)]. first is the oldest trade in the ring and last
// the newest; first is last+1 if the ring has none.
type tape struct {
	ring        []exchange.Trade
	first, last uint64
}

// startAfter makes the next trade have number n+1. t must be empty.
func (t *tape) startAfter(n uint64) { t.first, t.last = n+1, n }

// at returns trade n, which must be in the ring.
func (t *tape) at(n uint64) *exchange.Trade { return &t.ring[n%uint64(len(t.ring))] }

// add adds the next trade. slots counts the places of all tapes.
func (t *tape) add(trade exchange.Trade, slots *int) {
	if n := len(t.ring); t.last+1-t.first == uint64(n) {
		if n < ringMin || n < ringMax && *slots+n <= slotsMax {
			t.grow(max(ringMin, 2*n), slots)
		} else {
			t.first++
		}
	}
	t.last++
	*t.at(t.last) = trade
}

// grow enlarges the ring to n trades.
func (t *tape) grow(n int, slots *int) {
	*slots += n - len(t.ring)
	larger := tape{make([]exchange.Trade, n), t.first, t.last}
	for i := t.first; i <= t.last; i++ {
		*larger.at(i) = *t.at(i)
	}
	*t = larger
}
