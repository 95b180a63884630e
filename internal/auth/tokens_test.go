package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

var quiet = slog.New(slog.DiscardHandler)

// patience bounds waits that end immediately unless something is broken.
const patience = 20 * time.Second

func scope(t testing.TB, text string) Scope {
	t.Helper()
	s, err := ParseScope(text)
	require.NoError(t, err)
	return s
}

// add makes a token in a data directory.
func add(t testing.TB, dir, scopeText string, expires time.Time) (token, id string) {
	t.Helper()
	token, e, err := Add(dir, scope(t, scopeText), expires, "")
	require.NoError(t, err)
	return token, e.ID
}

// open reads the tokens of a data directory and follows them.
func open(t testing.TB, dir string) *Tokens {
	t.Helper()
	tokens, err := OpenTokens(dir, quiet)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { tokens.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return tokens
}

func TestScopesAllowWhatTheySay(t *testing.T) {
	all := []Right{Probe, Market, Orders, Metrics, Trade, Operate, Admin}
	for text, want := range map[string]struct {
		rights   []Right
		accounts []exchange.AccountID // those of accounts 1, 2 and 3 that the scope may trade for
	}{
		"admin":       {all, []exchange.AccountID{"1", "2", "3"}},
		"operate":     {[]Right{Probe, Market, Orders, Metrics, Operate}, nil},
		"read":        {[]Right{Probe, Market, Orders, Metrics}, nil},
		"health":      {[]Right{Probe}, nil},
		"account:*":   {[]Right{Probe, Market, Trade}, []exchange.AccountID{"1", "2", "3"}},
		"account:3,1": {[]Right{Probe, Market, Trade}, []exchange.AccountID{"1", "3"}},
		"account:11":  {[]Right{Probe, Market, Trade}, nil},
	} {
		s := scope(t, text)
		var rights []Right
		for _, r := range all {
			if s.Allows(r) {
				rights = append(rights, r)
			}
		}
		require.Equal(t, want.rights, rights, text)
		var accounts []exchange.AccountID
		for _, id := range []exchange.AccountID{"1", "2", "3"} {
			if s.ActsFor(id) {
				accounts = append(accounts, id)
			}
		}
		require.Equal(t, want.accounts, accounts, text)
		require.Equal(t, s, scope(t, s.String()), "String gives a text that ParseScope reads")
	}
	require.False(t, Scope{}.Allows(Probe))
	require.False(t, Scope{}.ActsFor("1"))
}

func TestWrongScopesAreNamed(t *testing.T) {
	for _, text := range []string{"", "root", "account", "account:", "account:x", "account:1,,2", "admin:1", "read:",
		"account:1 ,2", "account:-1",
		"account:" + strings.Repeat("1,", accountsMax) + "1"} {
		_, err := ParseScope(text)
		require.Error(t, err, text)
		require.Contains(t, err.Error(), "scope", text)
	}
}

func TestATokenIsTakenAndIsNotInTheFile(t *testing.T) {
	dir := t.TempDir()
	token, id := add(t, dir, "account:1", time.Time{})
	tokens := open(t, dir)
	g, err := tokens.Check(token)
	require.NoError(t, err)
	require.Equal(t, id, g.ID)
	require.Equal(t, "account:1", g.Scope.String())
	require.NoError(t, g.Err())
	require.Equal(t, 1, tokens.Count())
	file, err := os.ReadFile(filepath.Join(dir, TokensFile))
	require.NoError(t, err)
	require.NotContains(t, string(file), token[len(token)-64:])
	require.Contains(t, string(file), fmt.Sprintf("%x", sha256.Sum256([]byte(token))))
	info, err := os.Stat(filepath.Join(dir, TokensFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestWhatIsNoTokenIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	token, id := add(t, dir, "admin", time.Time{})
	other, _ := add(t, dir, "admin", time.Time{})
	tokens := open(t, dir)
	flipped := token[:len(token)-1] + map[bool]string{true: "1", false: "0"}[token[len(token)-1] == '0']
	for _, wrong := range []string{"", "outc_", id, token[1:], token + "0", " " + token, strings.ToUpper(token), flipped,
		// the id of one token and the secret of another
		token[:len(tokenPrefix)+idDigits+1] + other[len(tokenPrefix)+idDigits+1:],
		"outc_0000000000000000_" + token[len(token)-64:], strings.Repeat("x", tokenLen)} {
		g, err := tokens.Check(wrong)
		require.Error(t, err, wrong)
		require.Nil(t, g)
		require.NotContains(t, err.Error(), token[len(token)-64:len(token)-1], "an error does not quote a secret")
	}
}

func TestARevokedTokenEndsWithinASecond(t *testing.T) {
	dir := t.TempDir()
	token, id := add(t, dir, "admin", time.Time{})
	stays, _ := add(t, dir, "admin", time.Time{})
	tokens := open(t, dir)
	g, err := tokens.Check(token)
	require.NoError(t, err)
	kept, err := tokens.Check(stays)
	require.NoError(t, err)
	ended := make(chan error, 1)
	g.AfterEnd(func() { ended <- g.Err() })
	require.NoError(t, Revoke(dir, id))
	select {
	case err := <-ended:
		require.Equal(t, ErrRevoked, err)
	case <-time.After(patience):
		t.Fatal("it lasts")
	}
	_, err = tokens.Check(token)
	require.ErrorIs(t, err, errUnknown)
	require.NoError(t, kept.Err(), "other grants stay valid")
	again, err := tokens.Check(stays)
	require.NoError(t, err)
	require.Same(t, kept, again)
}

func TestAnExpiredTokenEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		token, _ := add(t, dir, "admin", time.Now().Add(time.Hour))
		tokens, err := OpenTokens(dir, quiet)
		require.NoError(t, err)
		g, err := tokens.Check(token)
		require.NoError(t, err)
		time.Sleep(time.Hour - time.Second)
		require.NoError(t, g.Err())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, ErrExpired, g.Err())
		_, err = tokens.Check(token)
		require.ErrorIs(t, err, ErrExpired)
		require.Zero(t, tokens.Count())
		_, _, err = Add(dir, HealthScope, time.Now(), "")
		require.ErrorContains(t, err, "has expired already")
	})
}

