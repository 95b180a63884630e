package binance

import (
	"strconv"
	"strings"

	"outcry/internal/exchange"
)

// quoteAsset is the currency of all prices. A pair is the symbol's name followed by it.
const quoteAsset = "USD"

// offered reports whether the door offers a symbol. Clients write names in capitals, so names with small letters are
// not offered.
func offered(sym exchange.Symbol) bool {
	return strings.ToUpper(string(sym)) == string(sym)
}

// pair returns the name of a symbol at this door.
func pair(sym exchange.Symbol) string { return string(sym) + quoteAsset }

// symbolOf returns the symbol of a pair. ok is false if no symbol can have that pair.
func symbolOf(pair string) (sym exchange.Symbol, ok bool) {
	name, ok := strings.CutSuffix(pair, quoteAsset)
	if !ok {
		return "", false
	}
	sym, err := exchange.ParseSymbol(name)
	return sym, err == nil && offered(sym)
}

// madeUp is the prefix of the client ids given to orders without one; the order's id follows.
const madeUp = "outcry-"

// legalClientID is the pattern of client ids, for error texts.
const legalClientID = `^[.A-Z:a-z0-9_-]{1,36}$`

// clientIDCharsMax is the maximum length of a client id. A ref may be longer.
const clientIDCharsMax = 36

// clientID returns the client id of an order: its ref, or the ref of the amend that made it, or a made-up one.
func clientID(o *exchange.OrderDetail) string {
	switch {
	case o.Ref != "":
		return string(o.Ref)
	case o.Replaces != 0 && o.NewRef != "":
		return string(o.NewRef)
	}
	return madeUpID(o.ID)
}

// madeUpID returns the made-up client id of an order without one.
func madeUpID(id exchange.OrderID) string { return madeUp + strconv.FormatUint(uint64(id), 10) }

// orderOfMadeUp returns the order that a made-up client id names.
func orderOfMadeUp(client string) (id exchange.OrderID, ok bool) {
	digits, ok := strings.CutPrefix(client, madeUp)
	if !ok || !isDigits(digits) {
		return 0, false
	}
	id, err := exchange.ParseOrderID(digits)
	return id, err == nil
}

// newRef parses the client id of a new order or of a cancel. It refuses ids in the form that the door makes up.
func newRef(name, value string) (exchange.Ref, *Error) {
	ref, err := exchange.ParseRef(value)
	if _, own := orderOfMadeUp(value); err != nil || own || len(value) > clientIDCharsMax {
		return "", illegal(name, legalClientID)
	}
	return ref, nil
}

// status returns an order's status.
func status(o *exchange.OrderDetail) string {
	switch o.State {
	case exchange.StatusOpen:
		if o.Executed > 0 {
			return "PARTIALLY_FILLED"
		}
		return "NEW"
	case exchange.StatusExecuted:
		return "FILLED"
	case exchange.StatusReplaced:
		return "CANCELED"
	case exchange.StatusCanceled:
		return statusOfCanceled(o.Why)
	}
	return "CANCELED"
}

// statusOfCanceled returns the status of an order from the reason for the cancel of its rest.
func statusOfCanceled(why exchange.WhyCanceled) string {
	switch why {
	case exchange.CanceledRest:
		return "EXPIRED"
	case exchange.CanceledSTP:
		return "EXPIRED_IN_MATCH"
	case exchange.NotCanceled, exchange.CanceledDisconnect, exchange.CanceledTimer, exchange.CanceledByOperator,
		exchange.CanceledByOwner:
	}
	return "CANCELED"
}

// orderType returns an order's type.
func orderType(t *exchange.Terms) string {
	switch {
	case t.Type == exchange.Market:
		return "MARKET"
	case t.Post:
		return "LIMIT_MAKER"
	}
	return "LIMIT"
}

// timeInForce returns an order's time in force. It is GTC for a market order, whatever the exchange uses.
func timeInForce(t *exchange.Terms) string {
	if t.Type == exchange.Market {
		return exchange.GTC.String()
	}
	return t.TIF.String()
}

// side returns a side in capitals.
func side(s exchange.Side) string {
	if s == exchange.Buy {
		return "BUY"
	}
	return "SELL"
}

// selfTrades maps the modes of self-trade prevention to their names.
var selfTrades = map[exchange.SelfTrade]string{
	exchange.TradeWithSelf: "NONE",
	exchange.CancelNewest:  "EXPIRE_TAKER",
	exchange.CancelOldest:  "EXPIRE_MAKER",
	exchange.CancelBoth:    "EXPIRE_BOTH",
}
