package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// with returns a command with changed terms.
func with(c exchange.Command, change func(t *exchange.Terms)) exchange.Command {
	change(&c.Terms)
	return c
}

func ioc(c exchange.Command) exchange.Command {
	return with(c, func(t *exchange.Terms) { t.TIF = exchange.IOC })
}

func fok(c exchange.Command) exchange.Command {
	return with(c, func(t *exchange.Terms) { t.TIF = exchange.FOK })
}

func post(c exchange.Command) exchange.Command {
	return with(c, func(t *exchange.Terms) { t.Post = true })
}

func atMarket(c exchange.Command) exchange.Command {
	return with(c, func(t *exchange.Terms) { t.Type, t.TIF = exchange.Market, exchange.IOC })
}

func stp(c exchange.Command, mode exchange.SelfTrade) exchange.Command {
	return with(c, func(t *exchange.Terms) { t.STP = mode })
}

func reported(c exchange.Command) exchange.Command {
	c.Report = true
	return c
}

// amend returns an amend of an order. 0 for shares or limit leaves it unchanged.
func amend(id exchange.OrderID, account exchange.AccountID, side exchange.Side, shares exchange.Shares,
	limit exchange.Price) exchange.Command {
	c := exchange.Command{Kind: exchange.AmendOrder, Account: account, Order: id, Shares: shares,
		Terms: exchange.Terms{Limit: limit}}
	if shares != 0 {
		c.Side = side
	}
	return c
}

// as returns an amend with a new ref.
func as(ref exchange.Ref, c exchange.Command) exchange.Command {
	c.More = &exchange.CommandMore{NewRef: ref}
	return c
}

func (m *market) free(account exchange.AccountID) (exchange.Cash, exchange.Position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cash, _ := m.ledger.Account(account).Balance()
	shares, _ := m.ledger.Instrument("A").Position(m.ledger.Account(account))
	return cash, shares
}

// refused requires that a command is rejected and changes nothing.
func (m *market) refused(reason exchange.RejectReason, c exchange.Command) exchange.Result {
	m.t.Helper()
	appended, last := m.journal.Appended(), m.lastOrder.Load()
	cash, shares := m.free(c.Account)
	r := m.do(c)
	require.Equal(m.t, reason, r.Reason)
	require.NotEmpty(m.t, r.Text(&c))
	require.Equal(m.t, appended, m.journal.Appended())
	require.Equal(m.t, last, m.lastOrder.Load())
	cashNow, sharesNow := m.free(c.Account)
	require.Equal(m.t, [2]any{cash, shares}, [2]any{cashNow, sharesNow})
	return r
}

// TestTimesInForce: the open remainder of an IOC is canceled in the record of the order. An FOK executes completely
// or not at all. A post-only order never executes at once.
func TestTimesInForce(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 2, 5), sell("A", 3, 6))
	first := m.journal.Appended() + 1
	cash, _ := m.free("1")
	got := m.do(reported(ioc(buy("A", 4, 5))))
	require.Equal(t, exchange.Result{Order: 3, Status: exchange.Status{Canceled: 2, CanceledAt: 77,
		Executions: []exchange.Execution{{Shares: 2, Price: 5, Time: 77}}}}, got)
	cashNow, _ := m.free("1")
	require.Equal(t, exchange.Notional(2, 5), cash.Sub(cashNow))
	require.Equal(t, exchange.Result{Order: 4, Status: exchange.Status{Canceled: 9, CanceledAt: 77}},
		m.do(reported(ioc(buy("A", 9, 5)))), "it still has an id")
	events := m.events(first)
	require.Len(t, events, 2)
	require.Equal(t, exchange.Shares(2), events[0].Rest)
	require.Equal(t, exchange.AlreadyCanceled, m.do(cancelOf(4, "1")).Reason)

	r := m.refused(exchange.CannotFill, fok(buy("A", 4, 6)))
	require.Equal(t, exchange.Shares(3), r.Details.Could)
	require.Equal(t, exchange.Result{Order: 5, Status: exchange.Status{
		Executions: []exchange.Execution{{Shares: 2, Price: 6, Time: 77}}}}, m.do(reported(fok(buy("A", 2, 6)))))
	r = m.refused(exchange.WouldExecute, post(buy("A", 4, 6)))
	require.Equal(t, exchange.Price(6), r.Details.Best)
	require.Equal(t, exchange.Result{Order: 6, Status: exchange.Status{Open: 4}}, m.do(reported(post(buy("A", 4, 5)))))
	m.refused(exchange.InsufficientFunds, ioc(buy("A", 1_000_000, 1000)))
	stats := m.Stats()
	require.Equal(t, InstructionStats{IOC: 2, FOK: 1, Post: 1}, stats.Instructions)
	require.Equal(t, int64(2), stats.OpenOrders)
	require.Equal(t, int64(4), stats.ClosedOrders)
	m.agrees()
}

