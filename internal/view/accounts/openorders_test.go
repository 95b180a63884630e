package accounts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestWhoListensToASymbolHasNoOthersLookedAt: adding a listener to a symbol reads only the accounts with orders for
// that symbol. A search of all accounts would delay all orders.
func TestWhoListensToASymbolHasNoOthersLookedAt(t *testing.T) {
	m := new(memory)
	crowd(m, 4, 3)
	m.add(placed(1, 1, 0, exchange.Buy, 5), placed(2, 2, 1, exchange.Buy, 5), placed(3, 3, 0, exchange.Buy, 7))
	v := newView(m, nil)
	take(t, v)
	requireFits(t, v)
	v.list[1], v.list[3] = nil, nil // a look at one of these panics
	require.NotPanics(t, func() {
		b := newMirror(t, v, "SYM0").bids
		require.Equal(t, []RestingOrder{{1, 1e8, 5}, {3, 1e8, 7}}, b)
	})
	clear(v.list)
	require.NotPanics(t, func() { require.Empty(t, newMirror(t, v, "SYM2").bids) })
}
