package jsonrpc

import (
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// fillsMax is how many fills of an order a result shows at most: the newest ones.
const fillsMax = exchange.ReportExecutionsMax

// appendOrder appends an order without its fills. It leaves the JSON object open.
func appendOrder(b []byte, o *exchange.OrderDetail) []byte {
	b = jsontext.Number(append(b, '{'), "id", o.ID)
	if o.Ref != "" {
		b = jsontext.Word(b, "ref", o.Ref)
	}
	if o.NewRef != "" {
		b = jsontext.Word(b, "newref", o.NewRef)
	}
	b = jsontext.Word(b, "sym", o.Symbol)
	b = append(jsontext.Name(b, "amount"), '"')
	if o.Side == exchange.Sell {
		b = append(b, '-')
	}
	b = append(o.Total().Append(b), '"')
	b = jsontext.Word(b, "type", o.Type.String())
	if o.Unsent&exchange.UnsentLimit == 0 {
		b = jsontext.Decimal(b, "limit", o.Limit)
	}
	if o.Type == exchange.Market {
		b = jsontext.Decimal(b, "protection", o.Limit)
	}
	b = jsontext.Bool(jsontext.Bool(jsontext.Word(b, "tif", o.TIF.String()), "post", o.Post), "cod", o.OnDisconnect)
	if o.STP != exchange.TradeWithSelf {
		b = jsontext.Word(b, "stp", o.STP.String())
	}
	b = jsontext.Word(b, "state", stateName(o.State))
	if o.State == exchange.StatusCanceled {
		b = jsontext.Word(b, "why", whyName(o.Why))
	}
	b = jsontext.Decimal(jsontext.Decimal(b, "open", o.Open), "executed", o.Executed)
	b = jsontext.Decimal(jsontext.Decimal(b, "notional", o.Notional), "reduced", o.Reduced)
	b = jsontext.Decimal(b, "canceled", o.Canceled)
	if o.Before > 0 {
		b = jsontext.Decimal(b, "before", o.Before)
	}
	if o.Replaces > 0 {
		b = jsontext.Number(b, "replaces", o.Replaces)
	}
	if o.By > 0 {
		b = jsontext.Number(b, "by", o.By)
	}
	return memberTime(memberTime(b, "time", o.Time), "changed", o.Changed)
}

// memberOrder appends the member order of a result, with the newest of fills. fills are sorted, oldest first.
func memberOrder(b []byte, o *exchange.OrderDetail, fills []exchange.AccountFill) []byte {
	fills = fills[max(0, len(fills)-fillsMax):]
	b = memberFills(appendOrder(jsontext.Name(b, "order"), o), fills)
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
	return jsontext.List(jsontext.Name(b, "orders"), orders, func(b []byte, o *exchange.OrderDetail) []byte {
		return append(appendOrder(b, o), '}')
	})
}

// memberFills appends the member fills.
func memberFills(b []byte, fills []exchange.AccountFill) []byte {
	return jsontext.List(jsontext.Name(b, "fills"), fills, appendFill)
}

// appendFill appends a fill. A fill older than the numbering of trades has no member trade.
func appendFill(b []byte, f *exchange.AccountFill) []byte {
	b = jsontext.Number(jsontext.Number(append(b, '{'), "fill", f.N), "order", f.Order)
	if f.Trade > 0 {
		b = jsontext.Number(b, "trade", f.Trade)
	}
	b = jsontext.Word(jsontext.Word(b, "sym", f.Symbol), "side", f.Side.String())
	b = jsontext.Decimal(jsontext.Decimal(b, "shares", f.Shares), "price", f.Price)
	return append(memberTime(jsontext.Bool(b, "maker", f.Maker), "time", f.Time), '}')
}

// memberPositions appends the member positions.
func memberPositions(b []byte, all []exchange.PositionView) []byte {
	return jsontext.List(jsontext.Name(b, "positions"), all, func(b []byte, p *exchange.PositionView) []byte {
		b = jsontext.Decimal(jsontext.Word(append(b, '{'), "sym", p.Symbol), "shares", p.Shares)
		return append(jsontext.Decimal(b, "held", p.Held), '}')
	})
}

// appendTrade appends the n-th trade of a symbol, without the accounts that traded.
func appendTrade(b []byte, n uint64, t *exchange.Trade) []byte {
	b = jsontext.Number(append(b, '{'), "id", n)
	b = jsontext.Decimal(jsontext.Decimal(b, "price", t.Price), "shares", t.Shares)
	b = jsontext.Word(b, "side", t.Side().String())
	b = jsontext.Number(jsontext.Number(b, "buy", t.Buy), "sell", t.Sell)
	return append(memberTime(b, "time", t.Time), '}')
}
