package exchange

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cache must not mix up the two kinds of name: an account id has only digits.
func TestNamesAcceptWhatTheParseFunctionsAccept(t *testing.T) {
	var n Names
	for range 2 {
		for _, name := range []string{"", "1", "007", "SPY", "x-y", "a b", fmt.Sprintf("%065d", 1), fmt.Sprintf("%033d", 1)} {
			for _, names := range []*Names{nil, &n} {
				account, err := names.Account([]byte(name))
				wantAccount, wantErr := ParseAccountID(name)
				require.Equal(t, wantAccount, account)
				require.Equal(t, wantErr, err)
				symbol, err := names.Symbol([]byte(name))
				wantSymbol, wantErr := ParseSymbol(name)
				require.Equal(t, wantSymbol, symbol)
				require.Equal(t, wantErr, err)
			}
		}
	}
}

func TestNamesKeepTheLastFour(t *testing.T) {
	var n Names
	buffer := []byte("1")
	garbage := func(ids string) float64 {
		return testing.AllocsPerRun(1, func() {
			for i := range len(ids) {
				buffer[0] = ids[i]
				id, err := n.Account(buffer)
				if err != nil || string(id) != ids[i:i+1] {
					panic(id)
				}
			}
		})
	}
	garbage("12345678")
	require.Zero(t, garbage("5678"))
	require.Zero(t, garbage("8675"))
	long := []byte("1000000000000000000000000000000000000001") // one character needs no memory of its own
	require.NotZero(t, testing.AllocsPerRun(1, func() {
		for i := range byte(5) {
			long[0] = '1' + i
			_, _ = n.Account(long)
		}
	}))
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = n.Account(long) }))
}
