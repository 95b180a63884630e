package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestAnAccountMakesAShardWalkNoMoreThanItCanPayFor: a market buy is rejected once its cost exceeds the account's
// cash. An FOK or a sell that the account cannot cover is rejected before any order is visited.
func TestAnAccountMakesAShardWalkNoMoreThanItCanPayFor(t *testing.T) {
	m := open(t, Options{})
	const orders = exchange.FillsMax + 500
	for range orders {
		require.Equal(t, exchange.OK, m.do(sell("A", 2, 5)).Reason)
	}
	m.all(exchange.Command{Kind: exchange.OpenAccount, Account: "3", Balance: exchange.Notional(2*exchange.FillsMax-1, 5)},
		exchange.Command{Kind: exchange.OpenAccount, Account: "4", Balance: exchange.Notional(2*orders, 5)})
	as := func(id exchange.AccountID, c exchange.Command) exchange.Command { c.Account = id; return c }
	unlimited := func(c exchange.Command) exchange.Command { c.Limit = 0; return c }
	looked := func() (orders int) {
		d := m.shard("A")
		require.NoError(t, m.call(background, &d.inbox, func() error { orders = d.judged.quote.Orders; return nil }))
		return orders
	}
	all := exchange.Shares(2 * orders)

	for _, c := range []exchange.Command{
		as("3", atMarket(buy("A", all, 9))), as("3", unlimited(atMarket(buy("A", all, 9)))),
		as("3", with(atMarket(buy("A", all, 9)), func(t *exchange.Terms) { t.TIF = exchange.FOK })),
	} {
		r := m.refused(exchange.InsufficientFunds, c)
		require.Equal(t, exchange.FillsMax, looked())
		require.Equal(t, exchange.Notional(2*exchange.FillsMax, 5), r.Details.Needs)
		require.Contains(t, r.Text(&c), r.Details.Needs.String()+" or more, account 3 has ")
	}
	c := as("3", atMarket(buy("A", 2*exchange.FillsMax-1, 5)))
	require.Equal(t, exchange.FillsMax, int(m.shard("A").book.Quote(&exchange.Order{Account: m.ledger.Account("3"),
		Terms: c.Terms, Shares: c.Shares, Open: c.Shares}).Orders))
	m.refused(exchange.InsufficientFunds, as("3", fok(buy("A", all, 5))))
	require.Zero(t, looked())
	m.refused(exchange.InsufficientShares, as("3", fok(sell("A", all, 5))))
	m.refused(exchange.NobodyOpposite, as("3", atMarket(sell("A", all, 5))))
	m.all(buy("A", 1, 4))
	m.refused(exchange.InsufficientShares, as("3", atMarket(sell("A", all, 4))))
	require.Zero(t, looked())
	require.Equal(t, exchange.OK, m.do(c).Reason, "exactly what it has")
	cash, _ := m.free("3")
	require.Zero(t, cash)
	m.agrees()

	rest := as("4", fok(buy("A", all-c.Shares+1, 5)))
	require.Equal(t, all-c.Shares, m.refused(exchange.CannotFill, rest).Details.Could)
	rest.Shares--
	require.Equal(t, exchange.OK, m.do(rest).Reason)
	m.agrees()
}
