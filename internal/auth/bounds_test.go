package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// TestBoundsAreTheDocumentedOnes: what each bound does is tested elsewhere, mostly by its
// name; here its value is.
func TestBoundsAreTheDocumentedOnes(t *testing.T) {
	require.NoError(t, doctest.Bounds("../../docs/RELIABILITY.md", map[string][]string{
		"`guessersMax`": {fmt.Sprintf("%d, then one a second", guessFree), "a second later"},
	}))
	require.Equal(t, time.Second, guessEvery)
	require.Equal(t, time.Second, guessWait)
	require.Equal(t, 64, guessersMax)
	require.LessOrEqual(t, followEvery, time.Second/2, "what changes in the file takes effect within half a second")
}
