package auth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/durabletest"
)

// The file is synced with the token in it and given to the owner of the directory. Then the directory is synced with
// the file's name in it. The same holds when a token is revoked.
func TestATokenIsDurableBeforeItIsTold(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "data")
	tokens := filepath.Join(dir, TokensFile)
	entries := func(path string) int {
		all, err := readFile(path)
		require.NoError(t, err)
		return len(all)
	}
	want := 1
	w := durabletest.Watch(t, func(s durabletest.Sync) error {
		switch {
		case s.Path == top:
			assert.DirExists(t, dir)
			if os.Geteuid() == 0 {
				assert.NoError(t, os.Chown(dir, 65534, 65534))
			}
		case s.Path == dir:
			assert.Equal(t, want, entries(tokens))
		default:
			assert.True(t, strings.HasPrefix(filepath.Base(s.Path), "."+TokensFile+"-"), s.Path)
			assert.Equal(t, want, entries(s.Path))
			owner, err := os.Stat(dir)
			assert.NoError(t, err)
			info, err := os.Stat(s.Path)
			assert.NoError(t, err)
			assert.Equal(t, owner.Sys().(*syscall.Stat_t).Uid, info.Sys().(*syscall.Stat_t).Uid)
		}
		return nil
	})
	_, id := add(t, dir, "admin", time.Time{})
	require.Len(t, w.Seen(), 3)
	want = 0
	require.NoError(t, Revoke(dir, id))
	require.Len(t, w.Seen(), 5)
}

// If the sync of the file fails, Add returns an error and leaves neither the token nor a temporary file.
func TestATokenWhoseSyncFailsIsNotGiven(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("the disk is broken")
	for n, left := range []int{0, 1} {
		seen := 0
		durabletest.Watch(t, func(durabletest.Sync) error {
			if seen++; seen == n+1 {
				return broken
			}
			return nil
		})
		token, _, err := Add(dir, scope(t, "admin"), time.Time{}, "")
		require.ErrorIs(t, err, broken)
		require.Empty(t, token)
		all, err := List(dir)
		require.NoError(t, err)
		require.Len(t, all, left)
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, names, 1+left, "only the lock and the file of tokens")
	}
}