func TestATokenWhoseScopeChangesEnds(t *testing.T) {
	dir := t.TempDir()
	token, _ := add(t, dir, "admin", time.Time{})
	tokens, err := OpenTokens(dir, quiet)
	require.NoError(t, err)
	g, err := tokens.Check(token)
	require.NoError(t, err)
	path := filepath.Join(dir, TokensFile)
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(file), "\tadmin\t", "\tread\t", 1)), 0o600))
	require.NoError(t, tokens.Reload())
	require.Equal(t, ErrRevoked, g.Err())
	g, err = tokens.Check(token)
	require.NoError(t, err)
	require.Equal(t, "read", g.Scope.String())
}

func TestADamagedFileChangesNothingAndAMissingOneRevokesAll(t *testing.T) {
	dir := t.TempDir()
	token, _ := add(t, dir, "admin", time.Time{})
	tokens, err := OpenTokens(dir, quiet)
	require.NoError(t, err)
	path := filepath.Join(dir, TokensFile)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, file := range map[string]string{
		"empty":    "",
		"torn":     string(good[:len(good)-10]),
		"no end":   string(good[:len(good)-1]),
		"twice":    string(good) + strings.SplitN(string(good), "\n", 2)[1],
		"other":    strings.Replace(string(good), header, "outcry tokens 2", 1),
		"hash":     strings.Replace(string(good), "\tadmin", "0\tadmin", 1),
		"scope":    strings.Replace(string(good), "\tadmin", "\tadmiral", 1),
		"expires":  strings.Replace(string(good), "\t-\t", "\tsoon\t", 1),
		"too long": header + "\n" + strings.Repeat(" ", fileBytesMax),
	} {
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		require.Error(t, tokens.Reload(), name)
		_, err = tokens.Check(token)
		require.NoError(t, err, name)
		_, err = OpenTokens(dir, quiet)
		require.ErrorContains(t, err, path, "OpenTokens refuses it")
		_, _, err = Add(dir, HealthScope, time.Time{}, "")
		require.Error(t, err, "and so does Add")
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, file, string(now), "which leaves the file unchanged")
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, tokens.Reload())
	_, err = tokens.Check(token)
	require.ErrorIs(t, err, errUnknown)
}

