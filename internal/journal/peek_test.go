package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPeekReadsTheNewestSegmentAlone compares Peek with Inspect. Then it damages the oldest segment, which Peek
// ignores, and the newest one, which Peek must refuse.
func TestPeekReadsTheNewestSegmentAlone(t *testing.T) {
	dir := t.TempDir()
	for _, none := range []string{dir, filepath.Join(dir, "none")} {
		s, err := Peek(none, newest)
		require.NoError(t, err)
		require.Zero(t, s)
	}
	j := mustOpen(t, dir, small)
	fill(t, j, 100, 100)
	require.NoError(t, j.RemoveBefore(50))
	require.NoError(t, j.Close())
	want, _ := inspected(t, dir)
	require.Greater(t, want.Segments, 1)
	require.Greater(t, want.First, uint64(1))
	all, err := segments(disk{}, dir)
	require.NoError(t, err)
	for at, s := range []segment{all[0], all[len(all)-1]} {
		got, err := Peek(dir, newest)
		require.NoError(t, err)
		require.Equal(t, want, got)
		b, err := os.ReadFile(s.path)
		require.NoError(t, err)
		b[segmentHeader+30] ^= 1
		require.NoError(t, os.WriteFile(s.path, b, 0o600))
		_, err = Peek(dir, newest)
		var damage *DamageError
		if at == 0 {
			require.NoError(t, err, "the oldest is not read")
			continue
		}
		require.ErrorAs(t, err, &damage)
		require.Equal(t, s.path, damage.File)
	}
}
