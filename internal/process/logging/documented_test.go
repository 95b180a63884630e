package logging

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// The bounds have the values that the documentation names. Other tests check what they do.
func TestTheBoundOnEqualLinesIsTheDocumentedOne(t *testing.T) {
	require.NoError(t, doctest.Bounds("../../../docs/reference/BOUNDS.md", map[string][]string{
		"`repeatsMax`": {fmt.Sprintf("%d in %g s", repeatsMax, repeatsWindow.Seconds())},
	}))
}
