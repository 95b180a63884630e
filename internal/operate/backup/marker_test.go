package backup

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory that cannot be read gives an error, but not an UnfinishedError.
func TestADirectoryThatCannotBeLookedIntoHasNoUnfinishedRestore(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Unfinished(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, markerName), nil, 0o600))
	require.Equal(t, &UnfinishedError{dir}, Unfinished(dir))

	loop := filepath.Join(dir, "loop") // Lstat fails, as in a folder without permission, but also for root
	require.NoError(t, os.Symlink(loop, loop))
	err := Unfinished(loop)
	require.ErrorIs(t, err, syscall.ELOOP)
	require.NotErrorAs(t, err, new(*UnfinishedError))
}
