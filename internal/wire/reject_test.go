package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/exchange"
)

func TestTimesReadAsPackageTimeShowsThem(t *testing.T) {
	first, last := time.Date(0, 3, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(first, last).Draw(t, "seconds")
		require.Equal(t, time.Unix(seconds, 0).UTC().Format(time.RFC3339), utc(seconds))
	})
	for _, date := range []time.Time{time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2100, 2, 28, 23, 59, 59, 0, time.UTC), time.Unix(0, 0), time.Unix(-1, 0)} {
		require.Equal(t, date.UTC().Format(time.RFC3339), utc(date.Unix()))
	}
}

func TestAnOrderForAHaltedSymbolIsToldSinceWhenAndWhy(t *testing.T) {
	c := exchange.Command{Kind: exchange.PlaceOrder, Symbol: "SPY"}
	r := exchange.Result{Reason: exchange.Halted, Halt: &exchange.Halt{Since: 1519348326_987654321, Reason: "news is out"}}
	require.Equal(t, "symbol SPY is halted since 2018-02-23T01:12:06Z and takes no orders; cancel and query work: news is out", rejectText(&c, &r))
	r.Halt = &exchange.Halt{}
	require.Equal(t, "symbol SPY is halted since 1970-01-01T00:00:00Z and takes no orders; cancel and query work", rejectText(&c, &r))
}
