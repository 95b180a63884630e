package postgres

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestANumberThatDoesNotFitIsSaidSo checks that on a full disk the error is that of the write, not
// of a later step.
func TestANumberThatDoesNotFitIsSaidSo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(dir, DirectoryFile+".new")))
	_, err := DirectoryNumber(dir)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoFileExists(t, filepath.Join(dir, DirectoryFile))
}