// TestTheBookIsNotWalkedForOrdersThatCannotBePaid: an order that may need a walk of the whole book is rejected for
// lack of funds before the walk.
func TestTheBookIsNotWalkedForOrdersThatCannotBePaid(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 2, 5), buy("A", 2, 4), exchange.Command{Kind: exchange.OpenAccount, Account: "3",
		Balance: exchange.Notional(3, 5).Sub(exchange.Notional(1, 1))})
	by3 := func(c exchange.Command) exchange.Command {
		c.Account = "3"
		return c
	}
	r := m.refused(exchange.InsufficientFunds, fok(by3(buy("A", 3, 5)))) // only 2 are for sale
	require.Equal(t, exchange.Notional(3, 5).Sub(exchange.Notional(1, 1)), r.CashHave)
	m.refused(exchange.InsufficientShares, fok(by3(sell("A", 3, 4))))
	m.refused(exchange.InsufficientShares, fok(with(by3(sell("A", 3, 4)),
		func(t *exchange.Terms) { t.Type = exchange.Market })))
	m.refused(exchange.InsufficientShares, atMarket(by3(sell("A", 3, 0))))
	m.refused(exchange.CannotFill, fok(by3(buy("A", 3, 4))))
	require.Equal(t, exchange.OK, m.do(fok(by3(buy("A", 2, 5)))).Reason)
	m.agrees()
}

// TestMarketOrders: a market buy holds exactly what its fills cost.
func TestMarketOrders(t *testing.T) {
	m := open(t, Options{})
	m.refused(exchange.NobodyOpposite, atMarket(buy("A", 1, 0)))
	m.all(sell("A", 2, 10), sell("A", 3, 11), sell("A", 9, 12))
	cash, _ := m.free("1")
	need := exchange.Notional(2, 10).Add(exchange.Notional(3, 11))
	r := m.refused(exchange.CannotFill, fok(with(buy("A", 6, 0), func(t *exchange.Terms) { t.Type = exchange.Market })))
	require.Equal(t, exchange.Shares(5), r.Details.Could, "12 is more than 10 % above 10")
	got := m.do(reported(atMarket(buy("A", 6, 0))))
	require.Equal(t, exchange.Shares(1), got.Status.Canceled)
	now, _ := m.free("1")
	require.Equal(t, need, cash.Sub(now))
	m.all(exchange.Command{Kind: exchange.OpenAccount, Account: "3",
		Balance: exchange.Notional(2, 12).Sub(exchange.Notional(1, 1))})
	poor := atMarket(buy("A", 2, 0))
	poor.Account = "3"
	r = m.refused(exchange.InsufficientFunds, poor)
	require.Equal(t, exchange.Notional(2, 12), r.Details.Needs)
	poor.Shares = 1
	require.Equal(t, exchange.OK, m.do(poor).Reason, "a limit of 13.2 would have cost more than it has")
	limited := atMarket(buy("A", 1, 11))
	require.Equal(t, exchange.Shares(1), m.do(reported(limited)).Status.Canceled, "no order is within its limit")
	require.Equal(t, exchange.OK, m.do(buy("A", 1, 2)).Reason)
	require.Equal(t, exchange.Shares(1), m.do(reported(atMarket(sell("A", 2, 0)))).Status.Canceled)
	named := atMarket(buy("A", 1, 0))
	named.Ref = "m"
	id := m.do(named).Order
	require.Equal(t, exchange.Result{Order: id}, m.do(named), "the protection price is not part of the request")
	m.agrees()
}

