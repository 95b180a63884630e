package auth

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/certtest"
)

// A reload reads the file. Then the token is revoked, and the follower of the file applies that. Then the
// reload applies what it has read, which must not bring the token back.
func TestATokenThatWasRevokedDoesNotComeBackWithAnOlderReading(t *testing.T) {
	dir := t.TempDir()
	token, id := add(t, dir, "admin", time.Time{})
	tokens, err := OpenTokens(dir, quiet)
	require.NoError(t, err)
	older, err := tokens.Prepare()
	require.NoError(t, err)
	require.NoError(t, Revoke(dir, id))
	_, err = tokens.Check(token)
	require.NoError(t, err, "the revocation has not been read yet")
	require.NoError(t, tokens.Reload())
	older()
	_, err = tokens.Check(token)
	require.ErrorIs(t, err, errUnknown)
}

func TestWhyAFileIsNotTakenIsKnownUntilItIs(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, "admin", time.Time{})
	tokens, err := OpenTokens(dir, quiet)
	require.NoError(t, err)
	require.NoError(t, tokens.Failed())
	path := filepath.Join(dir, TokensFile)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("rubbish"), 0o600))
	require.Error(t, tokens.Reload())
	require.ErrorContains(t, tokens.Failed(), path)
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.NoError(t, tokens.Reload())
	require.NoError(t, tokens.Failed())
}

// TestFilesThatWereAwayAreReadAgain removes files and restores them unchanged, so that only the failed reading
// shows that they must be read again.
func TestFilesThatWereAwayAreReadAgain(t *testing.T) {
	own := certtest.NewAuthority(t).Server("server")
	c := certify(t, own, "")
	dir := filepath.Dir(own.CertFile)
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.Eventually(t, func() bool { return c.Failed() != nil }, patience, time.Millisecond)
	require.NoError(t, os.Rename(dir+".away", dir))
	require.Eventually(t, func() bool { return c.Failed() == nil }, patience, time.Millisecond)
}

func TestFilesAreReadOneAfterTheOther(t *testing.T) {
	var r readings
	begun, end, second, done := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var put []int
	go func() {
		apply, _ := r.prepare(func() (func(), error) {
			close(begun)
			<-end
			return func() { put = append(put, 1) }, nil
		})
		<-second
		apply()
		close(done)
	}()
	<-begun
	require.False(t, r.mu.TryLock(), "mu is held while read runs")
	close(end)
	apply, err := r.prepare(func() (func(), error) { return func() { put = append(put, 2) }, nil })
	require.NoError(t, err)
	apply()
	close(second)
	<-done
	require.Equal(t, []int{2}, put, "the earlier reading is not applied after the later one")
	_, err = r.prepare(func() (func(), error) { return nil, errors.New("unreadable") })
	require.EqualError(t, err, "unreadable")
	require.EqualError(t, r.failed(), "unreadable")
}
