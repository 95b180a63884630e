package target

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// resultFolder returns a folder that any user can enter, and that is removed when the test ends.
func resultFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "target-result-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// The server's user need not be able to write the file or its folder. With a folder further up, or a link
// on the way, it could redirect the result, and root would write there.
func TestAResultThatTheServerCouldMoveIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		return // the server would run as this user
	}
	other, _, err := accountOf("")
	require.NoError(t, err)
	uid, gid := int(other.UID), int(other.GID)
	for name, c := range map[string]struct {
		change func(top, file string) error // makes a safe file unsafe, or leaves it safe
		by     string                       // path that the error must name, below the test's folder
	}{
		"safe": {func(string, string) error { return nil }, ""},
		"a folder further up that all can write": {func(top, _ string) error {
			return os.Chmod(top, 0o777)
		}, "/a"},
		"a sticky folder further up": {func(top, _ string) error {
			return os.Chmod(top, 0o777|os.ModeSticky)
		}, ""},
		"a sticky folder of that user further up": {func(top, _ string) error {
			return os.Chown(top, uid, gid)
		}, "/a"},
		"a folder of that user that it made read-only": {func(_, file string) error {
			return errorOf(os.Chown(filepath.Dir(file), uid, gid), os.Chmod(filepath.Dir(file), 0o555))
		}, "/a/b/c"},
		"a file of that user in a sticky folder": {func(_, file string) error {
			dir := filepath.Dir(file)
			return errorOf(os.Chmod(dir, 0o777|os.ModeSticky), os.WriteFile(file, nil, 0o400), os.Chown(file, uid, gid))
		}, "/a/b/c/r.json"},
		"a link of that user in a sticky folder": {func(top, file string) error {
			dir := filepath.Dir(file)
			return errorOf(os.Chmod(dir, 0o777|os.ModeSticky), os.Symlink(filepath.Join(top, "passwd"), file),
				os.Lchown(file, uid, gid))
		}, "/a/b/c/r.json"},
		"a link of a third user": {func(top, file string) error {
			return errorOf(os.Symlink(filepath.Join(top, "passwd"), file), os.Lchown(file, 12345, 12345))
		}, "/a/b/c/r.json"},
		"a link of root to where it can write": {func(top, file string) error {
			free := filepath.Join(filepath.Dir(top), "free")
			return errorOf(os.Mkdir(free, 0o755), os.Chmod(free, 0o777), os.Symlink(filepath.Join(free, "x"), file))
		}, "/free"},
		"a link of root that is safe": {func(top, file string) error {
			return os.Symlink(filepath.Join(top, "other.json"), file)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := resultFolder(t)
			top := filepath.Join(dir, "a")
			file := filepath.Join(top, "b", "c", "r.json")
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, c.change(top, file))
			err := other.guard(nil, []string{file})
			if c.by == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, file)
			require.ErrorContains(t, err, dir+c.by)
			require.NoFileExists(t, filepath.Join(top, "passwd"), "nothing is made where a planted link leads")
		})
	}
}

// errorOf returns the first error.
func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
