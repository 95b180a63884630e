package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestAmendsAtTheirBounds: an amend at each bound is accepted; an amend one unit beyond it is rejected and changes
// nothing.
func TestAmendsAtTheirBounds(t *testing.T) {
	m := open(t, Options{})
	m.all(exchange.Command{Kind: exchange.OpenAccount, Account: "3", Balance: exchange.Notional(1000, 10)})
	as3 := func(c exchange.Command) exchange.Command { c.Account = "3"; return c }
	old := m.do(as3(buy("A", 100, 10))).Order
	m.all(sell("A", 40, 10)) // now 60 shares are open, 600 dollars are held, and the last trade is at 10
	ok := func(shares exchange.Shares, limit exchange.Price) {
		t.Helper()
		r := m.do(amend(old, "3", exchange.Buy, shares, limit))
		require.Equal(t, exchange.OK, r.Reason)
		old = max(old, r.Amended.By)
		m.agrees()
	}
	no := func(why exchange.RejectReason, shares exchange.Shares, limit exchange.Price) {
		t.Helper()
		m.refused(why, amend(old, "3", exchange.Buy, shares, limit))
	}
	limits := func(change func(r *exchange.AccountRules)) {
		t.Helper()
		_, err := m.SetAccountRules(background, "3", func(r *exchange.AccountRules) {
			*r = exchange.AccountRules{}
			change(r)
		})
		require.NoError(t, err)
	}
	symbol := func(r exchange.SymbolRules) {
		t.Helper()
		got, err := m.SetSymbolRules(background, "A", func(have *exchange.SymbolRules) { *have = r })
		require.NoError(t, err)
		require.Equal(t, exchange.OK, got.Reason)
	}
	no(exchange.AmountExecuted, 40, 0)
	ok(41, 0) // 1 share stays open, the least
	ok(100, 0)
	ok(40+960, 10) // uses all cash: the old hold, and the rest of the balance
	no(exchange.InsufficientFunds, 40+961, 10)
	no(exchange.InsufficientFunds, 40+960, 11)
	ok(40+480, 20)
	ok(100, 10)

	limits(func(r *exchange.AccountRules) { r.SharesMax = 80 }) // bounds the open shares of the replacement
	ok(120, 10)
	no(exchange.OrderTooLarge, 121, 10)
	ok(110, 0) // reduces in place
	limits(func(r *exchange.AccountRules) { r.NotionalMax = exchange.Notional(80, 10) })
	ok(120, 10)
	no(exchange.NotionalExceeded, 121, 10)
	no(exchange.NotionalExceeded, 120, 11)
	limits(func(r *exchange.AccountRules) { r.OpenMax = 1 })
	ok(100, 10)
	limits(func(*exchange.AccountRules) {})

	symbol(exchange.SymbolRules{Band: 50_000_000})
	ok(100, 15)
	no(exchange.OutsideBand, 100, 16)
	symbol(exchange.SymbolRules{Tick: 5, Lot: 20})
	no(exchange.OffTick, 0, 11)
	no(exchange.OffLot, 101, 0)
	no(exchange.OffLot, 99, 0)
	ok(80, 0)
	ok(100, 10)
	symbol(exchange.SymbolRules{Lot: 7})
	ok(0, 11) // the amount is unchanged, though it is not a multiple of the lot
	ok(100, 12)
	no(exchange.OffLot, 99, 12)
}

// TestAnAmendOfASellMayBeOdd: an amount that is no multiple of the lot is accepted if it equals everything that the
// account has, or has open.
func TestAnAmendOfASellMayBeOdd(t *testing.T) {
	m := open(t, Options{})
	m.all(exchange.Command{Kind: exchange.OpenAccount, Account: "3"},
		exchange.Command{Kind: exchange.DepositShares, Symbol: "A", Account: "3", Deposited: exchange.Shares(25).Position()})
	as3 := func(c exchange.Command) exchange.Command { c.Account = "3"; return c }
	got, err := m.SetSymbolRules(background, "A", func(r *exchange.SymbolRules) { r.Lot = 10 })
	require.NoError(t, err)
	require.Equal(t, exchange.OK, got.Reason)
	old := m.do(as3(sell("A", 10, 10))).Order
	m.all(buy("B", 1, 1))
	m.refused(exchange.OffLot, amend(old, "3", exchange.Sell, 24, 0))
	m.refused(exchange.OffLot, amend(old, "3", exchange.Sell, 26, 0))
	m.refused(exchange.InsufficientShares, amend(old, "3", exchange.Sell, 30, 0))
	r := m.do(amend(old, "3", exchange.Sell, 25, 0))
	require.Equal(t, exchange.OK, r.Reason)
	require.Equal(t, exchange.OK, m.do(buy("A", 10, 10)).Reason)
	old = r.Amended.By
	m.refused(exchange.OffLot, amend(old, "3", exchange.Sell, 24, 11))
	r = m.do(amend(old, "3", exchange.Sell, 20, 11))
	require.Equal(t, exchange.OK, r.Reason)
	old = r.Amended.By
	r = m.do(amend(old, "3", exchange.Sell, 25, 0)) // 10 executed, 10 still open, 5 free
	require.Equal(t, exchange.OK, r.Reason)
	m.agrees()
}

