package jsonrpc

import (
	"outcry/internal/exchange"
)

// fillsMax is how many fills of an order a result shows at most: the newest ones.
const fillsMax = exchange.ReportExecutionsMax

// appendOrder appends an order without its fills. It leaves the JSON object open.
func appendOrder(b []byte, o *exchange.OrderDetail) []byte {
	b = memberNumber(append(b, '{'), "id", o.ID)
	if o.Ref != "" {
		b = memberName(b, "ref", o.Ref)
	}
	if o.NewRef != "" {
		b = memberName(b, "newref", o.NewRef)
	}
	b = memberName(b, "sym", o.Symbol)
	b = append(appendName(b, "amount"), '"')
	if o.Side == exchange.Sell {
		b = append(b, '-')
	}
	b = append(o.Total().Append(b), '"')
	b = memberName(b, "type", o.Type.String())
	if o.Unsent&exchange.UnsentLimit == 0 {
		b = memberDecimal(b, "limit", o.Limit)
	}
	if o.Type == exchange.Market {
		b = memberDecimal(b, "protection", o.Limit)
	}
	b = memberBool(memberBool(memberName(b, "tif", o.TIF.String()), "post", o.Post), "cod", o.OnDisconnect)
	if o.STP != exchange.TradeWithSelf {
		b = memberName(b, "stp", o.STP.String())
	}
	b = memberName(b, "state", stateName(o.State))
	if o.State == exchange.StatusCanceled {
		b = memberName(b, "why", whyName(o.Why))
	}
	b = memberDecimal(memberDecimal(b, "open", o.Open), "executed", o.Executed)
	b = memberDecimal(memberDecimal(b, "notional", o.Notional), "reduced", o.Reduced)
	b = memberDecimal(b, "canceled", o.Canceled)
	if o.Before > 0 {
		b = memberDecimal(b, "before", o.Before)
	}
	if o.Replaces > 0 {
		b = memberNumber(b, "replaces", o.Replaces)
	}
	if o.By > 0 {
		b = memberNumber(b, "by", o.By)
	}
	return memberTime(memberTime(b, "time", o.Time), "changed", o.Changed)
}

// memberOrder appends the member order of a result, with the newest of fills. fills are sorted, oldest first.
func memberOrder(b []byte, o *exchange.OrderDetail, fills []exchange.AccountFill) []byte {
	fills = fills[max(0, len(fills)-fillsMax):]
	b = memberFills(appendOrder(appendName(b, "order"), o), fills)
	return append(b, '}')
}

// stateName returns the name of an order's state in messages.
func stateName(s exchange.OrderStatus) string {
	switch s {
	case exchange.StatusOpen:
		return "open"
	case exchange.StatusExecuted:
		return "executed"
	case exchange.StatusCanceled:
		return "canceled"
	case exchange.StatusReplaced:
		return "replaced"
	}
	panic("rpc: an order has no state")
}

// whyName returns the name of a cancel's cause in messages.
func whyName(w exchange.WhyCanceled) string {
	switch w {
	case exchange.CanceledRest:
		return "rest"
	case exchange.CanceledSTP:
		return "stp"
	case exchange.CanceledDisconnect:
		return "disconnect"
	case exchange.CanceledTimer:
		return "timer"
	case exchange.CanceledByOperator:
		return "operator"
	case exchange.CanceledByOwner, exchange.NotCanceled: // NotCanceled: from a database older than causes
		return "cancel"
	}
	panic("rpc: a canceled order has no reason")
}

// memberOrders appends the member orders: orders without their fills.
func memberOrders(b []byte, orders []exchange.OrderDetail) []byte {
	return list(b, "orders", len(orders), func(b []byte, i int) []byte { return append(appendOrder(b, &orders[i]), '}') })
}

// memberFills appends the member fills.
func memberFills(b []byte, fills []exchange.AccountFill) []byte {
	return list(b, "fills", len(fills), func(b []byte, i int) []byte { return appendFill(b, &fills[i]) })
}

// appendFill appends a fill. A fill older than the numbering of trades has no member trade.
func appendFill(b []byte, f *exchange.AccountFill) []byte {
	b = memberNumber(memberNumber(append(b, '{'), "fill", f.N), "order", f.Order)
	if f.Trade > 0 {
		b = memberNumber(b, "trade", f.Trade)
	}
	b = memberName(memberName(b, "sym", f.Symbol), "side", f.Side.String())
	b = memberDecimal(memberDecimal(b, "shares", f.Shares), "price", f.Price)
	return append(memberTime(memberBool(b, "maker", f.Maker), "time", f.Time), '}')
}

// memberPositions appends the member positions.
func memberPositions(b []byte, all []exchange.PositionView) []byte {
	return list(b, "positions", len(all), func(b []byte, i int) []byte {
		p := &all[i]
		b = memberDecimal(memberName(append(b, '{'), "sym", p.Symbol), "shares", p.Shares)
		return append(memberDecimal(b, "held", p.Held), '}')
	})
}

// appendTrade appends the n-th trade of a symbol, without the accounts that traded.
func appendTrade(b []byte, n uint64, t *exchange.Trade) []byte {
	b = memberNumber(append(b, '{'), "id", n)
	b = memberDecimal(memberDecimal(b, "price", t.Price), "shares", t.Shares)
	b = memberName(b, "side", t.Side().String())
	b = memberNumber(memberNumber(b, "buy", t.Buy), "sell", t.Sell)
	return append(memberTime(b, "time", t.Time), '}')
}

// appendLevel appends a price level: the price, and the open shares at it.
func appendLevel(b []byte, price exchange.Price, shares exchange.Position) []byte {
	b = appendDecimal(append(b, '['), price)
	return append(appendDecimal(append(b, ','), shares), ']')
}
