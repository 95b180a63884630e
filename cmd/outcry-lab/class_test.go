package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
	"outcry/internal/auth"
	"outcry/internal/testing/exchangetest"
)

// classOf starts an exchange that requires tokens, and returns its data directory, a path for the class's
// file, and the exchange. Nothing is written to the test's working directory.
func classOf(t *testing.T) (data, file string, p *exchangetest.Process) {
	t.Helper()
	dir := t.TempDir()
	data, file = filepath.Join(dir, "data"), filepath.Join(dir, "class.csv")
	return data, file, exchangetest.Start(t, data, "", "--auth")
}

// tokensOf returns the tokens of a class, by account.
func tokensOf(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"account", "token"}, lines[0])
	tokens := map[string]string{}
	for _, line := range lines[1:] {
		tokens[line[0]] = line[1]
	}
	return tokens
}

// as connects a client that presents a token.
func as(t *testing.T, addr, token string) *api.Client {
	t.Helper()
	c, err := api.Dial(t.Context(), addr, api.Options{Token: token})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestAClassTradesAndBeginsAnew: each student trades with a token. After a reset the tokens are the same and
// everything else is new; the old data is kept completely.
func TestAClassTradesAndBeginsAnew(t *testing.T) {
	data, file, p := classOf(t)
	make3 := func() (string, string, int) {
		return lab("", "class", "new", "3", "--cash=10000", "--shares=SPY=100,QQQ=2.5", "--data="+data, "--csv="+file,
			"--addr="+p.Addr)
	}
	out, stderr, status := make3()
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Equal(t, "3 accounts, 1 to 3, each with 10000 dollars, 100 SPY and 2.5 QQQ\n"+
		"tokens are in "+file+", which only you can read; the first is yours, of scope admin\n", out)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	tokens := tokensOf(t, file)
	require.Len(t, tokens, 4)

	again, stderr, status := make3()
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Equal(t, out, again)
	require.Equal(t, tokens, tokensOf(t, file))
	listed, err := auth.List(data)
	require.NoError(t, err)
	require.Len(t, listed, 4)

	one, two := as(t, p.Addr, tokens["1"]), as(t, p.Addr, tokens["2"])
	_, err = two.Sell(t.Context(), "2", "SPY", api.Whole(10), api.Whole(50))
	require.NoError(t, err)
	_, err = one.Buy(t.Context(), "1", "SPY", api.Whole(10), api.Whole(50))
	require.NoError(t, err)
	_, err = one.Buy(t.Context(), "2", "SPY", api.Whole(10), api.Whole(50))
	require.ErrorContains(t, err, "the token of this connection is not for account 2")
	shown := func(id string) *api.Account {
		results, err := as(t, p.Addr, tokens["teacher"]).Do(t.Context(), api.ShowAccount(id))
		require.NoError(t, err)
		require.NoError(t, results[0].Err())
		return results[0].Account
	}
	require.EqualValues(t, "9500", shown("1").Balance)

	_, stderr, status = lab("", "class", "reset", "--data="+data, "--yes")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "stop the exchange first")
	p.Stop()
	for _, answer := range []string{"", "no\n", strings.Repeat("yes", 1000)} {
		_, stderr, status = lab(answer, "class", "reset", "--data="+data)
		require.Equal(t, cli.ExitError, status)
		require.Contains(t, stderr, "not confirmed: nothing is changed")
	}
	before, err := os.ReadFile(filepath.Join(data, auth.TokensFile))
	require.NoError(t, err)
	out, stderr, status = lab("yes\n", "class", "reset", "--data="+data)
	require.Equal(t, cli.ExitOK, status, stderr)
	kept, err := filepath.Glob(data + "-*")
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.Contains(t, out, "kept   "+kept[0]+"; outcryd --data "+kept[0]+" starts it again\n")
	after, err := os.ReadFile(filepath.Join(data, auth.TokensFile))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	exchangetest.Verify(t, kept[0])

	_, stderr, status = lab("yes\n", "class", "reset", "--data="+data)
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "nothing to reset")

	p = exchangetest.Start(t, data, "", "--auth")
	_, stderr, status = make3()
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Equal(t, tokens, tokensOf(t, file))
	require.EqualValues(t, "10000", shown("1").Balance)
	require.Equal(t, "100", shown("2").Positions[1].Shares.String())
	_, err = as(t, p.Addr, tokens["2"]).Sell(t.Context(), "2", "SPY", api.Whole(10), api.Whole(50))
	require.NoError(t, err)
}

