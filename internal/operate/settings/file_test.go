package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALineIsANameAndAValue(t *testing.T) {
	for line, want := range map[string][3]string{
		"":                            {},
		"  # nothing":                 {},
		"max-frame = 65536 # bytes\n": {"max-frame", "65536"},
		"a=b#c\r\n":                   {"a", "b#c"},
		`data = "/srv/out # cry" # x`: {"data", "/srv/out # cry"},
		"a = ":                        {"a", ""},
		"a = # nothing":               {"a", ""},
		"opensesame":                  {"", "", `not "name = value"`},
		"= opensesame":                {"", "", `not "name = value"`},
		`a = "opensesame`:             {"", "", "the value has no closing quote"},
		`a = "x" opensesame`:          {"", "", "the value has no closing quote, or continues after it"},
		"a = \xff":                    {"", "", "not text in UTF-8"},
		"a = \x00":                    {"", "", "not text in UTF-8"},
	} {
		name, value, err := ParseLine(line)
		if want[2] != "" {
			require.ErrorContains(t, err, want[2], line)
			require.NotContains(t, err.Error(), "opensesame")
			continue
		}
		require.NoError(t, err, line)
		require.Equal(t, want[:2], []string{name, value}, line)
	}
}

func TestAFileThatIsTooLargeOrEmptyIsNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		" \n":                           path + " is empty",
		strings.Repeat("x", bytesMax+1): "has more than 1048576 bytes",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadSecret(path)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, os.WriteFile(path, []byte("\n postgres://u:p@h/d \n"), 0o600))
	secret, err := ReadSecret(path)
	require.NoError(t, err)
	require.Equal(t, "postgres://u:p@h/d", secret)
	_, err = ReadSecret(path + "2")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, path+"2")
}

func TestASecretThatIsGivenInPlaceOfItsFileIsNotRepeated(t *testing.T) {
	for _, secret := range []string{
		"postgres://u:opensesame@db/x", "postgres://u@db/x?password=opensesame", "postgres://u:opensesame%zz@db/x",
		"u:opensesame@db/x", "host=db password = opensesame",
	} {
		_, err := ReadSecret(secret)
		require.ErrorContains(t, err, "not a file name", secret)
		require.NotContains(t, err.Error(), "opensesame")
	}
	for _, file := range []string{"/run/credentials/outcryd@a:1.service/url", "/etc/outcry/password", "secrets/host=db"} {
		_, err := ReadSecret(file)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestOnlyAnOptionalFileMayBeMissing(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	path, text, err := ReadOptional(OptionalMark + missing)
	require.NoError(t, err)
	require.Equal(t, missing, path)
	require.Empty(t, text)
	_, _, err = ReadOptional(missing)
	require.ErrorIs(t, err, os.ErrNotExist)
}
