package exchange

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// crowd returns a session with so many accounts and positions that counting them
// needs several steps.
func crowd(t *testing.T) *randomSession {
	s := newRandomSession(testRand(t))
	s.run(500)
	for i := range 3 * reconcileStep {
		id := AccountID(fmt.Sprint(1000 + i))
		require.Equal(t, OK, s.open(id, dollars(t, "5")))
		for sym := range s.Books {
			require.Equal(t, OK, s.place(sym, id, Position{Lo: 7}))
		}
	}
	return s
}

// TestReconcileCountsWhileTradingGoesOn trades, opens accounts and deposits shares
// in every pause: each amount must be counted exactly once.
func TestReconcileCountsWhileTradingGoesOn(t *testing.T) {
	s := crowd(t)
	for range 30 {
		pauses := 0
		require.Zero(t, s.Ledger.Reconcile(func() {
			pauses++
			s.run(20)
			id := AccountID(fmt.Sprint(100_000 + s.Ledger.Accounts()))
			require.Equal(t, OK, s.open(id, dollars(t, "3")))
			for sym := range s.Books {
				require.Equal(t, OK, s.place(sym, id, Position{Lo: 3}))
			}
		}))
		require.Greater(t, pauses, 3)
	}
	require.NoError(t, s.Audit())
}

func TestReconcileFindsWhatIsTooMuchOrTooLittle(t *testing.T) {
	s := crowd(t)
	nothing := func() {}
	a := s.Ledger.Account("1000")
	a.balance.Lo += 5
	require.Equal(t, Imbalance{Cash: Cash{Lo: 5}}, s.Ledger.Reconcile(nothing))
	a.balance.Lo -= 8
	require.Equal(t, Imbalance{Cash: Cash{}.Sub(Cash{Lo: 3})}, s.Ledger.Reconcile(nothing))
	a.balance.Lo += 3
	require.Zero(t, s.Ledger.Reconcile(nothing))

	var last Symbol
	for sym, in := range s.Ledger.instruments {
		in.positions[a].held.Lo++
		last = sym
	}
	found := s.Ledger.Reconcile(nothing)
	require.Equal(t, len(s.Books), found.Symbols)
	require.Zero(t, found.Cash)
	for sym, in := range s.Ledger.instruments {
		if sym != last {
			in.positions[a].held.Lo--
		}
	}
	require.Equal(t, Imbalance{Symbols: 1, Symbol: last}, s.Ledger.Reconcile(nothing))
}

func TestReconcileOfADamagedLedgerDoesNotOverflow(t *testing.T) {
	s := crowd(t)
	for a := range s.Ledger.accounts.all() {
		a.balance = CashTotalMax
	}
	require.Positive(t, s.Ledger.Reconcile(func() {}).Cash.Sign())
	for _, in := range s.Ledger.instruments {
		for _, h := range in.positions {
			h.shares = PositionTotalMax
		}
	}
	require.Equal(t, len(s.Books), s.Ledger.Reconcile(func() {}).Symbols)
}

// BenchmarkReconcile reports the time between two pauses, during which trading waits,
// with 100,000 accounts that have one position each.
func BenchmarkReconcile(b *testing.B) {
	s := NewState()
	in := s.Ledger.List("SPY")
	for i := range 100_000 {
		id := AccountID(fmt.Sprint(i))
		s.Ledger.Open(id, Notional(1e9, Price(i)))
		s.Ledger.Deposit(in, id, Shares(5).Position())
	}
	pieces := 0
	for b.Loop() {
		s.Ledger.Reconcile(func() { pieces++ })
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(pieces), "µs/piece")
}
