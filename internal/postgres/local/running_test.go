package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestARunningClusterIsFoundByItsDirectory checks that a running cluster is found, and a stopped one is not.
func TestARunningClusterIsFoundByItsDirectory(t *testing.T) {
	o := initialized(t, t.TempDir())
	_, err := RunningURL(o.Dir)
	require.ErrorIs(t, err, ErrNotRunning)
	c := begin(t, o)
	keep(t, c, 3)
	url, err := RunningURL(o.Dir)
	require.NoError(t, err)
	require.Equal(t, c.URL(), url)

	// A cluster with a private /tmp, such as a service, is found through its process.
	link := filepath.Join(o.Dir, socketLink)
	target, err := os.Readlink(link)
	require.NoError(t, err)
	require.NoError(t, os.Remove(link))
	inside := filepath.Join(t.TempDir(), "nowhere")
	require.NoError(t, os.Symlink(inside, link))
	_, err = RunningURL(o.Dir)
	require.ErrorIs(t, err, ErrNotRunning, "neither here nor there")
	require.NoError(t, os.Symlink(target, inside))
	url, err = RunningURL(o.Dir)
	require.NoError(t, err)
	conn, err := pgx.Connect(background, url)
	require.NoError(t, err)
	require.NoError(t, conn.Close(background))
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(target, link))

	stop(t, c)
	_, err = RunningURL(o.Dir)
	require.ErrorIs(t, err, ErrNotRunning)
}
