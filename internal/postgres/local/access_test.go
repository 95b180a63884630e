package local

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamesAreQuotedInTheMap: names are quoted as Postgres reads them, so that no name ends its field early.
func TestNamesAreQuotedInTheMap(t *testing.T) {
	require.Equal(t, "outcry \"ann\" outcry\n", identLine("ann", role))
	require.Equal(t, "outcry \"a \"\"b\"\" c\" outcry_admin\n", identLine(`a "b" c`, superuser))
}

// TestTheFilesOfAccessAreWrittenWhole: the files are readable only by their owner, an interrupted start's
// leftovers do not matter, and a link in their place is not followed.
func TestTheFilesOfAccessAreWrittenWhole(t *testing.T) {
	c := &Cluster{options: options(t.TempDir()), as: &syscall.SysProcAttr{}}
	require.NoError(t, os.Mkdir(c.dataDir(), 0o700))
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, []byte("of somebody"), 0o644))
	making := filepath.Join(c.dataDir(), "pg_hba.conf.making")
	for _, left := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(making, []byte("half"), 0o644) },
		func() error { return os.Symlink(elsewhere, making) },
	} {
		require.NoError(t, left())
		require.NoError(t, c.writeAccess())
		require.NoFileExists(t, making)
		for _, name := range []string{"pg_hba.conf", "pg_ident.conf"} {
			info, err := os.Lstat(filepath.Join(c.dataDir(), name))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode(), name)
		}
	}
	kept, err := os.ReadFile(elsewhere)
	require.NoError(t, err)
	require.Equal(t, "of somebody", string(kept))
	ident, err := os.ReadFile(filepath.Join(c.dataDir(), "pg_ident.conf"))
	require.NoError(t, err)
	want := "# outcry writes this file at each start.\n"
	users, err := c.users()
	require.NoError(t, err)
	for _, user := range users {
		want += identLine(user, role) + identLine(user, superuser)
	}
	require.Equal(t, want, string(ident))

	require.NoError(t, os.Remove(filepath.Join(c.dataDir(), "pg_hba.conf")))
	require.NoError(t, os.MkdirAll(filepath.Join(c.dataDir(), "pg_hba.conf", "in the way"), 0o700))
	require.ErrorContains(t, c.writeAccess(), "set who may connect to "+c.dataDir())
}

// TestWhoMayConnect: the users are this process's user, root, and the user as whom Postgres runs, each once,
// in this order.
func TestWhoMayConnect(t *testing.T) {
	users := func(as *syscall.SysProcAttr) []string {
		t.Helper()
		names, err := (&Cluster{as: as}).users()
		require.NoError(t, err)
		return names
	}
	self := userName(os.Geteuid())
	want := []string{self}
	if self != "root" {
		want = append(want, "root")
	}
	require.Equal(t, want, users(&syscall.SysProcAttr{}))
	require.Equal(t, want, users(&syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(os.Geteuid())}}))
	runner := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534}}
	if other := userName(65534); other != self {
		require.Equal(t, append(want, other), users(runner))
	}
}

// TestAUserThatOnlyTheSystemsLookUpKnowsHasAName: users of a directory service have names too.
func TestAUserThatOnlyTheSystemsLookUpKnowsHasAName(t *testing.T) {
	const nobodys = 1_999_999_999
	require.Empty(t, userName(nobodys))
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "id"), []byte("#!/bin/sh\necho \" asked $*\"\n"), 0o755))
	t.Setenv("PATH", bin)
	require.Equal(t, fmt.Sprintf("asked -un %d", nobodys), userName(nobodys))
}
