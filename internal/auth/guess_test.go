package auth

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that leaves while its refusal is delayed gets no answer and frees its place. The log can tell it
// from a client that was refused at once.
func TestWhoLeavesWhileItWaitsForItsRefusalGetsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, err := OpenTokens(t.TempDir(), quiet)
		require.NoError(t, err)
		const address = "192.0.2.1:1"
		for range 10 {
			answer, slowed := tokens.Wrong(t.Context(), address)
			require.Equal(t, []bool{true, false}, []bool{answer, slowed})
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		begun := time.Now()
		for range 100 { // more than may wait
			answer, slowed := tokens.Wrong(gone, address)
			require.Equal(t, []bool{false, true}, []bool{answer, slowed})
		}
		require.Zero(t, time.Since(begun))
		require.Empty(t, tokens.guesses.waiting)
		answer, slowed := tokens.Wrong(t.Context(), address)
		require.Equal(t, []bool{true, true}, []bool{answer, slowed})
	})
}

// A text that is almost a token is malformed.
func TestWhatIsNoTokenIsNotTakenFromAFile(t *testing.T) {
	token, _ := newToken()
	got, err := CleanToken(" " + token + "\n")
	require.NoError(t, err)
	require.Equal(t, token, got)
	middle := strings.LastIndex(token, "_")
	for _, wrong := range []string{
		"", token + "0", token[1:] + "0", token[:middle] + "-" + token[middle+1:], token[:len(token)-1] + "g",
		token[:6] + "X" + token[7:], strings.ToUpper(token),
	} {
		_, err := CleanToken(wrong)
		require.ErrorIs(t, err, errMalformed, "%q", wrong)
	}
}
