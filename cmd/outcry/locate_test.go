package main

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

// TestTheDatabaseIsFoundWhereTheServerFindsIt names it in each place, and in two at once.
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
		want        located
		wrong       string
	}{
		{"nothing", "", "", located{"outcry-data", ""}, ""},
		{"the environment", "DATABASE_URL=postgres://e/x OUTCRY_DATA=/e", "", located{"/e", "postgres://e/x"}, ""},
		{"a file of the environment", "DATABASE_URL_FILE=" + secret, "",
			located{"outcry-data", "postgres://u:opensesame@file/x"}, ""},
		{"the server's own names", "OUTCRY_DATABASE_URL=postgres://own/x DATABASE_URL=postgres://e/x", "",
			located{"outcry-data", "postgres://own/x"}, ""},
		{"the settings", "", "--config=" + inFile, located{"/srv/out", "postgres://u:opensesame@file/x"}, ""},
		{"the settings of the environment", "OUTCRY_CONFIG=-" + plain, "",
			located{"outcry-data", "postgres://u:opensesame@plain/x"}, ""},
		{"settings that are not there", "OUTCRY_CONFIG=-" + dir + "/none", "", located{"outcry-data", ""}, ""},
		{"our own name, set to nothing", "OUTCRY_DATABASE_URL= DATABASE_URL=postgres://e/x", "", located{"outcry-data", ""},
			""},
		{"the environment before the settings", "OUTCRY_CONFIG=" + inFile + " DATABASE_URL=postgres://e/x OUTCRY_DATA=/e",
			"", located{"/e", "postgres://e/x"}, ""},
		{"a flag before both", "OUTCRY_CONFIG=" + inFile + " DATABASE_URL=postgres://e/x",
			"--data=/f --database-url=postgres://f/x", located{"/f", "postgres://f/x"}, ""},
		{"a file before both", "OUTCRY_CONFIG=" + inFile + " DATABASE_URL=postgres://e/x", "--database-url-file=" + other,
			located{"/srv/out", "postgres://other/x"}, ""},
		{"the local cluster before all", "OUTCRY_CONFIG=" + inFile + " DATABASE_URL=postgres://e/x", "--database-url=",
			located{"/srv/out", ""}, ""},
		{"two flags", "", "--database-url=postgres://u:opensesame@x/x --database-url-file=" + secret, located{},
			"--database-url and --database-url-file: only one"},
		{"two variables", "DATABASE_URL=postgres://u:opensesame@x/x DATABASE_URL_FILE=" + secret, "", located{},
			"DATABASE_URL and DATABASE_URL_FILE: only one"},
		{"two settings", "", "--config=" + both, located{}, both + ": database-url and database-url-file: only one"},
		{"a file that is not there", "DATABASE_URL_FILE=" + dir + "/none", "", located{}, "DATABASE_URL_FILE: open " + dir +
			"/none: "},
		{"a URL for a file", "DATABASE_URL_FILE=postgres://u:opensesame@db/x", "", located{},
			"DATABASE_URL_FILE: that is not a file name"},
		{"words for a file", "", "--database-url-file=host=db/password=opensesame", located{},
			"--database-url-file: that is not a file name"},
		{"required settings that are not there", "", "--config=" + dir + "/none", located{}, "--config: open"},
		{"a malformed line", "", "--config=" + secret, located{}, "--config: " + secret + ":1: not \"name = value\""},
		{"a line twice", "", "--config=" + write("twice", "database-url = opensesame\ndatabase-url = opensesame"), located{},
			"twice:2: the name already has a value"},
		{"a wrong number", "", "--config=" + write("wrong", "max-memory = many"), located{},
			dir + `/wrong: max-memory = "many": `},
		{"a wrong number of the environment", "OUTCRY_MAX_MEMORY=many", "", located{}, `OUTCRY_MAX_MEMORY = "many": `},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{"DATABASE_URL", "DATABASE_URL_FILE", "OUTCRY_DATA", "OUTCRY_CONFIG",
				"OUTCRY_DATABASE_URL", "OUTCRY_MAX_MEMORY"} {
				t.Setenv(name, "") // which puts back what it is
				require.NoError(t, os.Unsetenv(name))
			}
			for _, entry := range strings.Fields(test.environment) {
				name, value, _ := strings.Cut(entry, "=")
				t.Setenv(name, value)
			}
			f := flag.NewFlagSet("x", flag.ContinueOnError)
			f.SetOutput(io.Discard)
			memory := f.Int64("max-memory", 3, "")
			where := locating(f, "x")
			words, err := settings.ParseFlags(f, strings.Fields(test.args))
			require.NoError(t, err)
			require.Empty(t, words)
			at, err := where.find()
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
	t.Setenv("DATABASE_URL", "postgres://u:opensesame@x/x")
	for _, command := range []string{"backup", "restore", "verify", "doctor"} {
		stdout, stderr, status := outcry("", command, "--help")
		require.Equal(t, exitOK, status)
		require.Contains(t, stdout, "--database-url-file")
		require.NotContains(t, stdout+stderr, "opensesame")
	}
}
