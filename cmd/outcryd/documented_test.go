package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// TestBoundsAreTheDocumentedOnes compares the values of bounds with the documentation. Other tests check what each
// bound does.
func TestBoundsAreTheDocumentedOnes(t *testing.T) {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }
	require.NoError(t, doctest.Bounds("../../docs/reference/BOUNDS.md", map[string][]string{
		"`--max-stream-readers`": {seconds(streamWriteTimeout)},
		"`stopGrace`":            {seconds(stopGrace)},
	}))
}
