package postgres

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/durabletest"
)

// TestACopyOfADirectoryHasANumberOfItsOwn copies a data directory in every way that keeps the content of its
// file.
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

// TestANumberThatCannotBeKeptIsGoodForOneRun checks that a number is returned even if it cannot be stored: a
// full disk must not prevent a start.
func TestANumberThatCannotBeKeptIsGoodForOneRun(t *testing.T) {
	dir := t.TempDir()
	// a directory at the temporary file's path makes the write fail
	require.NoError(t, os.MkdirAll(filepath.Join(dir, DirectoryFile+".new"), 0o700))
	first, err := DirectoryNumber(dir)
	require.Error(t, err)
	second, err := DirectoryNumber(dir)
	require.Error(t, err)
	require.Len(t, first, 16)
	require.NotEqual(t, first, second)
}

// TestANumberIsKeptDurably checks that the complete file is synced under its temporary name, and the directory
// after the rename. A temporary file of an interrupted run is replaced.
func TestANumberIsKeptDurably(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, DirectoryFile)
	require.NoError(t, os.WriteFile(file+".new", bytes.Repeat([]byte("x"), 1000), 0o600))
	w := durabletest.Watch(t, func(s durabletest.Sync) error {
		if s.Path == dir {
			assert.FileExists(t, file)
			return nil
		}
		assert.NoFileExists(t, file)
		return nil
	})
	number, err := DirectoryNumber(dir)
	require.NoError(t, err)
	require.Equal(t, []string{file + ".new", dir}, w.Paths())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	again, err := DirectoryNumber(dir)
	require.NoError(t, err)
	require.Equal(t, number, again)
	require.Len(t, w.Seen(), 2, "one that is kept is not written")

	broken := errors.New("the disk is broken")
	for _, path := range []string{file + ".new", dir} {
		require.NoError(t, os.Remove(file))
		durabletest.Watch(t, func(s durabletest.Sync) error {
			if s.Path == path {
				return broken
			}
			return nil
		})
		_, err = DirectoryNumber(dir)
		require.ErrorIs(t, err, broken)
		if path != dir {
			require.NoFileExists(t, file, "what is not whole gets no name")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
		}
	}
}

// TestANumberIsForItsOwner checks that only the owner can read the file: with the number, others could pass
// off their sessions as the server's.
func TestANumberIsForItsOwner(t *testing.T) {
	dir := t.TempDir()
	_, err := DirectoryNumber(dir)
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, DirectoryFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestANumberWithoutItsFileIsSaidToBe makes the rename fail: another file appears at its target just before.
func TestANumberWithoutItsFileIsSaidToBe(t *testing.T) {
	dir := t.TempDir()
	durabletest.Watch(t, func(s durabletest.Sync) error {
		return os.MkdirAll(filepath.Join(dir, DirectoryFile, "in the way"), 0o700)
	})
	_, err := DirectoryNumber(dir)
	require.ErrorContains(t, err, "rename")
}

// TestAFileThatCannotBeReadIsNoNumber checks that an unreadable file, or a number of the wrong length, is not
// used.
func TestAFileThatCannotBeReadIsNoNumber(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, DirectoryFile)
	first, err := DirectoryNumber(dir)
	require.NoError(t, err)
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, kept[1:], 0o600))
	second, err := DirectoryNumber(dir)
	require.NoError(t, err)
	require.Len(t, second, len(first))
	require.NotContains(t, first, second)

	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink(file, file))
	_, err = DirectoryNumber(dir)
	require.ErrorIs(t, err, syscall.ELOOP)
}

// TestTheFirstNameOfTheMachineCounts checks that the first file with an id is used, unless it is empty.
func TestTheFirstNameOfTheMachineCounts(t *testing.T) {
	dir, ids := t.TempDir(), t.TempDir()
	was := machineIDs
	t.Cleanup(func() { machineIDs = was })
	machineIDs = []string{filepath.Join(ids, "empty"), filepath.Join(ids, "one"), filepath.Join(ids, "two")}
	write := func(name, id string) (place string) {
		require.NoError(t, os.WriteFile(filepath.Join(ids, name), []byte(id), 0o600))
		place, err := placeOf(dir)
		require.NoError(t, err)
		return place
	}
	write("empty", "")
	write("one", "1\n")
	place := write("two", "2\n")
	require.Equal(t, place, write("two", "3\n"))
	require.NotEqual(t, place, write("one", "4\n"))
}
