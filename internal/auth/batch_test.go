package auth

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// AddAll adds all of its tokens or none.
func TestTokensAreAddedTogetherOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	_, other, err := Add(dir, HealthScope, time.Time{}, "other")
	require.NoError(t, err)
	var class []Issued
	for _, text := range []string{"admin", "account:1", "account:2"} {
		scope, err := ParseScope(text)
		require.NoError(t, err)
		class = append(class, Issued{Token: NewToken(), Scope: scope, Note: text})
	}
	has, err := AddAll(dir, class)
	require.NoError(t, err)
	require.Equal(t, 3, has)
	all, err := List(dir)
	require.NoError(t, err)
	require.Len(t, all, 4)
	tokens, err := OpenTokens(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	grant, err := tokens.Check(class[1].Token)
	require.NoError(t, err)
	require.Equal(t, "account:1", grant.Scope.String())

	require.NoError(t, Revoke(dir, all[1].ID))
	has, err = AddAll(dir, class)
	require.NoError(t, err)
	require.Equal(t, 2, has, "a revoked token stays revoked")
	again, err := List(dir)
	require.NoError(t, err)
	require.Len(t, again, 3)

	before, err := os.ReadFile(filepath.Join(dir, TokensFile))
	require.NoError(t, err)
	fresh := Issued{Token: NewToken(), Scope: HealthScope}
	for _, bad := range []Issued{{Token: "outc_x", Scope: HealthScope},
		{Token: NewToken(), Scope: HealthScope, Note: "a\tb"}} {
		_, err = AddAll(dir, []Issued{fresh, bad})
		require.Error(t, err)
	}
	after, err := os.ReadFile(filepath.Join(dir, TokensFile))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	require.NoError(t, RevokeAll(dir, class))
	left, err := List(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, other.ID, left[0].ID)
}

// A file has at most 10,000 tokens. If a batch would exceed that, none of it is added.
func TestAFileOfTokensHasABound(t *testing.T) {
	dir := t.TempDir()
	many := make([]Issued, entriesMax+1)
	for i := range many {
		many[i] = Issued{Token: NewToken(), Scope: HealthScope}
	}
	_, err := AddAll(dir, many)
	require.ErrorContains(t, err, "there would be more than 10000: revoke some")
	_, err = os.Stat(filepath.Join(dir, TokensFile))
	require.ErrorIs(t, err, os.ErrNotExist)
	has, err := AddAll(dir, many[:2])
	require.NoError(t, err)
	require.Equal(t, 2, has)
	require.False(t, strings.Contains(NewToken(), " "))
}
