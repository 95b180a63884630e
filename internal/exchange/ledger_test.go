package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCashAndSharesAreConserved audits after every command of random sessions:
// no cash or shares appear or vanish, and there is no hold without an open order.
func TestCashAndSharesAreConserved(t *testing.T) {
	s := newRandomSession(testRand(t))
	fills := 0
	for range 2000 {
		before := len(s.events)
		s.step()
		require.NoError(t, s.Audit())
		for _, e := range s.events[before:] {
			fills += len(e.Fills)
		}
	}
	require.Greater(t, fills, 50, "the session traded")
	for _, symbol := range s.symbols { // once every order is canceled, nothing is held
		for o := range s.Books[symbol].Orders() {
			if o.Open > 0 {
				_, r := s.cancel(o.Account.ID, symbol, o.ID)
				require.Equal(t, OK, r)
			}
		}
		require.Zero(t, s.Books[symbol].Resting())
	}
	require.NoError(t, s.Audit())
	for _, id := range s.accounts {
		if a := s.Ledger.Account(id); a != nil {
			_, held := a.Balance()
			require.Zero(t, held)
		}
	}
}

// market returns a ledger with two accounts and an instrument, to test single calls.
func market(t *testing.T) (*shard, *Instrument) {
	d := newShard()
	require.Equal(t, OK, d.open("1", dollars(t, "1000")))
	require.Equal(t, OK, d.open("2", dollars(t, "0")))
	d.list("SPY")
	require.Equal(t, OK, d.place("SPY", "2", placed(t, "100")))
	return d, d.Ledger.Instrument("SPY")
}

func TestReserveThatRefusesChangesNothing(t *testing.T) {
	d, in := market(t)
	before := dump(d.State)
	for _, row := range []struct {
		o    *Order
		want RejectReason
	}{
		{NewOrder(1, d.Ledger.Account("1"), Buy, shares(t, "100"), price(t, "10.00000001")), InsufficientFunds},
		{NewOrder(1, d.Ledger.Account("1"), Buy, orderUnitsMax-1, orderUnitsMax-1), InsufficientFunds},
		{NewOrder(1, d.Ledger.Account("2"), Buy, 1, 1), InsufficientFunds},
		{NewOrder(1, d.Ledger.Account("2"), Sell, shares(t, "100.00000001"), 1), InsufficientShares},
		{NewOrder(1, d.Ledger.Account("1"), Sell, 1, 1), InsufficientShares},
	} {
		require.Equal(t, row.want, d.Ledger.Reserve(in, row.o))
		require.Equal(t, before, dump(d.State))
		require.False(t, row.o.Account.Unsettled())
	}
	require.Len(t, in.positions, 1, "a rejected sell leaves no position")
}

func TestReserveHoldsExactlyWhatAnOrderCouldSpend(t *testing.T) {
	d, in := market(t)
	buyer, seller := d.Ledger.Account("1"), d.Ledger.Account("2")
	buy := NewOrder(1, buyer, Buy, shares(t, "100"), price(t, "10"))
	require.Equal(t, OK, d.Ledger.Reserve(in, buy))
	free, held := buyer.Balance()
	require.Equal(t, "0", free.String())
	require.Equal(t, "1000", held.String())
	require.True(t, buyer.Unsettled())
	d.Ledger.Settle(in, buy, nil)
	require.False(t, buyer.Unsettled())

	sell := NewOrder(2, seller, Sell, shares(t, "99.5"), price(t, "10"))
	require.Equal(t, OK, d.Ledger.Reserve(in, sell))
	freeShares, heldShares := in.Position(seller)
	require.Equal(t, "0.5", freeShares.String())
	require.Equal(t, "99.5", heldShares.String())
}

