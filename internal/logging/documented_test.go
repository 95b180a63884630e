package logging

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// TestTheBoundOnEqualLinesIsTheDocumentedOne: what it does is tested elsewhere by its name.
func TestTheBoundOnEqualLinesIsTheDocumentedOne(t *testing.T) {
	require.NoError(t, doctest.Bounds("../../docs/RELIABILITY.md", map[string][]string{
		"`internal/logging`": {fmt.Sprintf("%d in %g s", repeatsMax, repeatsWindow.Seconds())},
	}))
}
