package auth

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// The bounds have the values that the documentation names. Other tests check what each bound does.
func TestBoundsAreTheDocumentedOnes(t *testing.T) {
	require.NoError(t, doctest.Bounds("../../docs/reference/BOUNDS.md", map[string][]string{
		"`guessersMax`": {fmt.Sprintf("%d, then one a second", guessFree), "a second later"},
	}))
	require.Equal(t, time.Second, guessEvery)
	require.Equal(t, time.Second, guessWait)
	require.Equal(t, 64, guessersMax)
	require.LessOrEqual(t, followEvery, time.Second/2, "a change of the file takes effect within half a second")
}

// A scope of exactly a thousand accounts and a file of exactly eight megabytes are accepted as far as the
// size is concerned, and larger ones are refused.
func TestWhatFitsExactlyIsTaken(t *testing.T) {
	accounts := "account:1" + strings.Repeat(",1", 999)
	_, err := ParseScope(accounts)
	require.NoError(t, err)
	_, err = ParseScope(accounts + ",1")
	require.ErrorContains(t, err, "a scope of 1001 accounts: at most 1000 may be named")

	file := []byte(header + "\n" + strings.Repeat("x", 8<<20-len(header)-2) + "\n")
	require.Len(t, file, 8<<20)
	_, err = parseFile(file)
	require.ErrorContains(t, err, "line 2: ", "the file is parsed up to the malformed line")
	_, err = parseFile(append(file, '\n'))
	require.ErrorContains(t, err, "the file has more than 8388608 bytes")
}
