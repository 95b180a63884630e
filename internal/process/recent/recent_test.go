package recent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyTheSameNameIsFound: more names than places, equal names at other addresses, and the empty name.
func TestOnlyTheSameNameIsFound(t *testing.T) {
	var r Values[string, int]
	_, ok := r.Find("")
	require.False(t, ok)
	var names []string
	for n := range 3 << bits {
		names = append(names, fmt.Sprint(n))
		_, ok := r.Find(names[n])
		require.False(t, ok)
		r.Keep(names[n], n)
		got, ok := r.Find(names[n])
		require.True(t, ok)
		require.Equal(t, n, got)
	}
	found := 0
	for n, name := range names {
		for _, name := range []string{name, strings.Clone(name)} {
			if got, ok := r.Find(name); ok {
				found++
				require.Equal(t, n, got)
			}
		}
	}
	require.Greater(t, found, 1<<bits/2)
	require.Zero(t, testing.AllocsPerRun(10, func() { r.Find(names[0]) }))
}