func TestEditorsWaitForEachOther(t *testing.T) {
	dir := t.TempDir()
	var running sync.WaitGroup
	const editors = 20
	for i := range editors {
		running.Go(func() {
			_, e, err := Add(dir, HealthScope, time.Time{}, fmt.Sprintf("number %d", i))
			if err == nil && i%2 == 0 {
				err = Revoke(dir, e.ID)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	all, err := List(dir)
	require.NoError(t, err)
	require.Len(t, all, editors/2)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2, "only the tokens and the lock, no temporary file")
	require.ErrorContains(t, Revoke(dir, "0123456789abcdef"), "there is no token 0123456789abcdef")
	token, _ := newToken()
	err = Revoke(dir, token)
	require.ErrorContains(t, err, "give the id of the token")
	require.NotContains(t, err.Error(), token[:len(tokenPrefix)+idDigits+8])
	_, _, err = Add(dir, HealthScope, time.Time{}, "two\nlines")
	require.ErrorContains(t, err, "cannot be printed")
}

func TestTheHealthTokenIsForHealthAlone(t *testing.T) {
	dir := t.TempDir()
	token, err := HealthToken(dir)
	require.NoError(t, err)
	require.Empty(t, token)
	tokens := open(t, dir)
	remove, err := tokens.IssueHealth()
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, healthFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	token, err = HealthToken(dir)
	require.NoError(t, err)
	g, err := tokens.Check(token)
	require.NoError(t, err)
	require.Equal(t, HealthScope, g.Scope)
	require.Zero(t, tokens.Count(), "the health token does not count")
	require.NoError(t, tokens.Reload())
	require.NoError(t, g.Err(), "a reload of the file does not revoke it")
	remove()
	require.NoFileExists(t, filepath.Join(dir, healthFile))
	require.NoError(t, os.WriteFile(filepath.Join(dir, healthFile), []byte("secret?"), 0o600))
	_, err = HealthToken(dir)
	require.ErrorIs(t, err, errMalformed)
	require.NotContains(t, err.Error(), "secret?")
}

func TestWrongTokensOfOneAddressAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, err := OpenTokens(t.TempDir(), quiet)
		require.NoError(t, err)
		wrong := func(address string) (answer, slowed bool, took time.Duration) {
			begun := time.Now()
			answer, slowed = tokens.Wrong(t.Context(), address)
			return answer, slowed, time.Since(begun)
		}
		for range guessFree {
			answer, slowed, took := wrong("192.0.2.1:1000")
			require.True(t, answer)
			require.False(t, slowed)
			require.Zero(t, took)
		}
		answer, slowed, took := wrong("192.0.2.1:2000")
		require.True(t, answer)
		require.True(t, slowed, "another port is the same address")
		require.Equal(t, guessWait, took)
		// After the wait, one guess is free again. Of many clients at once, a bounded number waits.
		_, slowed, _ = wrong("192.0.2.1:1")
		require.False(t, slowed)
		answers := make(chan bool, 200)
		for range cap(answers) {
			go func() { a, _, _ := wrong("192.0.2.1:1"); answers <- a }()
		}
		answered := 0
		for range cap(answers) {
			if <-answers {
				answered++
			}
		}
		require.Equal(t, guessersMax, answered)
		time.Sleep(guessFree * guessEvery)
		_, slowed, _ = wrong("192.0.2.1:1")
		require.False(t, slowed, "after a while the allowance is full again")
	})
}

func TestOneNetworkIsOneGuesser(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "pipe": "pipe",
	} {
		require.Equal(t, want, networkOf(address))
	}
}

func FuzzTokenFile(f *testing.F) {
	_, e := newToken()
	e.Scope, e.Created, e.Note = Scope{name: scopeAccount, accounts: []exchange.AccountID{"1", "2"}}, time.Unix(1e9, 0),
		"a note"
	f.Add(kindTokens.appendFile(nil, []Entry{e}))
	f.Add([]byte(header + "\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, file []byte) {
		all, err := parseFile(file)
		if err != nil {
			return
		}
		written := kindTokens.appendFile(nil, all)
		again, err := parseFile(written)
		require.NoError(t, err, "a file that was read can be written again")
		require.Equal(t, string(written), string(kindTokens.appendFile(nil, again)))
	})
}

func FuzzToken(f *testing.F) {
	token, _ := newToken()
	f.Add(token)
	f.Add("outc__")
	f.Add(" " + token + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		clean, err := CleanToken(text)
		if err != nil {
			require.NotContains(t, err.Error(), token)
			return
		}
		id, err := splitToken(clean)
		require.NoError(t, err)
		require.Contains(t, text, tokenPrefix+id+"_")
		require.Len(t, clean, tokenLen)
	})
}