func TestSettlePaysTheRestingPriceAndRefundsTheBuyer(t *testing.T) {
	for name, taker := range map[string]Side{
		"a buy meets a resting sell at 8": Buy, "a sell meets a resting buy at 8": Sell,
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := market(t)
			buyer, seller, paid := price(t, "10"), price(t, "8"), "800"
			if taker == Sell {
				buyer, seller = price(t, "8"), price(t, "7")
				_, _, r := d.order("1", "SPY", Buy, shares(t, "100"), buyer)
				require.Equal(t, OK, r)
				_, _, r = d.order("2", "SPY", Sell, shares(t, "100"), seller)
				require.Equal(t, OK, r)
			} else {
				_, _, r := d.order("2", "SPY", Sell, shares(t, "100"), seller)
				require.Equal(t, OK, r)
				_, _, r = d.order("1", "SPY", Buy, shares(t, "100"), buyer)
				require.Equal(t, OK, r)
			}
			free, held := d.Ledger.Account("1").Balance()
			require.Equal(t, "200", free.String())
			require.Zero(t, held)
			free, held = d.Ledger.Account("2").Balance()
			require.Equal(t, paid, free.String())
			require.Zero(t, held)
			got, _ := d.Ledger.Instrument("SPY").Position(d.Ledger.Account("1"))
			require.Equal(t, "100", got.String())
		})
	}
}

func TestReleaseGivesBackTheRestOfAHold(t *testing.T) {
	d, in := market(t)
	_, _, r := d.order("1", "SPY", Buy, shares(t, "100"), price(t, "10"))
	require.Equal(t, OK, r)
	_, fills, r := d.order("2", "SPY", Sell, shares(t, "30"), price(t, "9"))
	require.Equal(t, OK, r)
	require.Len(t, fills, 1)
	_, r = d.cancel("1", "SPY", 1)
	require.Equal(t, OK, r)
	free, held := d.Ledger.Account("1").Balance()
	require.Equal(t, "700", free.String())
	require.Zero(t, held)

	_, _, r = d.order("2", "SPY", Sell, shares(t, "70"), price(t, "9"))
	require.Equal(t, OK, r)
	_, r = d.cancel("2", "SPY", 3)
	require.Equal(t, OK, r)
	freeShares, heldShares := in.Position(d.Ledger.Account("2"))
	require.Equal(t, "70", freeShares.String())
	require.Zero(t, heldShares)
}

func TestWithdrawUndoesAReservation(t *testing.T) {
	d, in := market(t)
	before := dump(d.State)
	for _, o := range []*Order{
		NewOrder(1, d.Ledger.Account("1"), Buy, shares(t, "3"), price(t, "10.00000001")),
		NewOrder(1, d.Ledger.Account("2"), Sell, shares(t, "0.00000001"), price(t, "1")),
	} {
		require.Equal(t, OK, d.Ledger.Reserve(in, o))
		require.NotEqual(t, before, dump(d.State))
		d.Ledger.Withdraw(in, o)
		require.Equal(t, before, dump(d.State))
		require.False(t, o.Account.Unsettled())
	}
	require.NoError(t, d.Ledger.Check())
}

func TestTotalsStayBelowTheirBounds(t *testing.T) {
	l := NewLedger()
	largest := dollars(t, "999999999999999999.99999999")
	n := 0
	for id := Shares(0); l.MayOpen(AccountID(id.String()), largest) == OK; id += 1e8 {
		l.Open(AccountID(id.String()), largest)
		n++
	}
	require.Equal(t, 1000, n) // 1,000 × (10^18 - 10^-8) is 10^-5 below 10^21
	require.Equal(t, OK, l.MayOpen("x", dollars(t, "0.00000999")))
	require.Equal(t, BalanceTotalExceeded, l.MayOpen("x", dollars(t, "0.00001")))
	require.Panics(t, func() { l.Open("x", dollars(t, "0.00001")) })
	require.Equal(t, 1000, l.Accounts())

	spy, qqq := l.List("SPY"), l.List("QQQ")
	most := placed(t, "999999999999999999.99999999")
	for range 1000 {
		require.Equal(t, OK, l.MayDeposit(spy, "0", most))
		l.Deposit(spy, "0", most)
	}
	require.Equal(t, OK, l.MayDeposit(spy, "1", placed(t, "0.00000999")))
	require.Equal(t, PositionTotalExceeded, l.MayDeposit(spy, "1", placed(t, "0.00001")))
	require.Panics(t, func() { l.Deposit(spy, "1", placed(t, "0.00001")) })
	require.Equal(t, OK, l.MayDeposit(qqq, "1", most), "each symbol has a bound of its own")
	require.Equal(t, "999999999999999999999.99999", spy.Deposited().String())
	require.NoError(t, l.Check())
}

