package postgres

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestANumberThatDoesNotFitIsSaidSo: the error is that of writing, not of what came after.
func TestANumberThatDoesNotFitIsSaidSo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(dir, DirectoryFile+".new")))
	_, err := DirectoryNumber(dir)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoFileExists(t, filepath.Join(dir, DirectoryFile))
}
