package jsonrpc

import (
	"outcry/internal/exchange"
)

// fillsMax is how many fills an order in a result has at the most: the newest.
const fillsMax = exchange.ReportExecutionsMax

// appendOrder appends an order without its fills, and leaves the object open.
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
	b = append((o.Before + o.Open + o.Executed + o.Canceled).Append(b), '"')
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

// memberOrder appends an order as the member of a result, with its newest fills: of fills, which are oldest first.
func memberOrder(b []byte, o *exchange.OrderDetail, fills []exchange.AccountFill) []byte {
	fills = fills[max(0, len(fills)-fillsMax):]
	b = memberFills(appendOrder(appendName(b, "order"), o), fills)
	return append(b, '}')
}

// stateName returns a state of an order as messages have it.
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
	panic("rpc: an order is in no state")
}

// whyName returns a reason of a cancel as messages have it.
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
	case exchange.CanceledByOwner, exchange.NotCanceled: // the latter of a database that did not know reasons yet
		return "cancel"
	}
	panic("rpc: an order is canceled for no reason")
}

// memberOrders appends orders without their fills.
func memberOrders(b []byte, orders []exchange.OrderDetail) []byte {
	return list(b, "orders", len(orders), func(b []byte, i int) []byte { return append(appendOrder(b, &orders[i]), '}') })
}

// memberFills appends fills.
func memberFills(b []byte, fills []exchange.AccountFill) []byte {
	return list(b, "fills", len(fills), func(b []byte, i int) []byte { return appendFill(b, &fills[i]) })
}

// appendFill appends a fill. One that is older than the numbers of trades has none.
func appendFill(b []byte, f *exchange.AccountFill) []byte {
	b = memberNumber(memberNumber(append(b, '{'), "fill", f.N), "order", f.Order)
	if f.Trade > 0 {
		b = memberNumber(b, "trade", f.Trade)
	}
	b = memberName(memberName(b, "sym", f.Symbol), "side", f.Side.String())
	b = memberDecimal(memberDecimal(b, "shares", f.Shares), "price", f.Price)
	return append(memberTime(memberBool(b, "maker", f.Maker), "time", f.Time), '}')
}

// memberPositions appends positions.
func memberPositions(b []byte, all []exchange.PositionView) []byte {
	return list(b, "positions", len(all), func(b []byte, i int) []byte {
		p := &all[i]
		b = memberDecimal(memberName(append(b, '{'), "sym", p.Symbol), "shares", p.Shares)
		return append(memberDecimal(b, "held", p.Held), '}')
	})
}

// appendTrade appends the n-th trade of a symbol, without its accounts.
func appendTrade(b []byte, n uint64, t *exchange.Trade) []byte {
	b = memberNumber(append(b, '{'), "id", n)
	b = memberDecimal(memberDecimal(b, "price", t.Price), "shares", t.Shares)
	b = memberName(b, "side", t.Side().String())
	b = memberNumber(memberNumber(b, "buy", t.Buy), "sell", t.Sell)
	return append(memberTime(b, "time", t.Time), '}')
}

// appendLevel appends what is open at one price.
func appendLevel(b []byte, price exchange.Price, shares exchange.Position) []byte {
	b = appendDecimal(append(b, '['), price)
	return append(appendDecimal(append(b, ','), shares), ']')
}
