package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

func TestStatsCountWhatWasTraded(t *testing.T) {
	m := open(t, Options{})
	const whole = 1e8 // units of a share, and of a dollar
	m.do(exchange.Command{Kind: exchange.OpenAccount, Account: "3", Balance: exchange.Notional(1000*whole, 1000*whole)})
	bid := func(sym exchange.Symbol, shares exchange.Shares, limit exchange.Price) exchange.Command {
		c := buy(sym, shares, limit)
		c.Account = "3"
		return c
	}
	m.all(sell("A", 1*whole, 4*whole), sell("A", 2*whole, 5*whole), bid("A", 2.5*whole, 6*whole), // 1 at 4, 1.5 at 5
		sell("B", 1*whole, 10*whole), bid("B", 1*whole, 10*whole), // trades 1 at 10
		bid("B", 1*whole, 1*whole), cancelOf(6, "3"), cancelOf(6, "3"), buy("C", 1, 1))
	s := m.Stats()
	require.EqualValues(t, 6, s.Orders)
	require.EqualValues(t, 3, s.Executions)
	require.EqualValues(t, 1, s.Cancels)
	require.InDelta(t, 3.5, s.TradedShares, 1e-9)
	require.InDelta(t, 21.5, s.TradedDollars, 1e-9)
	require.EqualValues(t, 1, s.OpenOrders)
}

// TestStagesOfCallsAreDrawn makes owners slow, and sends queries until a call has been
// measured: the owners' time must count as worked, not as waited.
func TestStagesOfCallsAreDrawn(t *testing.T) {
	type drawn struct{ waited, worked time.Duration }
	var last atomic.Pointer[drawn]
	var dawdled atomic.Int64 // nanoseconds that the owners were delayed
	m := open(t, Options{
		OnStages: func(waited, worked time.Duration) { last.Store(&drawn{waited, worked}) },
		Now: func() int64 {
			begun := time.Now()
			time.Sleep(2 * time.Millisecond)
			dawdled.Add(int64(time.Since(begun)))
			return 77
		}})
	last.Store(nil)
	for n := 0; last.Load() == nil; n++ { // 16 calls on average
		require.Less(t, n, 1000, "never drawn")
		dawdled.Store(0)
		begun := time.Now()
		m.all(sell("A", 10, 5), sell("B", 10, 5), sell("A", 10, 5))
		took, dawdled := time.Since(begun), time.Duration(dawdled.Load())
		if d := last.Load(); d != nil {
			require.GreaterOrEqual(t, d.worked, dawdled)
			require.Positive(t, d.waited)
			require.LessOrEqual(t, d.waited+d.worked, took)
		}
	}
}