// TestAReplacementInherits checks post, the self-trade prevention in effect, and OnDisconnect (cod).
func TestAReplacementInherits(t *testing.T) {
	m := open(t, Options{})
	m.all(exchange.Command{Kind: exchange.DepositShares, Symbol: "A", Account: "1",
		Deposited: exchange.Shares(100).Position()})
	m.all(sell("A", 5, 10))
	posted := m.do(post(buy("A", 5, 5))).Order
	m.refused(exchange.WouldExecute, named("p", post(buy("A", 5, 10))))
	m.refused(exchange.WouldExecute, as("p", amend(posted, "1", exchange.Buy, 0, 10)))
	m.refused(exchange.CannotFill, named("p", fok(buy("A", 6, 10))))
	m.refused(exchange.NobodyOpposite, named("p", atMarket(buy("B", 6, 10))))
	r := m.do(as("p", amend(posted, "1", exchange.Buy, 0, 9)))
	require.Equal(t, exchange.OK, r.Reason, "no rejection has used up the ref")
	m.refused(exchange.WouldExecute, amend(r.Amended.By, "1", exchange.Buy, 0, 10))
	m.all(cancelOf(r.Amended.By, "1"))

	own := sell("A", 5, 8)
	own.Account = "1"
	first := m.do(own).Order
	_, err := m.SetAccountRules(background, "1", func(r *exchange.AccountRules) { r.STP = exchange.CancelOldest })
	require.NoError(t, err)
	byRule := m.do(buy("A", 5, 5)).Order
	_, err = m.SetAccountRules(background, "1", func(r *exchange.AccountRules) { r.STP = exchange.CancelNewest })
	require.NoError(t, err)
	r = m.do(reported(amend(byRule, "1", exchange.Buy, 7, 10)))
	require.Equal(t, exchange.Status{Open: 2, Executions: []exchange.Execution{{Shares: 5, Price: 10, Time: 77}}},
		r.Status)
	require.Equal(t, exchange.Shares(5), m.do(queryOf(first)).Status.Canceled)
	o, found, err := m.Show(background, r.Amended.By, 0, 9)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, exchange.CancelOldest, o.STP)
	m.agrees()
}

// TestAnAmendMayNameWhatIsToBeOpen checks amends that give the open amount instead of the total, independent of
// executions.
func TestAnAmendMayNameWhatIsToBeOpen(t *testing.T) {
	m := open(t, Options{})
	toOpen := func(c exchange.Command) exchange.Command {
		c.More = &exchange.CommandMore{Open: true}
		return c
	}
	old := m.do(buy("A", 100, 10)).Order
	m.all(sell("A", 40, 10))
	r := m.do(toOpen(amend(old, "1", exchange.Buy, 30, 9))) // 30 is less than the amount executed
	require.Equal(t, exchange.OK, r.Reason)
	require.Equal(t, exchange.Shares(30), m.do(queryOf(r.Amended.By)).Status.Open)
	old = r.Amended.By
	m.agrees()
	m.all(sell("A", 10, 9))
	r = m.do(toOpen(amend(old, "1", exchange.Buy, 30, 9)))
	require.Equal(t, exchange.OK, r.Reason)
	require.Equal(t, exchange.Shares(30), m.do(queryOf(r.Amended.By)).Status.Open)
	m.agrees()
	m.refused(exchange.OrderTooLarge, toOpen(amend(r.Amended.By, "1", exchange.Buy, exchange.OrderSharesMax-50, 8)))
	require.Equal(t, exchange.Shares(30), m.do(queryOf(r.Amended.By)).Status.Open)
	m.agrees()
}

// TestARefOfAnAmendByWhatIsToBeOpenIsThatOfItsRecord: if an amend gives the open amount, the use of its ref has the
// total, in memory and after a replay.
func TestARefOfAnAmendByWhatIsToBeOpenIsThatOfItsRecord(t *testing.T) {
	m := open(t, Options{})
	old := m.do(buy("A", 20, 10)).Order
	m.all(sell("A", 4, 10))
	c := as("r", amend(old, "1", exchange.Buy, 8, 9))
	c.More.Open = true
	r := m.do(c)
	require.Equal(t, exchange.OK, r.Reason)
	use, used := m.refs.table.Find(m.ledger.Account("1"), "r")
	require.True(t, used)
	require.Equal(t, exchange.Int128(exchange.Shares(12).Position()), use.Quantity)
	again := m.do(c)
	require.Equal(t, exchange.OK, again.Reason)
	require.Equal(t, r.Amended.By, again.Amended.By, "executed only once")
	again = m.do(as("r", amend(old, "1", exchange.Buy, 12, 9)))
	require.Equal(t, r.Amended.By, again.Amended.By, "the amend by the total counts as the same")
	m.refused(exchange.RefUsed, as("r", amend(old, "1", exchange.Buy, 8, 9)))
	m.agrees()
}