// TestAMarketBuyInPartsHoldsWhatItsFurtherPartsCost checks the hold and the result, also after a crash after each
// part.
func TestAMarketBuyInPartsHoldsWhatItsFurtherPartsCost(t *testing.T) {
	m := inParts(t, Options{})
	for n := range 7 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, exchange.Price(100+n))).Reason)
	}
	first := m.journal.Appended() + 1
	got := m.do(reported(atMarket(buy("A", 9, 0))))
	require.Equal(t, exchange.OK, got.Reason)
	require.Len(t, got.Status.Executions, 7)
	require.Equal(t, exchange.Shares(2), got.Status.Canceled)
	m.agrees()
	events := m.events(first)
	require.Len(t, events, 4)
	require.Equal(t, exchange.Notional(1, 102+103+104+105+106), events[0].Hold)
	for n := range events {
		again := m.after(first+uint64(n), false)
		require.Equal(t, got.Status, again.do(queryOf(8)).Status, "crash after part %d", n+1)
		again.agrees()
	}
}

// TestSelfTradePrevention checks the modes of orders and the defaults of accounts.
func TestSelfTradePrevention(t *testing.T) {
	m := open(t, Options{})
	m.all(exchange.Command{Kind: exchange.DepositShares, Symbol: "A", Account: "1", Deposited: exchange.Position{Lo: 100}})
	mine := func(price exchange.Price) exchange.OrderID {
		c := sell("A", 2, price)
		c.Account = "1"
		return m.do(c).Order
	}
	old := mine(5)
	m.do(sell("A", 2, 6))
	first := m.journal.Appended() + 1
	got := m.do(reported(stp(buy("A", 3, 6), exchange.CancelOldest)))
	require.Equal(t, exchange.Shares(1), got.Status.Open)
	require.Len(t, got.Status.Executions, 1)
	require.Equal(t, exchange.Shares(2), m.do(queryOf(old)).Status.Canceled)
	require.Len(t, m.events(first), 1, "in one record")
	require.Equal(t, exchange.OrderID(old), m.events(first)[0].Own[0].Order)
	require.Equal(t, exchange.OK, m.do(cancelOf(got.Order, "1")).Reason)

	old = mine(5)
	got = m.do(reported(stp(buy("A", 3, 6), exchange.CancelNewest)))
	require.Equal(t, exchange.Status{Canceled: 3, CanceledAt: 77}, got.Status)
	require.Equal(t, exchange.Shares(2), m.do(queryOf(old)).Status.Open)
	rules, err := m.SetAccountRules(background, "1", func(r *exchange.AccountRules) { r.STP = exchange.CancelBoth })
	require.NoError(t, err)
	require.True(t, rules.Changed)
	order := buy("A", 3, 6)
	order.Ref = "s"
	got = m.do(order)
	require.Equal(t, exchange.OK, got.Reason)
	require.Equal(t, exchange.Status{Canceled: 3, CanceledAt: 77}, m.do(queryOf(got.Order)).Status)
	require.Equal(t, exchange.Shares(2), m.do(queryOf(old)).Status.Canceled)
	require.Equal(t, exchange.Result{Order: got.Order}, m.do(order), "the operator's default is not part of the request")
	old = mine(5)
	m.refused(exchange.CannotFill, fok(buy("A", 2, 6)))
	require.Equal(t, exchange.Shares(2), m.do(queryOf(old)).Status.Open)
	require.EqualValues(t, 1, m.Stats().OpenOrders)
	require.EqualValues(t, 3, m.Stats().Cancels)
	_, free := m.free("1")
	require.Equal(t, exchange.Position{Lo: 100}, free, "2 were bought, 2 are held, and the canceled shares are free")
	m.agrees()
}

