package backup

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Root may take a backup, so the owner of the directory must not be able to choose, by a link, which file is
// read.
func TestABackupReadsNoFileThatTheDirectorysOwnerChose(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("of root"), 0o600))
	for name, c := range map[string]struct {
		make func(path string) error
		want string // the content, unless err is set
		err  error
		text string
	}{
		"a file": {make: func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) }, want: "mine"},
		"as large as it may": {make: func(path string) error {
			return os.WriteFile(path,
				bytes.Repeat([]byte("x"), fileBytesMax), 0o600)
		},
			want: string(bytes.Repeat([]byte("x"), fileBytesMax))},
		"too large": {make: func(path string) error { return os.WriteFile(path, make([]byte, fileBytesMax+1), 0o600) },
			text: "has more than"},
		"a link": {make: func(path string) error { return os.Symlink(secret, path) }, err: syscall.ELOOP},
		// opening it must not wait for a writer
		"a pipe": {make: func(path string) error { return syscall.Mkfifo(path, 0o600) }},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			require.NoError(t, c.make(filepath.Join(data, tokensName)))
			files, err := readSmallFiles(data, false)
			switch {
			case c.err != nil:
				require.ErrorIs(t, err, c.err)
			case c.text != "":
				require.ErrorContains(t, err, c.text)
			default:
				require.NoError(t, err)
				require.Equal(t, []File{{Name: tokensName, Content: []byte(c.want)}}, files)
			}
		})
	}
}

// A backup may be exactly BytesMax long, but not longer.
func TestABackupIsNoLargerThanItMayBe(t *testing.T) {
	for most, fits := range map[int64]bool{0: true, 9: false, 10: true, 11: true} {
		var out bytes.Buffer
		c := counter{w: &out, max: most}
		_, err := c.Write([]byte("12345"))
		require.NoError(t, err)
		if _, err = c.Write([]byte("67890")); fits {
			require.NoError(t, err)
			require.Equal(t, "1234567890", out.String())
		} else {
			require.ErrorContains(t, err, "larger than the limit of 9 bytes")
			require.Equal(t, "12345", out.String(), "nothing beyond the limit was written")
		}
		require.EqualValues(t, out.Len(), c.n)
	}
}

// A backup leaves the machine, and anyone with the keys can trade as their owners.
func TestSecretsAreTakenOnlyIfTheyAreWanted(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, tokensName), []byte("hashes"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(data, keysName), []byte("secrets"), 0o600))
	files, err := readSmallFiles(data, false)
	require.NoError(t, err)
	require.Equal(t, []File{{Name: tokensName, Content: []byte("hashes")}}, files)
	files, err = readSmallFiles(data, true)
	require.NoError(t, err)
	require.Equal(t, []File{{Name: tokensName, Content: []byte("hashes")}, {Name: keysName, Content: []byte("secrets")}},
		files)
}
