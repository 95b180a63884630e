package market

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/doctest"
)

// TestBoundsAreTheDocumentedOnes compares the values of the bounds with the documentation. Other tests check what
// each bound does.
func TestBoundsAreTheDocumentedOnes(t *testing.T) {
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
	require.NoError(t, doctest.Bounds("../../../docs/reference/BOUNDS.md", map[string][]string{
		"candles in memory": {thousands(candleSlotsMax), fmt.Sprintf("%d bytes", unsafe.Sizeof(endedCandle{})),
			thousands(candlesMost), fmt.Sprintf("%d in any case", hoursMin+int(exchange.Intervals-1)*candlesMin)},
	}))
}