// TestRulesAtTheirBounds: an order at each bound is accepted, and an order one unit beyond it is rejected.
func TestRulesAtTheirBounds(t *testing.T) {
	m := open(t, Options{})
	m.all(sell("A", 4, 1000), buy("A", 4, 1000)) // sets the last trade to 1000
	set := func(rules exchange.SymbolRules) {
		r, err := m.SetSymbolRules(background, "A", func(r *exchange.SymbolRules) { *r = rules })
		require.NoError(t, err)
		require.Equal(t, exchange.OK, r.Reason)
	}
	limits := func(rules exchange.AccountRules) {
		r, err := m.SetAccountRules(background, "1", func(r *exchange.AccountRules) { *r = rules })
		require.NoError(t, err)
		require.Equal(t, exchange.OK, r.Reason)
	}
	free := func(id exchange.OrderID) { require.Equal(t, exchange.OK, m.do(cancelOf(id, "1")).Reason) }
	set(exchange.SymbolRules{Tick: 5, Lot: 3})
	free(m.do(buy("A", 3, 995)).Order)
	m.refused(exchange.OffTick, buy("A", 3, 996))
	m.refused(exchange.OffLot, buy("A", 4, 995))
	_, shares := m.free("2")
	require.Equal(t, exchange.OK, m.do(sell("A", exchange.Shares(shares.Lo), 2000)).Reason, "all free shares")
	require.Equal(t, exchange.Shares(999_999_996), exchange.Shares(shares.Lo))
	misfit, err := m.SetSymbolRules(background, "A", func(r *exchange.SymbolRules) { r.Tick = 3 })
	require.NoError(t, err)
	require.Equal(t, exchange.SymbolRulesResult{Reason: exchange.OffTick, Misfit: 4, MisfitLimit: 2000}, misfit)
	made := exchange.Command{Kind: exchange.MakeSymbol, Symbol: "A", More: &exchange.CommandMore{}}
	require.Equal(t, exchange.OK, m.do(made).Reason)
	made.More.Rules = exchange.SymbolRules{Tick: 5}
	require.Equal(t, exchange.OK, m.do(made).Reason)
	made.More.Rules = exchange.SymbolRules{Tick: 5, Lot: 1}
	require.Equal(t, exchange.RulesDiffer, m.do(made).Reason)

	set(exchange.SymbolRules{Band: 1e6}) // a band of 1 %
	free(m.do(buy("A", 1, 1010)).Order)
	m.refused(exchange.OutsideBand, buy("A", 1, 1011))
	m.all(cancelOf(4, "2"))
	require.Equal(t, exchange.OutsideBand, m.do(sell("A", 1, 989)).Reason)
	require.Equal(t, exchange.OK, m.do(sell("A", 1, 990)).Reason)
	set(exchange.SymbolRules{})

	limits(exchange.AccountRules{SharesMax: 3})
	free(m.do(buy("A", 3, 1)).Order)
	m.refused(exchange.OrderTooLarge, buy("A", 4, 1))
	limits(exchange.AccountRules{NotionalMax: exchange.Notional(3, 5)})
	free(m.do(buy("A", 3, 5)).Order)
	m.refused(exchange.NotionalExceeded, buy("A", 2, 8))
	limits(exchange.AccountRules{OpenMax: 1})
	id := m.do(buy("A", 1, 1)).Order
	m.refused(exchange.AccountOrdersExceeded, buy("A", 1, 1))
	require.Equal(t, exchange.OK, m.do(ioc(buy("A", 1, 1))).Reason, "an IOC does not rest")
	require.Equal(t, exchange.OK, m.do(amend(id, "1", exchange.Buy, 2, 2)).Reason, "the number of open orders is the same")
	m.agrees()
	again := exchange.NewState()
	for _, e := range m.events(1) {
		require.NoError(t, again.Apply(&e))
	}
	require.Equal(t, int64(1), again.Ledger.Account("1").Rules().OpenMax)
}

