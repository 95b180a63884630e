package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestACopyOfADirectoryHasANumberOfItsOwn copies a data directory in every way that
// leaves its file as it is.
func TestACopyOfADirectoryHasANumberOfItsOwn(t *testing.T) {
	machine := filepath.Join(t.TempDir(), "machine-id")
	require.NoError(t, os.WriteFile(machine, []byte("one\n"), 0o600))
	was := machineIDs
	t.Cleanup(func() { machineIDs = was })
	machineIDs = []string{"/nowhere", machine}
	number := func(dir string) string {
		t.Helper()
		n, err := DirectoryNumber(dir)
		require.NoError(t, err)
		require.Len(t, n, 16)
		return n
	}
	top := t.TempDir()
	dir, file := filepath.Join(top, "data"), filepath.Join(top, "data", DirectoryFile)
	require.NoError(t, os.Mkdir(dir, 0o700))
	first := number(dir)
	require.Equal(t, first, number(dir))
	require.NoError(t, os.Rename(dir, dir+"-moved"))
	require.Equal(t, first, number(dir+"-moved"), "it is still the same directory")
	require.NoError(t, os.Rename(dir+"-moved", dir))

	require.NoError(t, os.CopyFS(filepath.Join(top, "copy"), os.DirFS(dir)))
	second := number(filepath.Join(top, "copy"))
	require.NotEqual(t, first, second, "another inode")
	require.Equal(t, second, number(filepath.Join(top, "copy")))
	require.Equal(t, first, number(dir), "the original is as it was")

	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(kept), "one", "the machine's id is not shown")
	for _, part := range []string{"device=", "inode=", "machine="} {
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(kept), part, part+"1", 1)), 0o600))
		require.NotEqual(t, first, number(dir), part)
	}
	require.NoError(t, os.WriteFile(file, kept, 0o600))
	require.NoError(t, os.WriteFile(machine, []byte("two\n"), 0o600))
	require.NotEqual(t, first, number(dir), "another machine")
	for _, damage := range []string{"", "x", string(kept[1:]), string(kept[:20])} {
		require.NoError(t, os.WriteFile(file, []byte(damage), 0o600))
		n := number(dir)
		require.NotEqual(t, first, n)
		require.Equal(t, n, number(dir))
	}
}

// TestANumberThatCannotBeKeptIsGoodForOneRun, since a full disk is no reason not to start.
func TestANumberThatCannotBeKeptIsGoodForOneRun(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, DirectoryFile+".new"), 0o700)) // in the way
	first, err := DirectoryNumber(dir)
	require.Error(t, err)
	second, err := DirectoryNumber(dir)
	require.Error(t, err)
	require.Len(t, first, 16)
	require.NotEqual(t, first, second)
}
