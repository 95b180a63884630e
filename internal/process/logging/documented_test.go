package logging

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// TestTheBoundOnEqualLinesIsTheDocumentedOne: what it does is tested elsewhere by its name.
func TestTheBoundOnEqualLinesIsTheDocumentedOne(t *testing.T) {
	require.NoError(t, doctest.Bounds("../../../docs/reference/BOUNDS.md", map[string][]string{
		"`repeatsMax`": {fmt.Sprintf("%d in %g s", repeatsMax, repeatsWindow.Seconds())},
	}))
}