// TestAmends checks amends in place, amends by a replacement, and rejected amends.
func TestAmends(t *testing.T) {
	m := open(t, Options{})
	m.all(buy("A", 10, 5), buy("A", 10, 5), sell("A", 4, 5)) // order 1 has executed 4
	cash, _ := m.free("1")
	for _, c := range []struct {
		reason  exchange.RejectReason
		command exchange.Command
	}{
		{exchange.AmountExecuted, amend(1, "1", exchange.Buy, 4, 0)},
		{exchange.AmountSide, amend(1, "1", exchange.Sell, 8, 0)},
		{exchange.ForeignOrder, amend(1, "2", exchange.Buy, 8, 0)},
		{exchange.UnknownOrder, amend(9, "1", exchange.Buy, 8, 0)},
		{exchange.AlreadyExecuted, amend(3, "2", exchange.Sell, 8, 0)},
		{exchange.InsufficientFunds, amend(1, "1", exchange.Buy, 1_000_000, 5)},
	} {
		m.refused(c.reason, c.command)
	}
	m.halt("A", "")
	m.refused(exchange.Halted, amend(1, "1", exchange.Buy, 11, 0))
	appended := m.journal.Appended()
	require.Equal(t, exchange.Result{Order: 1, Amended: &exchange.Amended{Open: 6}},
		m.do(amend(1, "1", exchange.Buy, 10, 5)))
	require.Equal(t, appended, m.journal.Appended(), "nothing changes")
	require.Equal(t, exchange.Result{Order: 1, Amended: &exchange.Amended{Open: 4, Reduced: 2, Time: 77}},
		m.do(amend(1, "1", exchange.Buy, 8, 0)), "a reduction works while the symbol is halted")
	m.resume("A")
	now, _ := m.free("1")
	require.Equal(t, exchange.Notional(2, 5), now.Sub(cash))
	require.Equal(t, exchange.Status{Open: 4, Changes: &exchange.Changes{Reduced: 2, ReducedAt: 77},
		Executions: []exchange.Execution{{Shares: 4, Price: 5, Time: 77}}}, m.do(queryOf(1)).Status)
	m.all(sell("A", 1, 5))
	require.Equal(t, exchange.Shares(3), m.do(queryOf(1)).Status.Open, "it has kept its place")

	first := m.journal.Appended() + 1
	got := m.do(reported(amend(1, "1", exchange.Buy, 9, 6)))
	require.Equal(t, exchange.Result{Order: 1, Amended: &exchange.Amended{By: 5}, Status: exchange.Status{Open: 4}}, got)
	require.Len(t, m.events(first), 1, "one record")
	status := m.do(queryOf(1)).Status
	require.Equal(t, exchange.OrderID(5), status.Changes.Replaced)
	require.Equal(t, exchange.Shares(3), status.Canceled)
	require.Equal(t, exchange.AlreadyCanceled, m.do(amend(1, "1", exchange.Buy, 10, 6)).Reason)
	m.all(sell("A", 1, 6))
	require.Equal(t, exchange.AmountExecuted, m.do(amend(5, "1", exchange.Buy, 6, 0)).Reason,
		"4 and 1 before it, 1 itself")
	require.Equal(t, exchange.Shares(6), m.do(amend(5, "1", exchange.Buy, 6, 0)).Details.Executed)
	m.all(sell("A", 2, 7))
	got = m.do(reported(amend(5, "1", exchange.Buy, 0, 7)))
	require.Equal(t, exchange.Result{Order: 5, Amended: &exchange.Amended{By: 8}, Status: exchange.Status{Open: 1,
		Executions: []exchange.Execution{{Shares: 2, Price: 7, Time: 77}}}}, got, "it executes on arrival")
	stats := m.Stats()
	require.EqualValues(t, 2, stats.OpenOrders)
	require.EqualValues(t, 3, stats.Instructions.Amends)
	require.EqualValues(t, 6, stats.ClosedOrders)
	m.agrees()
}

// TestRefsOfAChain: each ref of a chain names its newest order, and a repeated command gets its first answer.
func TestRefsOfAChain(t *testing.T) {
	m := open(t, Options{})
	order := reported(named("o", buy("A", 10, 5)))
	require.Equal(t, exchange.Result{Order: 1, Status: exchange.Status{Open: 10}}, m.do(order))
	byRef := func(c exchange.Command) exchange.Command { c.Order, c.Ref = 0, "o"; return c }
	cut := as("cut", byRef(amend(0, "1", exchange.Buy, 8, 0)))
	reduced := m.do(cut)
	require.Equal(t, exchange.Result{Order: 1, Amended: &exchange.Amended{Open: 8, Reduced: 2, Time: 77}}, reduced)
	more := reported(as("more", byRef(amend(0, "1", exchange.Buy, 12, 6))))
	replaced := m.do(more)
	require.Equal(t, exchange.Result{Order: 1, Amended: &exchange.Amended{By: 2}, Status: exchange.Status{Open: 12}},
		replaced)
	m.all(sell("A", 3, 6))
	appended := m.journal.Appended()
	require.Equal(t, exchange.Result{Order: 1, Status: exchange.Status{Open: 10}}, m.do(order), "with its first id")
	require.Equal(t, reduced, m.do(cut))
	require.Equal(t, replaced, m.do(more))
	byID := more
	byID.Ref, byID.Order = "", 2
	require.Equal(t, replaced, m.do(byID), "it names the same chain")
	require.Equal(t, exchange.RefUsed, m.do(as("more", byRef(amend(0, "1", exchange.Buy, 13, 6)))).Reason)
	require.Equal(t, exchange.RefUsed, m.do(as("o", byRef(amend(0, "1", exchange.Buy, 13, 6)))).Reason)
	require.Equal(t, exchange.RefUsed, m.do(named("cut", buy("A", 10, 5))).Reason)
	require.Equal(t, appended, m.journal.Appended())
	for _, ref := range []exchange.Ref{"o", "cut", "more"} {
		got := m.do(exchange.Command{Kind: exchange.QueryOrder, Account: "1", Ref: ref})
		require.Equal(t, exchange.OrderID(2), got.Order)
		require.Equal(t, exchange.Shares(9), got.Status.Open)
	}
	same := as("same", byRef(amend(0, "1", exchange.Buy, 12, 0)))
	require.Equal(t, exchange.Result{Order: 2, Amended: &exchange.Amended{Open: 9}}, m.do(same))
	require.Equal(t, appended+1, m.journal.Appended(), "its ref is used")
	require.Equal(t, exchange.Result{Order: 2, Amended: &exchange.Amended{Open: 9}}, m.do(same))
	require.Equal(t, exchange.OK, m.do(exchange.Command{Kind: exchange.CancelOrder, Account: "1", Ref: "o"}).Reason)
	require.Equal(t, exchange.AlreadyCanceled, m.do(byRef(amend(0, "1", exchange.Buy, 20, 0))).Reason)
	require.Equal(t, replaced, m.do(more), "even if nothing is open any more")
	m.agrees()
}

