package doctest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBoundsAreComparedWithThePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "| a | `aMax` | 1,024, each 30 s |\n| b | `bMax` | 16 KiB. |\n"
	require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	require.NoError(t, Bounds(page, map[string][]string{"`aMax`": {"1,024", "30 s"}, "`bMax`": {"16 KiB"}}))
	for key, value := range map[string]string{
		"`aMax`": "16 KiB", "`bMax`": "6 KiB", "`cMax`": "1", "| a |": "024", "| b |": "16 Ki",
	} {
		require.Error(t, Bounds(page, map[string][]string{key: {value}}), "%s %s", key, value)
	}
	require.Error(t, Bounds(page+"x", nil))
}
