package onerun

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	status := m.Run()
	if err := Remove(); err != nil {
		panic(err)
	}
	os.Exit(status)
}

// TestWhatIsSharedIsMadeOnce calls Make from many goroutines at once, which is like many processes: each has opened
// the lock's file itself.
func TestWhatIsSharedIsMadeOnce(t *testing.T) {
	var made atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			path, err := Make("once/file", func(path string) error {
				made.Add(1)
				return os.WriteFile(path, []byte("whole"), 0o600)
			})
			if b, readErr := os.ReadFile(path); err != nil || readErr != nil || string(b) != "whole" {
				t.Errorf("%q, %v, %v", b, err, readErr)
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(1), made.Load())
}

// TestWhatFailedIsMadeAgain checks that half of what make has written is not used.
func TestWhatFailedIsMadeAgain(t *testing.T) {
	failed := errors.New("failed")
	path, err := Make("again", func(path string) error {
		require.NoError(t, os.MkdirAll(filepath.Join(path, "half"), 0o700))
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.Empty(t, path)
	path, err = Make("again", func(path string) error { return os.Mkdir(path, 0o700) })
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(path, "half"))
}
