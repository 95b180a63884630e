package backup

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestADirectoryThatCannotBeLookedIntoHasNoUnfinishedRestore, as far as anybody knows.
func TestADirectoryThatCannotBeLookedIntoHasNoUnfinishedRestore(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Unfinished(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, markerName), nil, 0o600))
	require.Equal(t, &UnfinishedError{dir}, Unfinished(dir))

	loop := filepath.Join(dir, "loop") // as a closed folder does to all but root
	require.NoError(t, os.Symlink(loop, loop))
	err := Unfinished(loop)
	require.ErrorIs(t, err, syscall.ELOOP)
	require.NotErrorAs(t, err, new(*UnfinishedError))
}
