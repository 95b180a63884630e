package exchange

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestEveryReasonHasItsEntry fails for a reason without a name or text, or with another reason's name.
func TestEveryReasonHasItsEntry(t *testing.T) {
	seen := map[string]bool{}
	for r := range rejectReasons {
		require.NotEmpty(t, r.String(), "reason %d has no name", r)
		require.NotNil(t, reasons[r].text, "%s has no text", r)
		require.False(t, seen[r.String()], "two reasons are called %s", r)
		seen[r.String()] = true
	}
	require.Equal(t, "unknown", rejectReasons.String())
	require.False(t, rejectReasons.OfSession() || rejectReasons.IsRefusal())
	require.Panics(t, func() { new(Result).Text(new(Command)) }, "OK has no text")
}

func TestAnOrderForAHaltedSymbolIsToldSinceWhenAndWhy(t *testing.T) {
	c := Command{Kind: PlaceOrder, Symbol: "SPY"}
	r := Result{Reason: Halted, Details: &RejectDetails{Halt: &Halt{Since: 1519348326_987654321, Reason: "news is out"}}}
	require.Equal(t, "symbol SPY is halted since 2018-02-23T01:12:06Z and accepts no orders; "+
		"cancel and query work: news is out", r.Text(&c))
	r.Details.Halt = &Halt{}
	require.Equal(t, "symbol SPY is halted since 1970-01-01T00:00:00Z and accepts no orders; "+
		"cancel and query work", r.Text(&c))
}

// TestTimesReadAsPackageTimeShowsThem checks the time in the text of a halt.
func TestTimesReadAsPackageTimeShowsThem(t *testing.T) {
	utc := func(seconds int64) string {
		r := Result{Reason: Halted, Details: &RejectDetails{Halt: &Halt{Since: seconds * Second}}}
		text := r.Text(new(Command))
		return text[len("symbol  is halted since ") : len(text)-len(" and accepts no orders; cancel and query work")]
	}
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(-math.MaxInt64/Second, math.MaxInt64/Second).Draw(t, "seconds")
		require.Equal(t, time.Unix(seconds, 0).UTC().Format(time.RFC3339), utc(seconds))
	})
	for _, date := range []time.Time{time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2100, 2, 28, 23, 59, 59, 0, time.UTC), time.Unix(0, 0), time.Unix(-1, 0)} {
		require.Equal(t, date.UTC().Format(time.RFC3339), utc(date.Unix()))
	}
}
