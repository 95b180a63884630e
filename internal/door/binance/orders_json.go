package binance

import (
	"outcry/internal/exchange"
)

// total returns the total amount of an order. Shares taken off by amends in place are not included.
func total(o *exchange.OrderDetail) exchange.Shares { return o.Open + o.Executed + o.Canceled }

// limitOf returns an order's price, 0 for a market order.
func limitOf(o *exchange.OrderDetail) exchange.Price {
	if o.Type == exchange.Market {
		return 0
	}
	return o.Limit
}

// putState writes the members about an order's state that all answers have.
func putState(w *object, o *exchange.OrderDetail) {
	put(w, "price", limitOf(o))
	put(w, "origQty", total(o))
	put(w, "executedQty", o.Executed)
	w.word("origQuoteOrderQty", zero)
	put(w, "cummulativeQuoteQty", o.Notional)
	w.word("status", status(o))
	w.word("timeInForce", timeInForce(&o.Terms))
	w.word("type", orderType(&o.Terms))
	w.word("side", side(o.Side))
}

// appendNew appends the answer to a new order, in its state after its own record.
func appendNew(b []byte, o *exchange.OrderWithFills, resp string) []byte {
	w := begin(b)
	w.word("symbol", pair(o.Symbol))
	w.number("orderId", int64(o.ID))
	w.number("orderListId", -1)
	w.word("clientOrderId", clientID(&o.OrderDetail))
	w.number("transactTime", millis(o.Time))
	if resp == respACK {
		return w.end()
	}
	putState(&w, &o.OrderDetail)
	w.number("workingTime", millis(o.Time))
	w.word("selfTradePreventionMode", selfTrades[o.STP])
	if resp == respFULL {
		w.name("fills")
		w.b = appendList(w.b, o.Fills, func(b []byte, f *exchange.AccountFill) []byte {
			w := begin(b)
			put(&w, "price", f.Price)
			put(&w, "qty", f.Shares)
			w.word("commission", zero)
			w.word("commissionAsset", received(f))
			w.number("tradeId", int64(f.Trade))
			return w.end()
		})
	}
	return w.end()
}

// received returns the asset that an account received in an execution.
func received(f *exchange.AccountFill) string {
	if f.Side == exchange.Buy {
		return string(f.Symbol)
	}
	return quoteAsset
}

// appendOrder appends an order for queries and lists.
func appendOrder(b []byte, o *exchange.OrderDetail) []byte {
	w := begin(b)
	w.word("symbol", pair(o.Symbol))
	w.number("orderId", int64(o.ID))
	w.number("orderListId", -1)
	w.word("clientOrderId", clientID(o))
	putState(&w, o)
	w.word("stopPrice", zero)
	w.word("icebergQty", zero)
	w.number("time", millis(o.Time)) // transactTime is left out, because clients would use it in place of time
	w.number("updateTime", millis(o.Changed))
	w.flag("isWorking", true)
	w.number("workingTime", millis(o.Time))
	w.word("selfTradePreventionMode", selfTrades[o.STP])
	return w.end()
}

// appendCanceled appends the answer to a cancel, which has its own client id.
func appendCanceled(b []byte, o *exchange.OrderDetail, own exchange.Ref) []byte {
	w := begin(b)
	w.word("symbol", pair(o.Symbol))
	w.word("origClientOrderId", clientID(o))
	w.number("orderId", int64(o.ID))
	w.number("orderListId", -1)
	w.word("clientOrderId", cancelID(o.ID, own))
	w.number("transactTime", millis(o.Changed))
	putState(&w, o)
	w.word("selfTradePreventionMode", selfTrades[o.STP])
	return w.end()
}

// cancelID returns the client id of a cancel, or a made-up one if none was sent.
func cancelID(id exchange.OrderID, own exchange.Ref) string {
	if own != "" {
		return string(own)
	}
	return madeUp + "cancel-" + madeUpID(id)[len(madeUp):]
}
