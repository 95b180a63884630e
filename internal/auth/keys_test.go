package auth

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A key is valid for one account. Its file contains the secret and can be read only by its owner.
func TestAKeyIsForOneAccountUntilItIsRevoked(t *testing.T) {
	dir := t.TempDir()
	secret, e, err := AddKey(dir, "7", time.Time{}, "bot")
	require.NoError(t, err)
	require.Len(t, secret, 64)
	info, err := os.Stat(filepath.Join(dir, KeysFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	all, err := ListKeys(dir)
	require.NoError(t, err)
	require.Equal(t, []Entry{e}, all)
	tokens, err := List(dir)
	require.NoError(t, err)
	require.Empty(t, tokens, "keys do not appear among tokens")

	k, err := OpenKeys(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, 1, k.Count())
	g, known, err := k.Check(e.ID)
	require.NoError(t, err)
	require.Equal(t, secret, known)
	require.True(t, g.Scope.ActsFor("7"))
	require.False(t, g.Scope.ActsFor("8"))
	require.False(t, g.Scope.Allows(Metrics))
	_, _, err = k.Check("0123456789abcdef")
	require.ErrorIs(t, err, ErrKeyUnknown)
	_, _, err = k.Check("x")
	require.ErrorIs(t, err, ErrKeyForm)
	_, _, err = k.Check(secret)
	require.ErrorIs(t, err, ErrKeyForm)

	require.NoError(t, Revoke(dir, e.ID))
	apply, err := k.Prepare()
	require.NoError(t, err)
	require.NoError(t, g.Err(), "nothing changes before apply")
	apply()
	require.ErrorIs(t, g.Err(), ErrRevoked)
	_, _, err = k.Check(e.ID)
	require.ErrorIs(t, err, ErrKeyUnknown)
	require.ErrorContains(t, Revoke(dir, e.ID), "there is no token "+e.ID)
}

// A key whose scope is not exactly one account is refused, and so is a file of tokens used as the file of keys.
func TestAKeyOfNotOneAccountIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	_, e, err := AddKey(dir, "7", time.Time{}, "")
	require.NoError(t, err)
	for _, text := range []string{"account:*", "account:1,2", "admin", "read"} {
		e.Scope = scope(t, text)
		_, err := kindKeys.parse(kindKeys.appendFile(nil, []Entry{e}))
		require.ErrorContains(t, err, "is not one account", text)
	}
	_, err = kindKeys.parse(kindTokens.appendFile(nil, nil))
	require.ErrorContains(t, err, `line 1: "outcry tokens 1" is not "outcry keys 1"`)
	_, _, err = AddKey(dir, "7", time.Now().Add(-time.Hour), "")
	require.ErrorContains(t, err, "has expired already")
}