// TestAnAmendOfAClientThatLagsMayOnlyReduce: with Lags, an amend that would replace its order is rejected and uses no
// ref; one that reduces, changes nothing, or was done before is not.
func TestAnAmendOfAClientThatLagsMayOnlyReduce(t *testing.T) {
	m := open(t, Options{})
	m.all(buy("A", 10, 5))
	lags := func(c exchange.Command) exchange.Result { return m.ask(Request{Command: c, Lags: true}) }
	grown := as("r", amend(1, "1", exchange.Buy, 11, 0))
	for _, c := range []exchange.Command{grown, amend(1, "1", exchange.Buy, 5, 4), amend(1, "1", exchange.Buy, 0, 4)} {
		r := lags(c)
		require.Equal(t, exchange.RateExceeded, r.Reason)
		require.Equal(t, "account 1 exceeds its limit of records, fills and cancels that account views and market data "+
			"have still to process; try again later", r.Text(&c))
	}
	require.EqualValues(t, 2, lags(amend(1, "1", exchange.Buy, 8, 5)).Amended.Reduced)
	require.EqualValues(t, 8, lags(as("same", amend(1, "1", exchange.Buy, 8, 0))).Amended.Open)
	require.Equal(t, exchange.OrderID(2), m.do(grown).Amended.By)
	require.Equal(t, exchange.OrderID(2), lags(grown).Amended.By)
	r := m.ask(Request{Command: named("s", buy("A", 1, 5)), Lags: true, Repeat: true})
	require.Contains(t, r.Text(&exchange.Command{Account: "1"}), "still to process")
}

// TestARefOfAnAmendIsUsedOnce sends several amends with one new ref at the same moment.
func TestARefOfAnAmendIsUsedOnce(t *testing.T) {
	m := open(t, Options{})
	m.all(buy("A", 100, 5))
	results := make(chan exchange.Result, 16)
	for range cap(results) {
		go func() { results <- m.do(as("r", amend(1, "1", exchange.Buy, 50, 6))) }()
	}
	for range cap(results) {
		require.Equal(t, exchange.Result{Order: 1, Amended: &exchange.Amended{By: 2}}, <-results)
	}
	m.agrees()
}

