package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// TestBoundsAreTheDocumentedOnes checks that the documented values of bounds are those of the code. Other
// tests, most of which use the same names, check what each bound does.
func TestBoundsAreTheDocumentedOnes(t *testing.T) {
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
	require.NoError(t, doctest.Bounds("../../docs/reference/BOUNDS.md", map[string][]string{
		"`partsUnsyncedMax`": {fmt.Sprint(partsUnsyncedMax)},
		"`keptMax`":          {thousands(keptMax)},
		"`turnWork`":         {fmt.Sprintf("%d commands", turnWork), fmt.Sprintf("%d fills count as one", fillsPerWork)},
		"`awakeMax`":         {thousands(awakeMax)},
		"`requestsMax`":      {thousands(requestsMax)},

		"`disconnectCancelsMax`": {fmt.Sprint(disconnectCancelsMax)},
		"`cancelAllsMax`":        {fmt.Sprintf("%d a second", cancelAllsMax)},
		"`keepEvery`":            {fmt.Sprintf("every %g s", keepEvery.Seconds())},
	}))
	require.LessOrEqual(t, readsWait, 5*time.Millisecond)
	require.LessOrEqual(t, betweenPartsMax, 256)
}
