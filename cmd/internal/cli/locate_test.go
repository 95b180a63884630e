package cli

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/settings"
)

// TestTheDatabaseIsFoundWhereTheServerFindsIt gives the database's URL in each source, and in two sources at once.
func TestTheDatabaseIsFoundWhereTheServerFindsIt(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	secret, other := write("secret", "postgres://u:opensesame@file/x\n"), write("other", "postgres://other/x")
	inFile := write("outcryd.conf",
		"data = /srv/out  # here\nmax-frame = 7\nmax-memory = 1048577\ndatabase-url-file = "+secret+"\n")
	plain := write("plain.conf", "database-url = \"postgres://u:opensesame@plain/x\"\n")
	both := write("both.conf", "database-url = postgres://u:opensesame@x/x\ndatabase-url-file = "+secret+"\n")
	for _, test := range []struct {
		name        string
		environment string
		args        string
		want        Located
		wrong       string
	}{
		{"nothing", "", "", Located{"outcry-data", ""}, ""},
		{"the environment", "DATABASE_URL=postgres://e/x OUTCRY_DATA=/e", "", Located{"/e", "postgres://e/x"}, ""},
		{"a file of the environment", "DATABASE_URL_FILE=" + secret, "",
			Located{"outcry-data", "postgres://u:opensesame@file/x"}, ""},
		{"the server's own names", "OUTCRY_DATABASE_URL=postgres://own/x DATABASE_URL=postgres://e/x", "",
			Located{"outcry-data", "postgres://own/x"}, ""},
		{"the settings", "", "--config=" + inFile, Located{"/srv/out", "postgres://u:opensesame@file/x"}, ""},
		{"the settings of the environment", "OUTCRY_CONFIG=-" + plain, "",
			Located{"outcry-data", "postgres://u:opensesame@plain/x"}, ""},
		{"settings that are not there", "OUTCRY_CONFIG=-" + dir + "/none", "", Located{"outcry-data", ""}, ""},
		{"our own name, set to nothing", "OUTCRY_DATABASE_URL= DATABASE_URL=postgres://e/x", "", Located{"outcry-data", ""},
			""},
		{"the environment before the settings", "OUTCRY_CONFIG=" + inFile + " DATABASE_URL=postgres://e/x OUTCRY_DATA=/e",
			"", Located{"/e", "postgres://e/x"}, ""},
		{"a flag before both", "OUTCRY_CONFIG=" + inFile + " DATABASE_URL=postgres://e/x",
			"--data=/f --database-url=postgres://f/x", Located{"/f", "postgres://f/x"}, ""},
		{"a file before both", "OUTCRY_CONFIG=" + inFile + " DATABASE_URL=postgres://e/x", "--database-url-file=" + other,
			Located{"/srv/out", "postgres://other/x"}, ""},
		{"the local cluster before all", "OUTCRY_CONFIG=" + inFile + " DATABASE_URL=postgres://e/x", "--database-url=",
			Located{"/srv/out", ""}, ""},
		{"two flags", "", "--database-url=postgres://u:opensesame@x/x --database-url-file=" + secret, Located{},
			"--database-url and --database-url-file: only one"},
		{"two variables", "DATABASE_URL=postgres://u:opensesame@x/x DATABASE_URL_FILE=" + secret, "", Located{},
			"DATABASE_URL and DATABASE_URL_FILE: only one"},
		{"two settings", "", "--config=" + both, Located{}, both + ": database-url and database-url-file: only one"},
		{"a file that is not there", "DATABASE_URL_FILE=" + dir + "/none", "", Located{}, "DATABASE_URL_FILE: open " + dir +
			"/none: "},
		{"a URL for a file", "DATABASE_URL_FILE=postgres://u:opensesame@db/x", "", Located{},
			"DATABASE_URL_FILE: that is not a file name"},
		{"words for a file", "", "--database-url-file=host=db/password=opensesame", Located{},
			"--database-url-file: that is not a file name"},
		{"required settings that are not there", "", "--config=" + dir + "/none", Located{}, "--config: open"},
		{"a malformed line", "", "--config=" + secret, Located{}, "--config: " + secret + ":1: not \"name = value\""},
		{"a line twice", "", "--config=" + write("twice", "database-url = opensesame\ndatabase-url = opensesame"), Located{},
			"twice:2: the name already has a value"},
		{"a wrong number", "", "--config=" + write("wrong", "max-memory = many"), Located{},
			dir + `/wrong: max-memory = "many": `},
		{"a wrong number of the environment", "OUTCRY_MAX_MEMORY=many", "", Located{}, `OUTCRY_MAX_MEMORY = "many": `},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{"DATABASE_URL", "DATABASE_URL_FILE", "OUTCRY_DATA", "OUTCRY_CONFIG",
				"OUTCRY_DATABASE_URL", "OUTCRY_MAX_MEMORY"} {
				t.Setenv(name, "") // so that the test's end restores the variable
				require.NoError(t, os.Unsetenv(name))
			}
			for _, entry := range strings.Fields(test.environment) {
				name, value, _ := strings.Cut(entry, "=")
				t.Setenv(name, value)
			}
			f := flag.NewFlagSet("x", flag.ContinueOnError)
			f.SetOutput(io.Discard)
			memory := f.Int64("max-memory", 3, "")
			where := Locating(f, "x")
			words, err := settings.ParseFlags(f, strings.Fields(test.args))
			require.NoError(t, err)
			require.Empty(t, words)
			at, err := where.Find()
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				require.NotContains(t, err.Error(), "opensesame")
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, at)
			require.Equal(t, strings.Contains(test.environment+test.args, inFile), *memory == 1048577)
		})
	}
}
