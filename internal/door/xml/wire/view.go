package wire

import "outcry/internal/exchange"

// ViewBytesMax is the largest size of an order, a fill or a position in a reply, in bytes.
const ViewBytesMax = len(`<order id="9223372036854775807" sym="" amount="-89999999999.99999999" `+
	`limit="89999999999.99999999" post="yes" stp="newest" cod="yes" open="89999999999.99999999" `+
	`time="9223372036"/>`) + exchange.SymbolCharsMax

// appendAccount appends <account>: the balance, holds and positions of an account.
func appendAccount(dst []byte, v *exchange.AccountView) []byte {
	dst = appendAttr(append(dst, "<account"...), "id", string(v.ID))
	dst = appendValue(appendValue(dst, "balance", v.Balance), "held", v.Held)
	dst = begin(dst, len(v.Positions) == 0)
	for i := range v.Positions {
		p := &v.Positions[i]
		dst = appendAttr(append(dst, "<position"...), "sym", string(p.Symbol))
		dst = append(appendValue(appendValue(dst, "shares", p.Shares), "held", p.Held), "/>"...)
	}
	return end(dst, "account", len(v.Positions) == 0)
}

// appendOrders appends <orders>: a page of an account's open orders.
func appendOrders(dst []byte, v *exchange.OrdersView) []byte {
	empty := len(v.Orders) == 0 && v.More == 0
	dst = begin(append(dst, "<orders"...), empty)
	for i := range v.Orders {
		dst = appendOpenOrder(dst, &v.Orders[i])
	}
	return end(appendMore(dst, uint64(v.More)), "orders", empty)
}

func appendOpenOrder(dst []byte, o *exchange.OrderDetail) []byte {
	dst = appendOrderID(append(dst, "<order"...), "id", o.ID)
	dst = append(appendAttr(dst, "sym", string(o.Symbol)), ` amount="`...)
	if o.Side == exchange.Sell {
		dst = append(dst, '-')
	}
	dst = append(o.Total().Append(dst), '"')
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
	empty := len(v.Fills) == 0 && v.More == 0
	dst = begin(append(dst, "<fills"...), empty)
	for i := range v.Fills {
		f := &v.Fills[i]
		dst = appendOrderID(appendNumber(append(dst, "<fill"...), "n", f.N), "id", f.Order)
		dst = appendAttr(appendAttr(dst, "sym", string(f.Symbol)), "side", f.Side.String())
		dst = appendValue(appendValue(dst, "shares", f.Shares), "price", f.Price)
		dst = append(appendTime(dst, f.Time), "/>"...)
	}
	return end(appendMore(dst, v.More), "fills", empty)
}

// appendMore appends a <more> with the value of after for the next page, unless there is no next page.
func appendMore(dst []byte, after uint64) []byte {
	if after == 0 {
		return dst
	}
	return append(appendNumber(append(dst, "<more"...), "after", after), "/>"...)
}

// begin ends the start tag of an element, or the whole element if it is empty.
func begin(dst []byte, empty bool) []byte {
	if empty {
		return append(dst, "/>"...)
	}
	return append(dst, '>')
}

// end ends an element, unless it is empty: then begin has ended it.
func end(dst []byte, name string, empty bool) []byte {
	if empty {
		return dst
	}
	return append(append(append(dst, "</"...), name...), '>')
}
