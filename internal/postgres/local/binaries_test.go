package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeBinaries makes a folder that looks like an installed Postgres of a version.
func fakeBinaries(t *testing.T, major int) string {
	t.Helper()
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %d.3 (Some Distribution)'\n", major)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "postgres"), []byte(script), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "initdb"), nil, 0o755))
	return bin
}

func noDownload(context.Context, Options, int) (string, error) {
	return "", errors.New("no network")
}

// dataOf makes a data directory of a version of Postgres, or none if version is "".
func dataOf(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	if version != "" {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte(version+"\n"), 0o600))
	}
	return dir
}

func TestBinariesFitTheDataOrAreTheNewest(t *testing.T) {
	old, middle, latest := fakeBinaries(t, 9), fakeBinaries(t, 14), fakeBinaries(t, 17)
	for _, test := range []struct {
		data      string
		installed []string
		want      string // the folder to use, or the version to download
		err       string
	}{
		{"", []string{middle, latest, old}, latest, ""},
		{"14", []string{old, middle, latest}, middle, ""},
		{"14", []string{latest}, "14", ""},
		{"9.6", []string{latest, old}, old, ""},
		{"", []string{old}, "17", ""},
		{"", []string{"/nowhere", t.TempDir()}, "17", ""},
		{"fifteen", []string{latest}, "", `"fifteen\n", which is not a version`},
	} {
		m := machine{installed: func() []string { return test.installed },
			download: func(_ context.Context, _ Options, major int) (string, error) { return fmt.Sprint(major), nil }}
		bin, err := findBinaries(background, options(dataOf(t, test.data)), m)
		if test.err != "" {
			require.ErrorContains(t, err, test.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, test.want, bin, "data of %q, installed %v", test.data, test.installed)
	}
}

func TestAnotherMajorVersionIsRefused(t *testing.T) {
	m := machine{installed: func() []string { return []string{fakeBinaries(t, 16), fakeBinaries(t, 17)} },
		download: noDownload, user: asUser}
	dir := dataOf(t, "15")
	_, err := start(background, options(dir), m)
	require.ErrorContains(t, err, "was made with Postgres 15, but installed is version 16, 17")
	require.ErrorContains(t, err, "no network")
	require.FileExists(t, filepath.Join(dir, "data", "PG_VERSION"))
}

func TestWithoutBinariesThePackageIsNamed(t *testing.T) {
	m := machine{installed: func() []string { return []string{t.TempDir()} }, download: noDownload, user: asUser}
	_, err := start(background, options(t.TempDir()), m)
	require.ErrorContains(t, err, "installed is none")
	require.ErrorContains(t, err, "apt install postgresql")
	require.ErrorContains(t, err, "--database-url")
	require.ErrorContains(t, err, "no network")
}

func TestAVersionThatIsNotOnOfferIsNotDownloaded(t *testing.T) {
	_, err := pinned.download(background, options(t.TempDir()), 9)
	require.ErrorContains(t, err, "version 9 is not available")
}

func TestTheWaitForAnotherDownloadEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := lockFile(path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err = waitForLock(ctx, path)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, unlock(held))
	free, err := waitForLock(ctx, path)
	require.NoError(t, err)
	require.NoError(t, unlock(free))
}

// Between fork and exec, a child process has a copy of every open file. This test simulates that with a copy
// of the lock file.
func TestALockIsFreeAlthoughAProcessIsBeingStarted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := lockFile(path)
	require.NoError(t, err)
	started, err := syscall.Dup(int(held.Fd()))
	require.NoError(t, err)
	defer syscall.Close(started)
	require.NoError(t, unlock(held))
	free, err := lockFile(path)
	require.NoError(t, err)
	require.NoError(t, unlock(free))
}
