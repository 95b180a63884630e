package binance

import (
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// total returns the total amount of an order. Shares removed by amends in place are not included.
func total(o *exchange.OrderDetail) exchange.Shares { return o.Open + o.Executed + o.Canceled }

// limitOf returns an order's price, 0 for a market order.
func limitOf(o *exchange.OrderDetail) exchange.Price {
	if o.Type == exchange.Market {
		return 0
	}
	return o.Limit
}

// membersOfState appends the members about an order's state that all answers have.
func membersOfState(b []byte, o *exchange.OrderDetail) []byte {
	b = decimal(b, "price", limitOf(o))
	b = decimal(b, "origQty", total(o))
	b = decimal(b, "executedQty", o.Executed)
	b = jsontext.Word(b, "origQuoteOrderQty", zero)
	b = decimal(b, "cummulativeQuoteQty", o.Notional)
	b = jsontext.Word(b, "status", status(o))
	b = jsontext.Word(b, "timeInForce", timeInForce(&o.Terms))
	b = jsontext.Word(b, "type", orderType(&o.Terms))
	return jsontext.Word(b, "side", side(o.Side))
}

// appendNew appends the answer to a new order, in its state after its own record.
func appendNew(b []byte, o *exchange.OrderWithFills, resp string) []byte {
	b = append(b, '{')
	b = jsontext.Word(b, "symbol", pair(o.Symbol))
	b = jsontext.Number(b, "orderId", o.ID)
	b = jsontext.Number(b, "orderListId", -1)
	b = jsontext.Word(b, "clientOrderId", clientID(&o.OrderDetail))
	b = jsontext.Number(b, "transactTime", millis(o.Time))
	if resp == respACK {
		return append(b, '}')
	}
	b = membersOfState(b, &o.OrderDetail)
	b = jsontext.Number(b, "workingTime", millis(o.Time))
	b = jsontext.Word(b, "selfTradePreventionMode", selfTrades[o.STP])
	if resp == respFULL {
		b = jsontext.List(jsontext.Name(b, "fills"), o.Fills, func(b []byte, f *exchange.AccountFill) []byte {
			b = append(b, '{')
			b = decimal(b, "price", f.Price)
			b = decimal(b, "qty", f.Shares)
			b = jsontext.Word(b, "commission", zero)
			b = jsontext.Word(b, "commissionAsset", received(f))
			b = jsontext.Number(b, "tradeId", f.Trade)
			return append(b, '}')
		})
	}
	return append(b, '}')
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
	b = append(b, '{')
	b = jsontext.Word(b, "symbol", pair(o.Symbol))
	b = jsontext.Number(b, "orderId", o.ID)
	b = jsontext.Number(b, "orderListId", -1)
	b = jsontext.Word(b, "clientOrderId", clientID(o))
	b = membersOfState(b, o)
	b = jsontext.Word(b, "stopPrice", zero)
	b = jsontext.Word(b, "icebergQty", zero)
	// transactTime is left out, because clients would use it in place of time.
	b = jsontext.Number(b, "time", millis(o.Time))
	b = jsontext.Number(b, "updateTime", millis(o.Changed))
	b = jsontext.Bool(b, "isWorking", true)
	b = jsontext.Number(b, "workingTime", millis(o.Time))
	b = jsontext.Word(b, "selfTradePreventionMode", selfTrades[o.STP])
	return append(b, '}')
}

// appendCanceled appends the answer to a cancel, which has its own client id.
func appendCanceled(b []byte, o *exchange.OrderDetail, own exchange.Ref) []byte {
	b = append(b, '{')
	b = jsontext.Word(b, "symbol", pair(o.Symbol))
	b = jsontext.Word(b, "origClientOrderId", clientID(o))
	b = jsontext.Number(b, "orderId", o.ID)
	b = jsontext.Number(b, "orderListId", -1)
	b = jsontext.Word(b, "clientOrderId", cancelID(o.ID, own))
	b = jsontext.Number(b, "transactTime", millis(o.Changed))
	b = membersOfState(b, o)
	b = jsontext.Word(b, "selfTradePreventionMode", selfTrades[o.STP])
	return append(b, '}')
}

// cancelID returns the client id of a cancel, or a made-up one if none was sent.
func cancelID(id exchange.OrderID, own exchange.Ref) string {
	if own != "" {
		return string(own)
	}
	return madeUp + "cancel-" + madeUpID(id)[len(madeUp):]
}
