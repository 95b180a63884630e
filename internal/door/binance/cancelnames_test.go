package binance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestNamesOfCancelsAreKeptForAWhile: the oldest client id is dropped. Of several cancels of one order, the first
// keeps its id.
func TestNamesOfCancelsAreKeptForAWhile(t *testing.T) {
	var c cancelNames
	drop := c.put(1, "first")
	c.put(1, "second")() // rejected: another cancel canceled the order
	require.Equal(t, exchange.Ref("first"), c.get(1))
	drop()
	require.Empty(t, c.get(1))
	c.put(1, "third")
	c.put(2, "")
	require.Empty(t, c.get(2))
	for id := exchange.OrderID(3); id < cancelNamesMax+2; id++ {
		c.put(id, "x")
		require.LessOrEqual(t, len(c.of), cancelNamesMax)
	}
	require.Equal(t, exchange.Ref("third"), c.get(1), "its first place is another's now, and it has a later one")
	c.put(cancelNamesMax+2, "x")
	require.Empty(t, c.get(1))
	drop()
	require.Len(t, c.of, cancelNamesMax)
}
