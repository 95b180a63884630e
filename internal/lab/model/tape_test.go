package model

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTapesAreWorthPlaying checks that in each tape some orders execute in several parts, and some not at
// all.
func TestTapesAreWorthPlaying(t *testing.T) {
	const orders = 40
	require.Equal(t, Tape(1, orders), Tape(1, orders))
	require.NotEqual(t, Tape(1, orders), Tape(2, orders))
	for seed := range uint64(20) {
		x := New()
		x.Do([]byte(`<create><account id="1" balance="1000000"/><account id="2" balance="0"/>`+
			`<symbol sym="S"><account id="2">1000</account></symbol></create>`), 0)
		for _, o := range Tape(seed, orders) {
			require.NotZero(t, o.Amount)
			account := 1
			if o.Amount < 0 {
				account = 2
			}
			x.Do(fmt.Appendf(nil, `<transactions id="%d"><order sym="S" amount="%d" limit="%d"/></transactions>`, account,
				o.Amount, o.Limit), 0)
		}
		require.NoError(t, x.Check())
		require.Len(t, x.Orders(), orders, "seed %d: an order is refused", seed)
		several, none := 0, 0
		for _, o := range x.Orders() {
			switch len(o.Executions) {
			case 0:
				none++
			case 1:
			default:
				several++
			}
		}
		require.Greater(t, several, 3, "seed %d", seed)
		require.Greater(t, none, 1, "seed %d", seed)
	}
}
