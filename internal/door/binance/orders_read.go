package binance

import (
	"outcry/internal/exchange"
)

// Values of newOrderRespType, the kind of answer to a new order.
const (
	respACK    = "ACK"
	respRESULT = "RESULT"
	respFULL   = "FULL"
)

// unoffered are order parameters that the door does not support; requests with one of them are refused.
var unoffered = []string{"quoteOrderQty", "stopPrice", "trailingDelta", "icebergQty", "pegPriceType", "pegOffsetValue",
	"pegOffsetType"}

// readOrder parses the parameters of a new order. resp is the kind of answer.
func readOrder(q *request) (c exchange.Command, resp string, problem *Error) {
	c.Kind = exchange.PlaceOrder
	if c.Symbol, problem = q.symbol(); problem != nil {
		return c, "", problem
	}
	sideName, problem := q.need("side")
	if problem != nil {
		return c, "", problem
	}
	kind, problem := q.need("type")
	if problem != nil {
		return c, "", problem
	}
	switch sideName {
	case "BUY":
		c.Side = exchange.Buy
	case "SELL":
		c.Side = exchange.Sell
	default:
		return c, "", errSide
	}
	for _, name := range unoffered {
		if q.get(name) != "" {
			return c, "", unneeded(name)
		}
	}
	if resp, problem = q.readType(&c, kind); problem != nil {
		return c, "", problem
	}
	amount, problem := q.need("quantity")
	if problem != nil {
		return c, "", problem
	}
	if c.Shares, problem = quantity("quantity", amount); problem != nil {
		return c, "", problem
	}
	if c.STP, problem = q.selfTrade(); problem != nil {
		return c, "", problem
	}
	if value := q.get("newClientOrderId"); value != "" {
		if c.Ref, problem = newRef("newClientOrderId", value); problem != nil {
			return c, "", problem
		}
	}
	switch value := q.get("newOrderRespType"); value {
	case "":
	case respACK, respRESULT, respFULL:
		resp = value
	default:
		return c, "", notValid("newOrderRespType")
	}
	return c, resp, nil
}

// readType parses the parameters that depend on the order's type. It returns the default kind of answer for the type.
func (q *request) readType(c *exchange.Command, kind string) (resp string, problem *Error) {
	resp = respFULL
	switch kind {
	case "MARKET":
		c.Type, c.TIF = exchange.Market, exchange.IOC
		if q.get("price") != "" {
			return "", unneeded("price")
		}
	case "LIMIT_MAKER":
		c.Post, resp = true, respACK
	case "LIMIT":
		tif, problem := q.need("timeInForce")
		if problem != nil {
			return "", problem
		}
		var err error
		if c.TIF, err = exchange.ParseTimeInForce(tif); err != nil {
			return "", errTimeInForce
		}
	default:
		return "", errOrderType
	}
	if kind != "LIMIT" && q.get("timeInForce") != "" {
		return "", unneeded("timeInForce")
	}
	if kind == "MARKET" {
		return resp, nil
	}
	limit, problem := q.need("price")
	if problem != nil {
		return "", problem
	}
	c.Limit, problem = price("price", limit)
	return resp, problem
}

// selfTrade parses the mode of self-trade prevention. NONE means the account's default.
func (q *request) selfTrade() (exchange.SelfTrade, *Error) {
	value := q.get("selfTradePreventionMode")
	if value == "" {
		return exchange.TradeWithSelf, nil
	}
	for mode, name := range selfTrades {
		if name == value {
			return mode, nil
		}
	}
	if value == "DECREMENT" || value == "TRANSFER" {
		return 0, bad(-1013, "This symbol does not allow the specified self-trade prevention mode.")
	}
	return 0, notValid("selfTradePreventionMode")
}

// named identifies an order in a request: by its id or, if that is 0, by its client id.
type named struct {
	symbol exchange.Symbol
	id     exchange.OrderID
	client exchange.Ref
}

// readNamed determines which order a request is about, from two parameters of which one is required. If both are
// given, the id is used, as on Binance.
func (q *request) readNamed(byID, byClient string) (n named, problem *Error) {
	if n.symbol, problem = q.symbol(); problem != nil {
		return n, problem
	}
	if value := q.get(byID); value != "" {
		id, problem := whole(byID, value, 1)
		n.id = exchange.OrderID(id)
		return n, problem
	}
	client := q.get(byClient)
	if client == "" {
		return n, notBoth(byClient, byID)
	}
	if id, made := orderOfMadeUp(client); made {
		n.id = id
		return n, nil
	}
	ref, err := exchange.ParseRef(client)
	if err != nil {
		return n, illegal(byClient, legalClientID)
	}
	n.client = ref
	return n, nil
}
