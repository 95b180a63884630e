package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/certtest"
	"outcry/internal/testing/exchangetest"
)

// TestTokensStepByStep protects an exchange as a user would: it makes a token, trades with it, and revokes it.
func TestTokensStepByStep(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	data := filepath.Join(t.TempDir(), "data")
	authority := certtest.NewAuthority(t)
	own, mine := authority.Server("server"), authority.Client("me")
	add := func(scope string) (file, id string) {
		token, said, status := outcry("", "token", "add", "--data", data, "--scope", scope, "--note", "for a test")
		require.Equal(t, cli.ExitOK, status, said)
		require.Regexp(t, `^outc_[0-9a-f]{16}_[0-9a-f]{64}\n$`, token)
		id = token[5:21]
		require.Equal(t, "token "+id+" for "+scope+", expires never; it cannot be shown again\n", said)
		file = filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
		return file, id
	}
	for _, what := range []string{"--scope=admin", "--hmac=1"} {
		_, said, status := outcry("", "token", "add", "--data", data, what)
		require.Equal(t, cli.ExitError, status)
		require.Equal(t, "outcry: there is no data directory "+data+"\n", said)
		require.NoDirExists(t, data, "a slip of the pen would make tokens for nobody")
	}
	require.NoError(t, os.Mkdir(data, 0o700))
	admin, _ := add("admin")
	p := exchangetest.Start(t, data, "", "--http=127.0.0.1:0", "--auth", "--tls-cert="+own.CertFile,
		"--tls-key="+own.KeyFile, "--tls-client-ca="+authority.File)
	t.Setenv("OUTCRY_ADDR", p.Addr)
	t.Setenv("OUTCRY_TLS_CA", authority.File)
	t.Setenv("OUTCRY_CLIENT_CERT", mine.CertFile)
	t.Setenv("OUTCRY_CLIENT_KEY", mine.KeyFile)
	_, said, status := outcry("", "buy", "--ref", "r", "1", "SPY", "1", "2")
	require.Equal(t, cli.ExitError, status, "at once, or the status is that of no reply")
	require.Contains(t, said, "nothing has changed: no token was presented: this exchange takes <auth")
	require.Contains(t, said, "; give a token with --token-file\n")
	trader, id := add("account:1") // while the exchange is running
	as := func(file string, args ...string) (stdout, stderr string, status int) {
		return outcry("", append([]string{"--token-file", file}, args...)...)
	}
	got, said, _ := as(admin, "account", "1", "1000")
	require.Equal(t, "account 1 opened\n", got, said)
	_, _, _ = as(admin, "symbol", "SPY")
	require.Eventually(t, func() bool { // the exchange must read the token first
		got, _, _ = as(trader, "buy", "1", "SPY", "1", "2")
		return got == "order 1 buys 1 SPY at 2\n"
	}, time.Minute, 20*time.Millisecond)
	got, _, _ = as(trader, "symbol", "QQQ")
	require.Equal(t, "error: <create> needs a token of scope admin\n", got)

	got, _, _ = as(admin, "--http="+p.Http, "doctor", "--data="+data, "--database-url=")
	require.Regexp(t, `(?m)^ok +server +/readyz says 200: ready$`, got)
	require.Regexp(t, `(?m)^ok +server's journal`, got)
	got, _, _ = as(trader, "doctor", "--http="+p.Http, "--data="+data, "--database-url=")
	require.Regexp(t, `(?m)^warn +server version +/metrics answers 403: the token may not read it$`, got)

	list, _, status := outcry("", "token", "list", "--data", data)
	require.Equal(t, cli.ExitOK, status)
	require.Contains(t, list, id+"  account:1  created T  expires never  for a test\n")
	token, err := os.ReadFile(trader)
	require.NoError(t, err)
	require.NotContains(t, list, strings.TrimSpace(string(token))[22:])
	t.Setenv("OUTCRY_TOKEN", string(token))
	got, _, _ = outcry("", "query", "1", "1")
	require.Equal(t, "order 1\n  open      1\n", got)

	got, _, status = outcry("", "token", "revoke", "--data", data, id)
	require.Equal(t, cli.ExitOK, status)
	require.Equal(t, "token "+id+" revoked\n", got)
	require.Eventually(t, func() bool {
		_, said, status = outcry("", "query", "1", "1")
		return status == cli.ExitError && strings.Contains(said, "the token is refused: this exchange takes <auth")
	}, time.Minute, 20*time.Millisecond)

	t.Setenv("OUTCRY_TLS_CA", certtest.NewAuthority(t).File)
	_, said, status = as(admin, "symbol", "A")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, said, "certificate signed by unknown authority")
}

func TestWrongUsesOfTokensAreNamed(t *testing.T) {
	data := t.TempDir()
	for args, want := range map[string]string{
		"token":                                             "token takes add, list or revoke",
		"token sell":                                        `not "sell"`,
		"token add --scope=king":                            "is not one of admin, operate",
		"token add --scope=admin x":                         "token add takes no arguments, not 1",
		"token add --scope=admin --expires=soon":            `--expires "soon" is neither`,
		"token revoke":                                      "token revoke: ID is missing",
		"--tls-cert=a symbol A":                             "need --tls-ca",
		"--tls-ca=../../go.mod --tls-key=a symbol A":        "there is no certificate in",
		"--token-file=../../go.mod symbol A":                "not a token",
		"token add --scope=admin --expires=-1h --data=DATA": "has expired already",
		"token revoke --data=DATA 0123456789abcdef":         "no such file",
	} {
		_, stderr, status := outcry("", strings.Fields(strings.ReplaceAll(args, "DATA", data))...)
		require.NotEqual(t, cli.ExitOK, status, args)
		require.Contains(t, stderr, want, args)
	}
	t.Setenv("OUTCRY_TOKEN", "outc_secret")
	_, stderr, status := outcry("", "symbol", "A")
	require.Equal(t, cli.ExitError, status)
	require.Equal(t, "outcry: OUTCRY_TOKEN: not a token\n", stderr)
	for _, help := range [][]string{{"--help"}, {"token", "add", "--help"}} {
		stdout, stderr, status := outcry("", help...)
		require.Equal(t, cli.ExitOK, status)
		require.Contains(t, stdout, "Usage: outcry ")
		require.NotContains(t, stdout+stderr, "outc_secret")
	}
}
