package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/journal/durable"
	"outcry/internal/testing/durabletest"
)

func TestWhatCanBeSyncedIsNoError(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "file"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, errors.Join(durable.File(f), durable.Data(f), durable.Dir(dir)))
	require.ErrorIs(t, durable.Dir(filepath.Join(dir, "missing")), os.ErrNotExist)
}

// TestADirectoryIsMadeWithItsName: every directory that gets a new entry is synced after the entry was
// created, from the top down. If all directories exist, nothing is synced.
func TestADirectoryIsMadeWithItsName(t *testing.T) {
	top := t.TempDir()
	made := []string{filepath.Join(top, "a"), filepath.Join(top, "a/b"), filepath.Join(top, "a/b/c")}
	at := 0
	w := durabletest.Watch(t, func(s durabletest.Sync) error {
		assert.Equal(t, filepath.Dir(made[at]), s.Path)
		assert.DirExists(t, made[at])
		at++
		return nil
	})
	require.NoError(t, durable.MakeDir(made[2]))
	require.Equal(t, 3, at)
	require.NoError(t, durable.MakeDir(made[2]))
	require.Len(t, w.Seen(), 3)
}

func TestADirectoryWhoseNameIsNotSyncedIsAnError(t *testing.T) {
	broken := errors.New("the disk is broken")
	top := t.TempDir()
	durabletest.Watch(t, func(s durabletest.Sync) error {
		if s.Path == filepath.Join(top, "a") {
			return broken
		}
		return nil
	})
	require.ErrorIs(t, durable.MakeDir(filepath.Join(top, "a/b/c")), broken)
	require.NoDirExists(t, filepath.Join(top, "a/b/c"))
}
