package web

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
	"outcry/internal/view/market"
)

// TestAPIBoundsAreTheDocumentedOnes checks the values of the bounds. Other tests check what each bound does, mostly
// without stating its value.
func TestAPIBoundsAreTheDocumentedOnes(t *testing.T) {
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
	require.NoError(t, doctest.Bounds("../../../docs/reference/BOUNDS.md", map[string][]string{
		"market data answers at a time": {fmt.Sprintf("%d of symbols", symbolsAnswersMax),
			fmt.Sprintf("%d of books", marketAnswersMax), fmt.Sprintf("%d of trades", marketAnswersMax),
			fmt.Sprintf("%d of candles", candlesAnswersMax), fmt.Sprintf("%d of orders", ordersAnswersMax)},
		"entries of an answer": {thousands(symbolsMost) + " symbols", thousands(depthMost) + " levels",
			thousands(tradesMost) + " trades",
			thousands(market.CandlesMost) + " candles", thousands(executionsMost) + " executions"},
		"`--max-stream-readers`": {fmt.Sprintf("%d KiB", pieceMost>>10)},
	}))
}
