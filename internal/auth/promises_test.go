package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The figures in these tests are literals, as in the documentation, and not the constants of the code.

func TestTenWrongTokensAreFreeAndSixtyFourWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, err := OpenTokens(t.TempDir(), quiet)
		require.NoError(t, err)
		free, answered := 0, 0
		answers := make(chan bool, 200)
		for range cap(answers) {
			go func() {
				answer, slowed := tokens.Wrong(t.Context(), "192.0.2.1:1")
				if answer && !slowed {
					free++
				}
				answers <- answer
			}()
			synctest.Wait() // so that the requests arrive one after the other
		}
		for range cap(answers) {
			if <-answers {
				answered++
			}
		}
		require.Equal(t, 10, free)
		require.Equal(t, 10+64, answered)
	})
}

// The file, and Add, allow 10,000 tokens and no more.
func TestTenThousandTokensAreTaken(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, TokensFile)
	all := make([]Entry, 10_001)
	for i := range all {
		all[i] = Entry{ID: fmt.Sprintf("%016x", i), Scope: scope(t, "admin"), Created: time.Unix(1, 0).UTC()}
	}
	require.NoError(t, os.WriteFile(path, kindTokens.appendFile(nil, all), 0o600))
	_, err := List(dir)
	require.ErrorContains(t, err, "more than 10000 tokens")
	require.NoError(t, os.WriteFile(path, kindTokens.appendFile(nil, all[:9_999]), 0o600))
	add(t, dir, "admin", time.Time{})
	_, _, err = Add(dir, scope(t, "admin"), time.Time{}, "")
	require.ErrorContains(t, err, "there are 10000 tokens, which is the limit")
	found, err := List(dir)
	require.NoError(t, err)
	require.Len(t, found, 10_000)
}

func TestANoteHasTwoHundredCharacters(t *testing.T) {
	dir := t.TempDir()
	_, _, err := Add(dir, scope(t, "admin"), time.Time{}, strings.Repeat("ü", 200))
	require.NoError(t, err)
	_, _, err = Add(dir, scope(t, "admin"), time.Time{}, strings.Repeat("ü", 201))
	require.ErrorContains(t, err, "the note has 201 characters, the limit is 200")
}

// The owner of the data directory must not be able to choose, by a link, which file root opens, makes or
// gives away.
func TestRootWritesThroughNoLink(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	lock := filepath.Join(dir, lockFile)
	require.NoError(t, os.Symlink(other, lock))
	_, _, err := Add(dir, scope(t, "admin"), time.Time{}, "")
	require.ErrorContains(t, err, lockFile)
	require.NoFileExists(t, other)

	require.NoError(t, os.Remove(lock))
	require.NoError(t, os.WriteFile(other, []byte("kept"), 0o600))
	require.NoError(t, os.Link(other, lock))
	_, _, err = Add(dir, scope(t, "admin"), time.Time{}, "")
	if os.Geteuid() == 0 {
		require.ErrorContains(t, err, "is not a regular file, or has more than one hard link")
	} else {
		require.NoError(t, err, "without a link it succeeds")
	}
}
