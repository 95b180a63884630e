package exchange

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCandlesJoinedAreThoseOfAllTrades splits trades at random places and joins the candles of the pieces.
func TestCandlesJoinedAreThoseOfAllTrades(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	for range 200 {
		trades := make([]Trade, 2+r.IntN(20))
		for i := range trades {
			trades[i] = Trade{Price: Price(1 + r.Int64N(1e18)), Shares: Shares(1 + r.Int64N(1e18)), Buy: OrderID(1 + r.IntN(2))}
			trades[i].Sell = 3 - trades[i].Buy
		}
		from, cut := uint64(1+r.IntN(5)), 1+r.IntN(len(trades)-1)
		of := func(first int, some []Trade) *Candle {
			c := &Candle{Start: 60 * Second}
			for i := range some {
				c.Add(&some[i], from+uint64(first+i))
			}
			return c
		}
		whole, joined, next := of(0, trades), of(0, trades[:cut]), of(cut, trades[cut:])
		require.Equal(t, joined.Last()+1, next.First)
		before := *joined
		joined.Join(next)
		require.Equal(t, whole, joined)
		require.Equal(t, from+uint64(len(trades))-1, whole.Last())
		require.Equal(t, before.Notional, whole.Notional.Minus(next.Notional))
		require.Equal(t, whole.Notional, next.Notional.Plus(before.Notional))
	}
}

// TestTurnoversAreAddedBeyondOneRound adds and subtracts turnovers above CashTotalMax.
func TestTurnoversAreAddedBeyondOneRound(t *testing.T) {
	almost := Turnover{Rest: CashTotalMax.Sub(Notional(1, 1))}
	sum := almost.Plus(almost).Plus(almost)
	require.Equal(t, Turnover{Rounds: 2, Rest: CashTotalMax.Sub(Notional(3, 1))}, sum)
	require.Equal(t, almost, sum.Minus(almost).Minus(almost))
	require.Equal(t, Turnover{}, sum.Minus(sum))
}

// TestATradeBelongsToTheNewestCandleIfTheClockWasSetBack checks StartAfter for each interval.
func TestATradeBelongsToTheNewestCandleIfTheClockWasSetBack(t *testing.T) {
	const at = 1_795_000_000 * Second
	for i := range Intervals {
		start := i.StartOf(at)
		require.Equal(t, start, i.StartAfter(start, at))
		require.Equal(t, start, i.StartAfter(start, at-100*i.Length()))
		require.Equal(t, start+i.Length(), i.StartAfter(start, start+i.Length()))
		require.Equal(t, start, i.StartAfter(start, start+i.Length()-1))
	}
}