// TestAClassIsMadeWholeOrNotAtAll: if an account exists already, the error names it and nothing changes.
func TestAClassIsMadeWholeOrNotAtAll(t *testing.T) {
	data, file, p := classOf(t)
	class := func(args ...string) (string, int) {
		_, stderr, status := lab("", append([]string{"class", "new", "--data=" + data, "--csv=" + file,
			"--addr=" + p.Addr}, args...)...)
		return stderr, status
	}
	admin, _, err := auth.Add(data, mustScope(t, "admin"), time.Time{}, "mine")
	require.NoError(t, err)
	mine := known(t, p.Addr, admin)
	require.NoError(t, mine.OpenAccount(t.Context(), "7", api.Whole(5)))

	stderr, status := class("9", "--cash=100")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "account 7 already exists, and 0 of the others exist too; nothing was changed")
	require.NoFileExists(t, file)
	listed, err := auth.List(data)
	require.NoError(t, err)
	require.Len(t, listed, 1, "the class's tokens are gone again")
	results, err := mine.Do(t.Context(), api.ShowAccount("1"))
	require.NoError(t, err)
	require.ErrorContains(t, results[0].Err(), "there is no account 1")

	stderr, status = class("2", "--cash=100", "--first=10", "--shares=SPY=1")
	require.Equal(t, cli.ExitOK, status, stderr)
	tokens := tokensOf(t, file)

	stderr, status = class("3", "--cash=100", "--first=10")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, file+" belongs to a class with 2 accounts, 10 to 11: give the same numbers")
	stderr, status = class("2", "--cash=101", "--first=10")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, file+" belongs to a class that was opened with other cash or shares: give the same")
	require.NotContains(t, stderr, "run the same command again")
	require.Equal(t, tokens, tokensOf(t, file))

	require.NoError(t, os.WriteFile(file, []byte("my,own\nfile,\n"), 0o600))
	stderr, status = class("2", "--cash=100", "--first=10")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "is not the file of a class")
}

// TestAClassGoesOnWhereItWasInterrupted: the class's file exists, but some accounts and shares are missing; class
// new adds them.
func TestAClassGoesOnWhereItWasInterrupted(t *testing.T) {
	data, file, p := classOf(t)
	lines := "account,token\n"
	class := []auth.Issued{{Token: auth.NewToken(), Scope: mustScope(t, "admin"), Note: "teacher"}}
	for _, account := range []string{"1", "2", "3"} {
		class = append(class, auth.Issued{Token: auth.NewToken(), Scope: mustScope(t, "account:"+account), Note: account})
	}
	for _, one := range class {
		lines += one.Note + "," + one.Token + "\n"
	}
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	run := func() {
		t.Helper()
		_, stderr, status := lab("", "class", "new", "3", "--cash=50", "--shares=A=1", "--data="+data, "--csv="+file,
			"--addr="+p.Addr)
		require.Equal(t, cli.ExitOK, status, stderr)
		c := as(t, p.Addr, class[0].Token)
		for _, id := range []string{"1", "2", "3"} {
			results, err := c.Do(t.Context(), api.ShowAccount(id))
			require.NoError(t, err)
			require.NoError(t, results[0].Err())
			require.EqualValues(t, "50", results[0].Account.Balance)
			require.Equal(t, "1", results[0].Account.Positions[0].Shares.String())
		}
	}
	_, err := auth.AddAll(data, class)
	require.NoError(t, err)
	c := known(t, p.Addr, class[0].Token)
	results, err := c.Do(t.Context(), api.OpenAccount("1", api.Whole(50)).WithRef("class"))
	require.NoError(t, err)
	require.NoError(t, results[0].Err())
	run() // one account of three exists, and no shares
	require.NoError(t, auth.RevokeAll(data, class[2:3]))
	out, stderr, status := lab("", "class", "new", "3", "--cash=50", "--shares=A=1", "--data="+data, "--csv="+file,
		"--addr="+p.Addr)
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Contains(t, out, "some of them were revoked, and stay revoked")
}

