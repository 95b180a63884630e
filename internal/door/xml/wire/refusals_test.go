package wire

import (
	"testing"

	"outcry/internal/exchange"
)

// refused holds a result for the first command of a frame, and a text that the reply must contain.
type refused struct {
	result exchange.Result
	want   string
}

// instructedRefusals returns the rejects of orders with instructions, amends and account queries.
func instructedRefusals(t *testing.T) map[string][]refused {
	const unit = 1e8
	type details = exchange.RejectDetails
	why := func(reason exchange.RejectReason, d details) exchange.Result {
		return exchange.Result{Reason: reason, Details: &d}
	}
	rules := exchange.SymbolRules{Tick: unit / 20, Lot: 10 * unit}
	asked := &exchange.Command{Kind: exchange.AmendOrder, Account: "1", Symbol: "A", Order: 7, Shares: 50 * unit,
		Terms: exchange.Terms{Side: exchange.Buy, Limit: 897 * unit}}
	sell := *asked
	sell.Side = exchange.Sell
	funds := why(exchange.InsufficientFunds, details{Needs: dollars(t, "14567")})
	funds.CashHave = dollars(t, "20")
	amended := why(exchange.InsufficientFunds, details{Asked: asked})
	amended.CashHave = dollars(t, "8860.5")
	shares := why(exchange.InsufficientShares, details{Asked: &sell})
	shares.SharesHave = units(t, "0.5")
	halted := why(exchange.Halted, details{Asked: asked})
	halted.Details.Halt = &exchange.Halt{Since: 1519348326_987654321, Reason: "news"}
	small := why(exchange.OrderTooSmall, details{Needs: dollars(t, "1.5")})
	small.Details.Least = &exchange.Cash{Lo: 2e16}
	many := why(exchange.AccountOrdersExceeded, details{Bound: "3"})
	many.Most = 3
	return map[string][]refused{
		`<transactions id="1"><order sym="SPY" amount="100" limit="145.67" tif="FOK"/></transactions>`: {
			{why(exchange.CannotFill, details{Could: 60 * unit}), `<error sym="SPY" amount="100" limit="145.67" ` +
				`tif="FOK">100 SPY at 145.67 cannot be filled at once: 60 could</error>`},
			{why(exchange.OffTick, details{Rules: rules}), `>limit 145.67 is not a multiple of the tick 0.05<`},
			{why(exchange.OffLot, details{Rules: rules}), `>amount 100 is not a multiple of the lot 10<`},
			{why(exchange.OutsideBand, details{Bound: "145.5"}), `>limit 145.67 is too far from the last trade ` +
				`of SPY: the bound is 145.5<`},
			{why(exchange.OrderTooLarge, details{Bound: "99"}), `>100 shares are more than account 1 may place ` +
				`in an order: 99<`},
			{why(exchange.NotionalExceeded, details{Needs: dollars(t, "14567"), Bound: "14566"}),
				`>14567 is more than account 1 may place in an order: 14566<`},
			{why(exchange.Blocked, details{Reason: "margin <call>"}), `>account 1 is blocked and cannot place ` +
				`or amend orders; cancel and query work: margin &lt;call&gt;<`},
			{exchange.Result{Reason: exchange.Blocked}, `or amend orders; cancel and query work<`},
			{why(exchange.NotReadYet, details{Reason: "node 2"}), `>not every node of the cluster can read ` +
				`what this would write: node 2<`},
			{exchange.Result{Reason: exchange.Unresumed}, `>the exchange accepts no orders until it has canceled what was due ` +
				`while it was down; cancel and query work<`},
			{many, `>account 1 is at its limit of open orders, 3; cancel and query still work<`},
		},
		`<transactions id="1"><order sym="SPY" amount="100" limit="100" post="yes"/></transactions>`: {
			{why(exchange.WouldExecute, details{Best: 99.5 * unit}),
				`>limit 100 would execute at once: the best sell is 99.5<`},
		},
		`<transactions id="1"><order sym="SPY" amount="100" type="market"/></transactions>`: {
			{exchange.Result{Reason: exchange.NobodyOpposite},
				`<error sym="SPY" amount="100" type="market">no sell orders for SPY</error>`},
			{funds, `buying 100 at market needs 14567, account 1 has 20<`},
			{why(exchange.CannotFill, details{}), `>100 SPY at market cannot be filled at once: 0 could<`},
			{small, `>100 SPY at market is worth 1.5, and the minimum is 2 (--min-order-value)<`},
		},
		`<transactions id="1"><order sym="SPY" amount="-100" type="market"/></transactions>`: {
			{exchange.Result{Reason: exchange.NobodyOpposite}, `>no buy orders for SPY<`},
		},
		`<transactions id="1"><amend ref="r" amount="50" newref="n"/></transactions>`: {
			{why(exchange.AmountExecuted, details{Executed: 200 * unit}), `<error amount="50" ref="r" newref="n">` +
				`order 0 has executed 200 already</error>`},
			{exchange.Result{Reason: exchange.AmountSide, Order: 7}, `>the amount of order 7 has the opposite sign<`},
			{amended, `>insufficient funds: buying 50 at 897 needs more than order 7 holds and the 8860.5 that account 1 has<`},
			{shares, `>insufficient shares: selling 50 of A needs more than order 7 holds and the 0.5 that account 1 has<`},
			{halted, `>symbol A is halted since 2018-02-23T01:12:06Z`},
			{why(exchange.WouldExecute, details{Asked: asked, Best: unit}),
				`>limit 897 would execute at once: the best sell is 1<`},
			{why(exchange.OutsideBand, details{Asked: asked, Bound: "1"}), `the last trade of A: the bound is 1<`},
		},
		`<create><symbol sym="A" tick="0.01" lot="1"><account id="1">5</account><b/></symbol></create>`: {
			{why(exchange.RulesDiffer, details{Rules: rules}), `<results><error sym="A" tick="0.01" lot="1">` +
				`symbol A has the tick 0.05 and the lot 10</error></results>`},
		},
		`<transactions id="1"><cancel-all/></transactions>`: {
			{exchange.Result{Reason: exchange.TooManyCancelAlls},
				`<error>account 1 exceeds its limit of ten cancel-alls per second; try again later</error>`},
		},
		`<transactions id="1"><fills after="1"/></transactions>`: {
			{exchange.Result{Reason: exchange.FillsForgotten},
				`<error after="1">these fills are older than those kept</error>`},
			{exchange.Result{Reason: exchange.ViewUnavailable}, `>the view of accounts does not answer now; trading continues<`},
		},
	}
}
