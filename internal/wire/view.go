package wire

import "outcry/internal/exchange"

// ViewBytesMax is what an order, a fill or a position takes in a reply at most.
const ViewBytesMax = len(`<order id="9223372036854775807" sym="" amount="-89999999999.99999999" `+
	`limit="89999999999.99999999" post="yes" stp="newest" cod="yes" open="89999999999.99999999" `+
	`time="9223372036"/>`) + exchange.SymbolCharsMax

// appendAccount appends <account>: what its owner sees of an account.
func appendAccount(dst []byte, v *exchange.AccountView) []byte {
	dst = appendAttr(append(dst, "<account"...), "id", string(v.ID))
	dst = appendValue(appendValue(dst, "balance", v.Balance), "held", v.Held)
	dst = begin(dst, len(v.Positions))
	for i := range v.Positions {
		p := &v.Positions[i]
		dst = appendAttr(append(dst, "<position"...), "sym", string(p.Symbol))
		dst = append(appendValue(appendValue(dst, "shares", p.Shares), "held", p.Held), "/>"...)
	}
	return end(dst, "account", len(v.Positions))
}

// appendOrders appends <orders>: a page of an account's open orders.
func appendOrders(dst []byte, v *exchange.OrdersView) []byte {
	dst = begin(append(dst, "<orders"...), len(v.Orders))
	for i := range v.Orders {
		dst = appendOpenOrder(dst, &v.Orders[i])
	}
	if n := len(v.Orders); v.More && n > 0 {
		dst = append(appendOrderID(append(dst, "<more"...), "after", v.Orders[n-1].ID), "/>"...)
	}
	return end(dst, "orders", len(v.Orders))
}

func appendOpenOrder(dst []byte, o *exchange.OpenOrder) []byte {
	dst = appendOrderID(append(dst, "<order"...), "id", o.ID)
	dst = append(appendAttr(dst, "sym", string(o.Symbol)), ` amount="`...)
	if o.Side == exchange.Sell {
		dst = append(dst, '-')
	}
	dst = append(o.Total.Append(dst), '"')
	dst = appendValue(dst, "limit", o.Limit)
	if o.Post {
		dst = appendAttr(dst, "post", "yes")
	}
	if o.STP != exchange.TradeWithSelf {
		dst = appendAttr(dst, "stp", o.STP.String())
	}
	if o.OnDisconnect {
		dst = appendAttr(dst, "cod", "yes")
	}
	return append(appendTime(appendValue(dst, "open", o.Open), o.Time), "/>"...)
}

// appendFills appends <fills>: a page of an account's executions.
func appendFills(dst []byte, v *exchange.FillsView) []byte {
	dst = begin(append(dst, "<fills"...), len(v.Fills))
	for i := range v.Fills {
		f := &v.Fills[i]
		dst = appendOrderID(appendNumber(append(dst, "<fill"...), "n", f.N), "id", f.Order)
		dst = appendAttr(appendAttr(dst, "sym", string(f.Symbol)), "side", f.Side.String())
		dst = appendValue(appendValue(dst, "shares", f.Shares), "price", f.Price)
		dst = append(appendTime(dst, f.Time), "/>"...)
	}
	if n := len(v.Fills); v.More && n > 0 {
		dst = append(appendNumber(append(dst, "<more"...), "after", v.Fills[n-1].N), "/>"...)
	}
	return end(dst, "fills", len(v.Fills))
}

// begin ends the start tag of an element with so many in it, and end the element.
func begin(dst []byte, children int) []byte {
	if children == 0 {
		return append(dst, "/>"...)
	}
	return append(dst, '>')
}

func end(dst []byte, name string, children int) []byte {
	if children == 0 {
		return dst
	}
	return append(append(append(dst, "</"...), name...), '>')
}