// TestAResetGoesOnWhereItWasInterrupted: a reset that was interrupted between its two renames is finished by the
// next reset.
func TestAResetGoesOnWhereItWasInterrupted(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(data+".new", 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data+".new", auth.TokensFile), []byte("outcry tokens 1\n"), 0o600))
	out, stderr, status := lab("", "class", "reset", "--data="+data)
	require.Equal(t, cli.ExitOK, status, stderr)
	require.Contains(t, out, "an earlier reset is completed")
	require.FileExists(t, filepath.Join(data, auth.TokensFile))
}

// TestWhatCannotBeResetIsNamed: a reset that is impossible fails with the reason and leaves the data directory in
// place.
func TestWhatCannotBeResetIsNamed(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for _, step := range []struct{ make, want string }{
		{"", "there is no data directory"},
		{".", "no exchange in"},
		{"raft", "belongs to a node of a cluster"},
	} {
		if step.make != "" {
			require.NoError(t, os.MkdirAll(filepath.Join(data, step.make), 0o700))
		}
		_, stderr, status := lab("", "class", "reset", "--yes", "--data="+data)
		require.Equal(t, cli.ExitError, status)
		require.Contains(t, stderr, step.want)
	}
	_, stderr, status := lab("", "class", "reset", "--yes", "--data="+data, "--database-url=postgres://x/y")
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "has a database elsewhere")
	require.DirExists(t, data)
}

func TestAClassOfWhomTheExchangeAsksNothingIsRefused(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := exchangetest.Start(t, data, "")
	file := filepath.Join(t.TempDir(), "class.csv")
	_, stderr, status := lab("", "class", "new", "3", "--cash=1", "--data="+data, "--csv="+file, "--addr="+p.Addr)
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "start it with --auth")
	require.NoFileExists(t, file)
}

// TestTokensOfAnotherDirectoryAreTakenBack: the exchange uses another data directory and does not know the new
// tokens, so class new removes them.
func TestTokensOfAnotherDirectoryAreTakenBack(t *testing.T) {
	_, file, p := classOf(t)
	other := t.TempDir()
	_, stderr, status := lab("", "class", "new", "3", "--cash=1", "--data="+other, "--csv="+file, "--addr="+p.Addr)
	require.Equal(t, cli.ExitError, status)
	require.Contains(t, stderr, "is "+other+" the data directory of this exchange")
	require.NoFileExists(t, file)
	listed, err := auth.List(other)
	require.NoError(t, err)
	require.Empty(t, listed)
}

func TestWhatAClassIsToldIsChecked(t *testing.T) {
	for args, text := range map[string]string{
		"0 --cash 1":                  "class new 0: must be 1 to 1000 students",
		"x --cash 1":                  "class new x: must be 1 to 1000 students",
		"3":                           "--cash is missing",
		"3 --cash -1":                 "--cash: -1 is negative",
		"3 --cash 1 --shares SPY":     `--shares: "SPY" is not SYM=N`,
		"3 --cash 1 --shares SPY=0":   `--shares: "SPY=0": the number of shares must be positive`,
		"3 --cash 1 --shares A-B=1":   "--shares: symbol",
		"3 --cash 1 --shares A=1,A=2": "--shares: A is given twice",
		"3 --cash 1 --first 0":        "--first 0: must be from 1",
	} {
		_, stderr, status := lab("", append([]string{"class", "new"}, strings.Fields(args)...)...)
		require.Equal(t, cli.ExitUsage, status, args)
		require.Contains(t, stderr, "outcry-lab: "+text, args)
	}
}

// known connects with a new token, once the exchange has read it.
func known(t *testing.T, addr, token string) (c *api.Client) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		var err error
		c, err = api.Dial(t.Context(), addr, api.Options{Token: token})
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mustScope(t *testing.T, text string) auth.Scope {
	t.Helper()
	scope, err := auth.ParseScope(text)
	require.NoError(t, err)
	return scope
}
