package auth

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/certtest"
)

// lockedLog is a log that a test may read while others write to it.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Files are checked for changes all the time, but read only when they have changed.
func TestFilesThatStayAsTheyAreAreReadOnce(t *testing.T) {
	own := certtest.NewAuthority(t).Server("server")
	synctest.Test(t, func(t *testing.T) {
		var log lockedLog
		c, err := LoadCertificates(own.CertFile, own.KeyFile, "", slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			c.Run(ctx)
			close(ended)
		}()
		read := func() int { return strings.Count(log.String(), "certificates are reloaded") }
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, read())
		now := time.Now()
		require.NoError(t, os.Chtimes(own.CertFile, now, now))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, read(), "a changed file is read once")
		cancel()
		<-ended
	})
}

// Revoking in a folder without tokens, perhaps a wrong one, is an error and creates nothing there.
func TestNothingIsRevokedWhereThereAreNoTokens(t *testing.T) {
	dir := t.TempDir()
	err := Revoke(dir, "0123456789abcdef")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, filepath.Join(dir, TokensFile))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A faulty file is logged once, when it is found, and not on every check.
func TestAFileThatIsWrongIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var log lockedLog
		tokens, err := OpenTokens(dir, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			tokens.Run(ctx)
			close(ended)
		}()
		require.NoError(t, os.WriteFile(filepath.Join(dir, TokensFile), []byte("no tokens\n"), 0o600))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())
		require.Contains(t, log.String(), filepath.Join(dir, TokensFile))
		cancel()
		<-ended
	})
}

// A token whose time is over is refused even if its timer has not fired, as after the clock was set. Here the
// file has an earlier time than the timer.
func TestATokenThatHasExpiredIsNotTakenWhateverItsTimerSays(t *testing.T) {
	tokens, err := OpenTokens(t.TempDir(), quiet)
	require.NoError(t, err)
	token, e := newToken()
	e.Expires = time.Now().Add(time.Hour)
	tokens.replace([]Entry{e})
	g, err := tokens.Check(token)
	require.NoError(t, err)
	g.entry.Expires = time.Now().Add(-time.Second)
	_, err = tokens.Check(token)
	require.ErrorIs(t, err, ErrExpired)
	require.Equal(t, ErrExpired, g.Err(), "and what it began ends")
}

// IssueHealth fails if it cannot write the token: a server without it would start and then seem
// unhealthy.
func TestAServerWithoutATokenForItsHealthIsTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	tokens, err := OpenTokens(dir, quiet)
	require.NoError(t, err)
	require.NoError(t, os.Remove(dir))
	_, err = tokens.IssueHealth()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.Mkdir(dir, 0o700))
	remove, err := tokens.IssueHealth()
	require.NoError(t, err)
	remove()
}
