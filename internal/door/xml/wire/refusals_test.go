package wire

import (
	"testing"

	"outcry/internal/exchange"
)

// refused is a result of the first command of a frame, and a text that its reply must contain.
type refused struct {
	result exchange.Result
	want   string
}

// instructedRefusals returns the rejects of orders with instructions, amends and account queries.
func instructedRefusals(t *testing.T) map[string][]refused {
	const unit = 1e8
	more := func(reason exchange.RejectReason, m exchange.ResultMore) exchange.Result {
		return exchange.Result{Reason: reason, More: &m}
	}
	rules := exchange.SymbolRules{Tick: unit / 20, Lot: 10 * unit}
	asked := &exchange.Command{Kind: exchange.AmendOrder, Account: "1", Symbol: "A", Order: 7, Shares: 50 * unit,
		Terms: exchange.Terms{Side: exchange.Buy, Limit: 897 * unit}}
	sell := *asked
	sell.Side = exchange.Sell
	funds := more(exchange.InsufficientFunds, exchange.ResultMore{Needs: dollars(t, "14567")})
	funds.CashHave = dollars(t, "20")
	amended := more(exchange.InsufficientFunds, exchange.ResultMore{Asked: asked})
	amended.CashHave = dollars(t, "8860.5")
	shares := more(exchange.InsufficientShares, exchange.ResultMore{Asked: &sell})
	shares.SharesHave = units(t, "0.5")
	halted := more(exchange.Halted, exchange.ResultMore{Asked: asked})
	halted.More.Halt = &exchange.Halt{Since: 1519348326_987654321, Reason: "news"}
	small := more(exchange.OrderTooSmall, exchange.ResultMore{Needs: dollars(t, "1.5")})
	small.More.Least = &exchange.Cash{Lo: 2e16}
	many := more(exchange.AccountOrdersExceeded, exchange.ResultMore{Bound: "3"})
	many.Most = 3
	return map[string][]refused{
		`<transactions id="1"><order sym="SPY" amount="100" limit="145.67" tif="FOK"/></transactions>`: {
			{more(exchange.CannotFill, exchange.ResultMore{Could: 60 * unit}), `<error sym="SPY" amount="100" limit="145.67" ` +
				`tif="FOK">100 SPY at 145.67 cannot be filled at once: 60 could</error>`},
			{more(exchange.OffTick, exchange.ResultMore{Rules: rules}), `>limit 145.67 is not a multiple of the tick 0.05<`},
			{more(exchange.OffLot, exchange.ResultMore{Rules: rules}), `>amount 100 is not a multiple of the lot 10<`},
			{more(exchange.OutsideBand, exchange.ResultMore{Bound: "145.5"}), `>limit 145.67 is too far from the last trade ` +
				`of SPY: the bound is 145.5<`},
			{more(exchange.OrderTooLarge, exchange.ResultMore{Bound: "99"}), `>100 shares are more than account 1 may place ` +
				`in an order: 99<`},
			{more(exchange.NotionalExceeded, exchange.ResultMore{Needs: dollars(t, "14567"), Bound: "14566"}),
				`>14567 is more than account 1 may place in an order: 14566<`},
			{more(exchange.Blocked, exchange.ResultMore{Reason: "margin <call>"}), `>account 1 is blocked and cannot place ` +
				`or amend orders; cancel and query work: margin &lt;call&gt;<`},
			{exchange.Result{Reason: exchange.Blocked}, `or amend orders; cancel and query work<`},
			{more(exchange.NotReadYet, exchange.ResultMore{Reason: "node 2"}), `>not every node of the cluster can read ` +
				`what this would write: node 2<`},
			{exchange.Result{Reason: exchange.Unresumed}, `>the exchange accepts no orders until it has canceled what was due ` +
				`while it was down; cancel and query work<`},
			{many, `>account 1 is at its limit of open orders, 3; cancel and query still work<`},
		},
		`<transactions id="1"><order sym="SPY" amount="100" limit="100" post="yes"/></transactions>`: {
			{more(exchange.WouldExecute, exchange.ResultMore{Best: 99.5 * unit}),
				`>limit 100 would execute at once: the best sell is 99.5<`},
		},
		`<transactions id="1"><order sym="SPY" amount="100" type="market"/></transactions>`: {
			{exchange.Result{Reason: exchange.NobodyOpposite},
				`<error sym="SPY" amount="100" type="market">no sell orders for SPY</error>`},
			{funds, `buying 100 at market needs 14567, account 1 has 20<`},
			{more(exchange.CannotFill, exchange.ResultMore{}), `>100 SPY at market cannot be filled at once: 0 could<`},
			{small, `>100 SPY at market is worth 1.5, and the minimum is 2 (--min-order-value)<`},
		},
		`<transactions id="1"><order sym="SPY" amount="-100" type="market"/></transactions>`: {
			{exchange.Result{Reason: exchange.NobodyOpposite}, `>no buy orders for SPY<`},
		},
		`<transactions id="1"><amend ref="r" amount="50" newref="n"/></transactions>`: {
			{more(exchange.AmountExecuted, exchange.ResultMore{Executed: 200 * unit}), `<error amount="50" ref="r" newref="n">` +
				`order 0 has executed 200 already</error>`},
			{exchange.Result{Reason: exchange.AmountSide, Order: 7}, `>the amount of order 7 has the other sign<`},
			{amended, `>insufficient funds: buying 50 at 897 needs more than order 7 holds and the 8860.5 that account 1 has<`},
			{shares, `>insufficient shares: selling 50 of A needs more than order 7 holds and the 0.5 that account 1 has<`},
			{halted, `>symbol A is halted since 2018-02-23T01:12:06Z`},
			{more(exchange.WouldExecute, exchange.ResultMore{Asked: asked, Best: unit}),
				`>limit 897 would execute at once: the best sell is 1<`},
			{more(exchange.OutsideBand, exchange.ResultMore{Asked: asked, Bound: "1"}), `the last trade of A: the bound is 1<`},
		},
		`<create><symbol sym="A" tick="0.01" lot="1"><account id="1">5</account><b/></symbol></create>`: {
			{more(exchange.RulesDiffer, exchange.ResultMore{Rules: rules}), `<results><error sym="A" tick="0.01" lot="1">` +
				`symbol A has the tick 0.05 and the lot 10</error></results>`},
		},
		`<transactions id="1"><cancel-all/></transactions>`: {
			{exchange.Result{Reason: exchange.TooManyCancelAlls},
				`<error>account 1 exceeds its limit of ten cancel-alls per second; try again later</error>`},
		},
		`<transactions id="1"><fills after="1"/></transactions>`: {
			{exchange.Result{Reason: exchange.FillsForgotten},
				`<error after="1">these fills are older than those kept</error>`},
			{exchange.Result{Reason: exchange.ViewUnavailable}, `>the view of accounts does not answer now; trading goes on<`},
		},
	}
}
