package settings

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writeFile makes a file in a temporary directory that only its owner can read.
func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestAFlagWinsOverTheEnvironmentAndThatOverTheFile(t *testing.T) {
	file := writeFile(t, "outcryd.conf",
		"max-connections = 1\nmax-symbols = 2\nmax-lag = 3000 # records\nlog-level = WARN\nbare-replies = true\n")
	t.Setenv("OUTCRY_CONFIG", file)
	t.Setenv("OUTCRY_MAX_SYMBOLS", "20")
	t.Setenv("OUTCRY_MAX_LAG", "20000")
	c, err := Parse([]string{"--max-lag=200000"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 1, c.ConnectionsMax)
	require.Equal(t, 20, c.SymbolsMax)
	require.Equal(t, 200_000, c.LagMax)
	require.True(t, c.BareReplies)
	require.Equal(t, 30*time.Second, c.FrameTimeout)
	require.Equal(t, setting{"1", fromFile, file + ":1", false}, c.settings["max-connections"])
	require.Equal(t, setting{"20", fromEnvironment, "OUTCRY_MAX_SYMBOLS", false}, c.settings["max-symbols"])
	require.Equal(t, setting{"200000", fromFlag, "--max-lag", false}, c.settings["max-lag"])
	require.Equal(t, setting{"30s", fromDefault, "default", false}, c.settings["frame-timeout"])

	other := writeFile(t, "other.conf", "max-connections = 5\n")
	c, err = Parse([]string{"--config", other}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 5, c.ConnectionsMax, "the flag names the file")
}

func TestTheFileSaysWhatIsWrongWithEachOfItsLines(t *testing.T) {
	for _, c := range []struct{ text, wrong string }{
		{"max-conections = 1", `:1: "max-conections" is not a setting; is max-connections meant?`},
		{"\n# \nmax_frame = 70", `:3: "max_frame" is not a setting; is max-frame meant?`},
		{"quantum = 70", `:1: "quantum" is not a setting`},
		{"max-lag = 5000\nmax-lag = 5000", ":2: max-lag already has a value in line 1"},
		{"max-frame = many", `:1: max-frame = "many": must be a number of bytes, or of KiB`},
		{"idle-timeout = 10", `:1: idle-timeout = "10": must be a duration, such as 30s`},
		{"bare-replies = perhaps", `:1: bare-replies = "perhaps": must be true or false`},
		{"max-symbols", `:1: not "name = value"`},
		{"= 5", `:1: not "name = value"`},
		{`data = "/srv`, ":1: the value has no closing quote, or continues after it"},
		{`data = "/srv" /x`, ":1: the value has no closing quote, or continues after it"},
		{"config = /x", ":1: config is only a flag, not a setting"},
		{"health = true", ":1: health is only a flag, not a setting"},
		{"data = \xff", ":1: not text in UTF-8"},
		{"# fine\nack = both", `:2: --ack "both": must be`},
		{"max-connections = 0", ":1: --max-connections 0: must be from 1 to"},
		{"max-memory = 1048576", ":1: --max-memory 1048576: must be at least 268435456"},
	} {
		file := writeFile(t, "outcryd.conf", c.text)
		_, err := Parse([]string{"--config=" + file}, io.Discard)
		require.ErrorContains(t, err, file+c.wrong, c.text)
	}
	file := writeFile(t, "outcryd.conf", "one = 1\nmax-lag = 5000\ntwo = 2\n")
	_, err := Parse([]string{"--config=" + file}, io.Discard)
	require.ErrorContains(t, err, file+":1:")
	require.ErrorContains(t, err, file+":3:", "all errors are reported together")
}

func TestTheFileHasValuesInQuotesAndComments(t *testing.T) {
	file := writeFile(t, "outcryd.conf", `
  # a comment
data = "/srv/a # b"    # another
tls-client-ca=ca#2.pem
tls-cert=c
tls-key=k
	http =	 # none
ack = "postgres"
`)
	c, err := Parse([]string{"--config=" + file}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/srv/a # b", c.Data)
	require.Equal(t, "ca#2.pem", c.TLSClientCA)
	require.Empty(t, c.HTTP)
	require.Equal(t, "postgres", c.Ack)
}

func TestAFileThatIsNotThereIsRefusedUnlessItMayBeMissing(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.conf")
	_, err := Parse([]string{"--config=" + missing}, io.Discard)
	require.ErrorContains(t, err, missing)
	_, err = Parse([]string{"--config=-" + missing}, io.Discard)
	require.NoError(t, err)
	_, err = Parse([]string{"--config=-" + t.TempDir()}, io.Discard)
	require.ErrorContains(t, err, "is a directory", "only a missing file is no error")
	large := writeFile(t, "large.conf", strings.Repeat("#", 1<<20+1))
	_, err = Parse([]string{"--config=" + large}, io.Discard)
	require.ErrorContains(t, err, "has more than 1048576 bytes")
}

func TestVariablesThatAreNoSettingsAreWarnedOf(t *testing.T) {
	t.Setenv("OUTCRY_MAX_CONECTIONS", "5")
	t.Setenv("OUTCRY_VERSION", "1.2")
	clients := []string{"OUTCRY_ADDR", "OUTCRY_CLIENT_CERT", "OUTCRY_CLIENT_KEY", "OUTCRY_INSECURE_TOKEN", "OUTCRY_TLS_CA",
		"OUTCRY_TOKEN", "OUTCRY_TOKEN_FILE"}
	for _, name := range clients {
		t.Setenv(name, "x")
	}
	c, err := Parse(nil, io.Discard)
	require.NoError(t, err)
	require.Contains(t, c.Warnings, "OUTCRY_MAX_CONECTIONS is not a setting; is OUTCRY_MAX_CONNECTIONS meant?")
	require.Contains(t, strings.Join(c.Warnings, "\n"), "OUTCRY_VERSION is not a setting")
	for _, name := range clients {
		require.NotContains(t, strings.Join(c.Warnings, "\n"), name+" is not a setting", "it is a variable of the client")
	}
}

func TestTheDatabaseIsNamedByTheHighestSource(t *testing.T) {
	secret := writeFile(t, "url", "postgres://u:fromfile@h/d\n")
	file := writeFile(t, "outcryd.conf", "database-url = postgres://u:fromconf@h/d\n")
	parse := func(args ...string) (string, error) {
		c, err := Parse(args, io.Discard)
		if err != nil {
			return "", err
		}
		return c.DatabaseURL, nil
	}
	must := func(want string, args ...string) {
		t.Helper()
		url, err := parse(args...)
		require.NoError(t, err)
		require.Equal(t, want, url)
	}
	t.Setenv("DATABASE_URL", "")
	must("postgres://u:fromconf@h/d", "--config="+file)
	must("postgres://u:fromfile@h/d", "--config="+file, "--database-url-file="+secret)
	t.Setenv("DATABASE_URL_FILE", secret)
	must("postgres://u:fromfile@h/d", "--config="+file)
	must("x", "--database-url=x")
	must("", "--database-url=")
	status, out, errs := checked(t, "--data="+t.TempDir())
	require.Equal(t, exitOK, status, errs)
	require.Regexp(t, `(?m)^database-url-file = `+secret+` +# DATABASE_URL_FILE$`, out)
	require.NotRegexp(t, `(?m)^database-url =`, out, "the URL comes from the file")
	t.Setenv("DATABASE_URL", "postgres://u:fromenv@h/d")
	_, err := parse()
	require.EqualError(t, err, "DATABASE_URL and DATABASE_URL_FILE: only one of them can be given")
	t.Setenv("DATABASE_URL_FILE", "")
	t.Setenv("OUTCRY_DATABASE_URL", "postgres://u:ours@h/d")
	must("postgres://u:ours@h/d", "--config="+file)
	_, err = parse("--database-url-file=" + writeFile(t, "empty", "\n"))
	require.ErrorContains(t, err, "empty is empty")
	_, err = parse("--database-url-file=/nowhere/url")
	require.ErrorContains(t, err, "/nowhere/url")
}

// The exit statuses of the server for valid and invalid settings.
const (
	exitOK    = 0
	exitUsage = 2
)

// checked runs --check-config, and returns the exit status and the output.
func checked(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c, err := Parse(append([]string{"--check-config"}, args...), &errs)
	if err != nil {
		return exitUsage, "", errs.String() + err.Error()
	}
	checks := Checks{
		Data:        func(c *Config) error { return refusedIf(strings.HasSuffix(c.Data, "refused")) },
		DatabaseURL: func(url string) error { return refusedIf(url == "refused") },
	}
	if !c.Print(t.Context(), checks, &out, &errs) {
		status = exitUsage
	}
	return status, out.String(), errs.String()
}

// refusedIf returns an error if refused.
func refusedIf(refused bool) error {
	if refused {
		return errors.New("refused by a check")
	}
	return nil
}

func TestCheckConfigPrintsWhatIsInForceAndTouchesNothing(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	data := filepath.Join(t.TempDir(), "deep", "data")
	file := writeFile(t, "outcryd.conf", "max-lag = 5000\ndatabase-url = postgres://u:verysecret@h/d\n")
	status, out, errs := checked(t, "--config="+file, "--data="+data, "--listen=127.0.0.1:0")
	require.Equal(t, exitOK, status, errs)
	require.Regexp(t, `(?m)^max-lag = 5000 +# `+file+`:1$`, out)
	require.Regexp(t, `(?m)^data = `+data+` +# --data$`, out)
	require.Regexp(t, `(?m)^max-frame = 4194304 +# default$`, out)
	require.Regexp(t, `(?m)^database-url = … +# `+file+`:2$`, out)
	require.NotContains(t, out+errs, "verysecret")
	require.NoDirExists(t, filepath.Dir(data))

	// The output is itself a file of settings, except for the secret.
	again := writeFile(t, "again.conf", strings.ReplaceAll(out, "…", "postgres://u:verysecret@h/d"))
	before, err := Parse([]string{"--config=" + file, "--data=" + data, "--listen=127.0.0.1:0"}, io.Discard)
	require.NoError(t, err)
	after, err := Parse([]string{"--config=" + again}, io.Discard)
	require.NoError(t, err)
	for name, s := range before.settings {
		if name != "config" {
			require.Equal(t, s.value, after.settings[name].value, name)
		}
	}
}

func TestCheckConfigFindsWhatDoesNotFitTheMachine(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	plain := writeFile(t, "plain", "x")
	for _, c := range []struct{ flag, wrong string }{
		{"--listen=127.0.0.1:", "--listen \"127.0.0.1:\": the port after the colon is missing"},
		{"--listen=nobody.invalid", "--listen \"nobody.invalid:12345\": "},
		{"--http=127.0.0.1:99999", "--http \"127.0.0.1:99999\": "},
		{"--http=127.0.0.1:12345", "same address as --listen"},
		{"--data=" + plain, "is not a directory"},
		{"--data=" + plain + "/below", "not a directory"},
		{"--data=" + t.TempDir() + "/refused", "outcryd: refused by a check"},
		{"--database-url=refused", "outcryd: --database-url: refused by a check"},
		{"--max-frame=1", "--max-frame 1: must be"},
		{"--no-such-flag", "unknown flag --no-such-flag"},
	} {
		status, out, errs := checked(t, "--data="+t.TempDir(), c.flag)
		require.Equal(t, exitUsage, status, c.flag)
		require.Contains(t, errs, c.wrong)
		require.NotContains(t, out+errs, "verysecret")
	}
}

func TestAPasswordThatEverybodyCanReadIsWarnedOf(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	for name, text := range map[string]string{"url": "postgres://u:p@h/d",
		"outcryd.conf": "database-url = postgres://u:p@h/d"} {
		flag := "--database-url-file="
		if name == "outcryd.conf" {
			flag = "--config="
		}
		path := writeFile(t, name, text)
		c, err := Parse([]string{flag + path}, io.Discard)
		require.NoError(t, err)
		require.NotContains(t, strings.Join(c.Warnings, "\n"), path)
		require.NoError(t, os.Chmod(path, 0o644))
		c, err = Parse([]string{flag + path}, io.Discard)
		require.NoError(t, err)
		require.Contains(t, c.Warnings, path+" holds a password, and everyone on this machine can read it: chmod o-r")
	}
}

func TestHelpTellsNoSecret(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://u:verysecret@h/d")
	t.Setenv("OUTCRY_DATABASE_URL", "postgres://u:verysecret@h/d")
	var help bytes.Buffer
	_, err := Parse([]string{"--help"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, help.String(), "--config")
	require.NotContains(t, help.String(), "verysecret")
}

func FuzzConfigFile(f *testing.F) {
	f.Add([]byte("max-lag = 5 # five\n"))
	f.Add([]byte("data = \"a\\x00\\\"b\" #\nhttp=\n\n=\n\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		flags := new(Config).flags()
		all, err := parseConfigFile("f", text, flags)
		if err != nil {
			return
		}
		// The settings are the same after they are written and read again.
		var again []byte
		for _, g := range all {
			again = append(appendSetting(again, g.flag, g.value), '\n')
		}
		read, err := parseConfigFile("f", again, flags)
		require.NoError(t, err, "%q", again)
		require.Len(t, read, len(all))
		for i := range all {
			require.Equal(t, all[i].value, read[i].value)
			require.Equal(t, all[i].flag, read[i].flag)
		}
	})
}

func TestNothingIsSuggestedForWhatIsLikeNothing(t *testing.T) {
	require.Empty(t, Suggest("zzz", []string{"listen", "http"}))
	require.Equal(t, "; is http meant?", Suggest("htp", []string{"listen", "http"}))
	require.Zero(t, editDistance("same", "same"))
	require.Equal(t, 3, editDistance("kitten", "sitting"))
	require.Equal(t, 4, editDistance("", "four"))
}

func TestOriginsAreThoseThatBrowsersSend(t *testing.T) {
	for text, want := range map[string][]string{
		"":                     nil,
		"https://desk.example": {"https://desk.example"},
		"http://127.0.0.1:3000, https://desk.example": {"http://127.0.0.1:3000", "https://desk.example"},
	} {
		c := Config{CORSOrigins: text}
		require.NoError(t, c.checkSecurity())
		require.Equal(t, want, c.Origins())
	}
	for _, text := range []string{"*", "null", "desk.example", "https://desk.example/", "https://*.example",
		"HTTPS://desk.example", "https://Desk.example", "https://desk.example:443", "http://a:80", "https://a@b", "ftp://a",
		"https://a,", "https://a:", "https://a b", "https://a?x", "https://"} {
		require.ErrorContains(t, (&Config{CORSOrigins: text}).checkSecurity(), "is not an origin as browsers send it", text)
	}
}