// TestWhatMemoryHasForgottenOfAChainTheHistoryKnows: orders and refs of a chain that have left memory are found in the
// history.
func TestWhatMemoryHasForgottenOfAChainTheHistoryKnows(t *testing.T) {
	db := &database{}
	m := open(t, Options{Projection: db, History: db, ClosedOrdersMax: 1})
	order := reported(named("o", buy("A", 10, 5)))
	m.do(order)
	more := reported(as("more", amend(1, "1", exchange.Buy, 12, 6)))
	replaced := m.do(more)
	require.Equal(t, exchange.OrderID(2), replaced.Amended.By)
	for n := range 50 {
		m.all(buy("A", 1, 1), cancelOf(exchange.OrderID(3+n), "1"))
	}
	db.atFirst.Store(exchange.OrderID(1), exchange.ClosedOrder{Account: "1", Seq: 1,
		PublicOrder: exchange.PublicOrder{Symbol: "A", Status: exchange.Status{Open: 10}}})
	db.atFirst.Store(exchange.OrderID(2), exchange.ClosedOrder{Account: "1", Seq: 1,
		PublicOrder: exchange.PublicOrder{Symbol: "A", Status: exchange.Status{Open: 12}}})
	closed := exchange.ClosedOrder{Account: "1", Seq: 1, PublicOrder: exchange.PublicOrder{Symbol: "A",
		Status: exchange.Status{Canceled: 10, CanceledAt: 77, Changes: &exchange.Changes{Replaced: 2}}}}
	db.orders.Store(exchange.OrderID(1), closed)
	db.applied.Store(m.journal.Appended())
	require.Eventually(t, func() bool {
		m.do(queryOf(9))
		_, held := m.index.Book(1)
		return !held
	}, time.Minute, time.Millisecond)
	byRef := exchange.Command{Kind: exchange.QueryOrder, Account: "1", Ref: "o"}
	require.Equal(t, exchange.Shares(12), m.do(byRef).Status.Open,
		"its newest order is in memory")
	require.Equal(t, exchange.Result{Order: 1, Status: exchange.Status{Open: 10}}, m.do(order))
	require.Equal(t, replaced, m.do(more), "named by the id of an order that is not in memory")
	require.Equal(t, exchange.RefUsed, m.do(as("more", amend(1, "1", exchange.Buy, 13, 6))).Reason)
	require.Equal(t, exchange.RefUsed, m.do(as("more", amend(3, "1", exchange.Buy, 12, 6))).Reason, "another chain")
	require.Equal(t, exchange.AlreadyCanceled, m.do(amend(1, "1", exchange.Buy, 12, 6)).Reason)
	require.Equal(t, exchange.ForeignOrder, m.do(amend(1, "2", exchange.Buy, 12, 6)).Reason)
	db.away.Store(true)
	require.Equal(t, exchange.HistoryUnavailable, m.do(order).Reason)
	db.away.Store(false)

	m.all(cancelOf(2, "1"))
	db.newest.Store(exchange.OrderID(1), exchange.OrderID(2))
	db.orders.Store(exchange.OrderID(2), exchange.ClosedOrder{Account: "1", Seq: 1, PublicOrder: exchange.PublicOrder{
		Symbol: "A", Status: exchange.Status{Canceled: 12, CanceledAt: 77}}})
	for n := range 50 {
		m.all(buy("A", 1, 1), cancelOf(exchange.OrderID(53+n), "1"))
	}
	db.applied.Store(m.journal.Appended())
	require.Eventually(t, func() bool {
		m.do(queryOf(9))
		_, held := m.index.Book(2)
		return !held
	}, time.Minute, time.Millisecond)
	got := m.do(byRef)
	require.Equal(t, exchange.Result{Order: 2, Status: exchange.Status{Canceled: 12, CanceledAt: 77}}, got)
	require.Equal(t, replaced, m.do(more), "its report comes from the history")
}

// TestAnAmendOfAnOrderThatEndsWithItsConnection: the replacement ends with the connection as well.
func TestAnAmendOfAnOrderThatEndsWithItsConnection(t *testing.T) {
	m := open(t, Options{})
	origin, other := m.NewOrigin(), m.NewOrigin()
	m.ask(cod(buy("A", 10, 5), origin))
	require.Equal(t, exchange.OK, m.ask(Request{Command: amend(1, "1", exchange.Buy, 20, 5), Origin: other}).Reason)
	m.EndOrigin(other)
	m.do(queryOf(2))
	require.EqualValues(t, 1, m.Stats().OpenOrders)
	m.EndOrigin(origin)
	m.untilOpen(0)
	require.Equal(t, exchange.Shares(20), m.do(queryOf(2)).Status.Canceled)
	m.agrees()
}