func TestLedgerPanicsWhereTheCallerDidNotAsk(t *testing.T) {
	d, in := market(t)
	before := dump(d.State)
	require.Panics(t, func() { d.Ledger.Open("1", Cash{}) })
	require.Panics(t, func() { d.Ledger.Deposit(in, "3", placed(t, "1")) })
	require.Equal(t, before, dump(d.State))

	o := NewOrder(1, d.Ledger.Account("1"), Buy, shares(t, "1"), price(t, "1"))
	o.Canceled = o.Shares // it was never reserved
	require.Panics(t, func() { d.Ledger.Release(in, o) })
	sell := NewOrder(1, d.Ledger.Account("2"), Sell, shares(t, "1"), price(t, "1"))
	sell.Canceled = sell.Shares
	require.Panics(t, func() { d.Ledger.Release(in, sell) })
	require.Panics(t, func() { d.Ledger.Settle(in, o, []Fill{{Shares: 1, Price: 1, owner: sell.Account}}) })
	require.Equal(t, before, dump(d.clearUnsettled()))
}

func TestSettlePanicsWhenTheSellerHoldsNothing(t *testing.T) {
	d, in := market(t)
	buy := NewOrder(1, d.Ledger.Account("1"), Buy, shares(t, "1"), price(t, "1"))
	sell := NewOrder(2, d.Ledger.Account("2"), Sell, shares(t, "1"), price(t, "1")) // never reserved
	require.Equal(t, OK, d.Ledger.Reserve(in, buy))
	require.Panics(t, func() { d.Ledger.Settle(in, buy, []Fill{{Shares: buy.Shares, Price: 1, owner: sell.Account}}) })
}

// clearUnsettled resets the counts of unsettled reservations that a panic left.
func (d *shard) clearUnsettled() *State {
	for a := range d.Ledger.accounts.all() {
		a.unsettled = 0
	}
	return d.State
}

func TestListIsIdempotent(t *testing.T) {
	l := NewLedger()
	in := l.List("SPY")
	require.Same(t, in, l.List("SPY"))
	require.Same(t, in, l.Instrument("SPY"))
	require.Nil(t, l.Instrument("spy"))
}

// TestLedgerCheckFindsEveryBrokenInvariant breaks a valid ledger in one way at a time.
func TestLedgerCheckFindsEveryBrokenInvariant(t *testing.T) {
	for name, spoil := range map[string]func(l *Ledger, a *Account, h *position){
		"money made":          func(_ *Ledger, a *Account, _ *position) { a.balance = a.balance.Add(Cash{Lo: 1}) },
		"money lost":          func(_ *Ledger, a *Account, _ *position) { a.balance = a.balance.Sub(Cash{Lo: 1}) },
		"a negative balance":  func(_ *Ledger, a *Account, _ *position) { a.balance, a.held = Cash{Hi: -1}, Cash{Hi: 1} },
		"a negative hold":     func(_ *Ledger, a *Account, _ *position) { a.held = Cash{Hi: -1} },
		"settled too often":   func(_ *Ledger, a *Account, _ *position) { a.unsettled = -1 },
		"shares made":         func(_ *Ledger, _ *Account, h *position) { h.shares = h.shares.Add(Position{Lo: 1}) },
		"shares lost":         func(_ *Ledger, _ *Account, h *position) { h.held = h.held.Sub(Position{Lo: 1}) },
		"a negative position": func(_ *Ledger, _ *Account, h *position) { h.shares = Position{Hi: -1} },
	} {
		t.Run(name, func(t *testing.T) {
			d, in := market(t)
			_, _, r := d.order("2", "SPY", Sell, shares(t, "50"), price(t, "1"))
			require.Equal(t, OK, r)
			require.NoError(t, d.Ledger.Check())
			spoil(d.Ledger, d.Ledger.Account("1"), in.positions[d.Ledger.Account("2")])
			require.Error(t, d.Ledger.Check())
		})
	}
}
