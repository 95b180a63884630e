package audit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestThePartsOfTextsAreTheExchanges compares partOfText with the texts that the exchange sends: each part is in the
// text of its reason and in no other.
func TestThePartsOfTextsAreTheExchanges(t *testing.T) {
	seen := 0
	for reason := exchange.OK + 1; reason.String() != "unknown"; reason++ {
		details := exchange.RejectDetails{Halt: &exchange.Halt{}, Least: new(exchange.Cash)}
		text := (&exchange.Result{Reason: reason, Details: &details}).Text(&exchange.Command{Account: "1", Symbol: "SYM"})
		for of, part := range partOfText {
			require.Equal(t, of == reason, strings.Contains(text, part), "%s: %q in %q", of, part, text)
		}
		seen++
	}
	require.Greater(t, seen, len(partOfText))
	const executed = "order 7 has nothing open: it is executed"
	require.True(t, rejectedFor(executed, exchange.AlreadyCanceled, exchange.AlreadyExecuted))
	require.False(t, rejectedFor(executed, exchange.AlreadyCanceled))
	require.False(t, rejectedFor("anything", exchange.OffTick), "a reason without a part")
}