// TestRandomInstructionsAreReplayed: a replay of the journal leads to the engine's state, also after a crash after any
// record. The commands are orders and amends of all kinds, in parts, of three accounts in two symbols, with rules,
// connections that end, switches and halts.
func TestRandomInstructionsAreReplayed(t *testing.T) {
	for range 4 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		c := &clock{}
		m := inParts(t, c.options())
		lot := exchange.Position{Lo: 5000}
		m.all(exchange.Command{Kind: exchange.DepositShares, Symbol: "A", Account: "1", Deposited: lot},
			exchange.Command{Kind: exchange.DepositShares, Symbol: "B", Account: "1", Deposited: lot},
			exchange.Command{Kind: exchange.OpenAccount, Account: "3", Balance: exchange.Notional(1000, 50)})
		origin := m.NewOrigin()
		for n := range 2000 {
			c.Add(random.Int64N(3))
			if random.IntN(40) == 0 {
				m.operate(random)
			}
			if random.IntN(50) == 0 {
				m.EndOrigin(origin)
				origin = m.NewOrigin()
			}
			r := Request{Command: m.draw(random), Origin: origin}
			got := m.ask(r)
			if r.Report && r.Kind == exchange.PlaceOrder && got.Reason == exchange.OK && r.Ref != "" {
				again := m.ask(r)
				require.Equal(t, got, again, "seed %d, command %d", seed, n)
			}
			require.NotEqual(t, exchange.Unresumed, got.Reason)
		}
		for _, d := range *m.numbered.Load() {
			require.NoError(t, m.call(background, &d.inbox, func() error { _, err := d.cancelAllDue(); return err }))
		}
		m.agrees()
		crashed := m.after(1+random.Uint64N(m.journal.Appended()), false)
		require.NoError(t, crashed.Catchup(background))
		crashed.agrees()
		m.Close()
		state := exchange.NewState()
		state.Index.FillsMax = m.index.FillsMax
		for _, e := range m.events(1) {
			require.NoError(t, state.Apply(&e), "seed %d", seed)
		}
		require.NoError(t, state.Audit(), "seed %d", seed)
		require.NoError(t, m.State().Audit(), "seed %d", seed)
		require.Equal(t, state.Digest(), m.State().Digest(), "seed %d", seed)
		m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // the market's cleanup closes it
	}
}

// operate makes one random change as an operator.
func (m *market) operate(random *rand.Rand) {
	id, sym := exchange.AccountID(rune('1'+random.IntN(3))), []exchange.Symbol{"A", "B"}[random.IntN(2)]
	var err error
	switch random.IntN(6) {
	case 0:
		m.halt(sym, "")
	case 1:
		m.resume(sym)
	case 2:
		if _, err = m.Block(background, id, ""); random.IntN(3) > 0 && err == nil {
			_, err = m.Unblock(background, id)
		}
	case 3:
		_, err = m.Unblock(background, id)
	case 4:
		_, err = m.SetSymbolRules(background, sym, func(r *exchange.SymbolRules) {
			r.Band, r.Lot = exchange.Fraction(random.IntN(2)*50_000_000), exchange.Shares(random.IntN(3))
		})
	case 5:
		_, err = m.SetAccountRules(background, id, func(r *exchange.AccountRules) {
			r.STP, r.SharesMax = exchange.SelfTrade(random.IntN(4)), exchange.Shares(random.IntN(2)*20)
		})
	}
	require.NoError(m.t, err)
	m.resume(sym)
}

// draw returns a random command.
func (m *market) draw(random *rand.Rand) exchange.Command {
	c := buy([]exchange.Symbol{"A", "B"}[random.IntN(2)], exchange.Shares(1+random.IntN(12)),
		exchange.Price(20+random.IntN(10)))
	c.Account = exchange.AccountID(rune('1' + random.IntN(3)))
	if random.IntN(2) == 0 {
		c.Side = exchange.Sell
	}
	known := exchange.OrderID(1 + random.IntN(int(m.lastOrder.Load())+1))
	known = max(known, exchange.OrderID(m.lastOrder.Load())-exchange.OrderID(random.IntN(20))) // mostly a recent order
	switch random.IntN(20) {
	case 0, 1:
		return cancelOf(known, c.Account)
	case 2, 3, 4, 5:
		c = amend(known, c.Account, c.Side, exchange.Shares(random.IntN(14)),
			exchange.Price(random.IntN(2)*(20+random.IntN(10))))
		if c.Shares+exchange.Shares(c.Limit) == 0 {
			c.Limit = 25
		}
		if random.IntN(2) == 0 {
			c = as(exchange.Ref("a"+string(rune('a'+random.IntN(26)))), c)
		}
		return c
	case 6:
		return cancelAfter(c.Account, random.IntN(2))
	case 7:
		return cancelAllOf(c.Account, c.Symbol)
	}
	if random.IntN(4) == 0 {
		c.Ref, c.Report = exchange.Ref(rune('a'+random.IntN(26))), true
	}
	c.STP, c.OnDisconnect = exchange.SelfTrade(random.IntN(4)), random.IntN(3) == 0
	switch random.IntN(6) {
	case 0:
		c.TIF = exchange.IOC
	case 1:
		c.TIF = exchange.FOK
	case 2:
		c.Post = true
	case 3:
		c.Type, c.TIF, c.Limit = exchange.Market, exchange.IOC, exchange.Price(random.IntN(2)*int(c.Limit))
	}
	return c
}
