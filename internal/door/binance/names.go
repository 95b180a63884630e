package binance

import (
	"strconv"
	"strings"

	"outcry/internal/exchange"
)

// quoteAsset is what everything is paid in. A symbol is called by its name and this behind it.
const quoteAsset = "USD"

// offered reports whether the door offers a symbol: clients write names in capitals, whatever they were told.
func offered(sym exchange.Symbol) bool {
	return strings.ToUpper(string(sym)) == string(sym)
}

// pair returns what a symbol is called here.
func pair(sym exchange.Symbol) string { return string(sym) + quoteAsset }

// symbolOf returns the symbol of a pair. ok is false if no symbol can be called so.
func symbolOf(pair string) (sym exchange.Symbol, ok bool) {
	name, ok := strings.CutSuffix(pair, quoteAsset)
	if !ok {
		return "", false
	}
	sym, err := exchange.ParseSymbol(name)
	return sym, err == nil && offered(sym)
}

// madeUp begins the client ids of orders that have none: the order's id follows.
const madeUp = "outcry-"

// legalClientID is what a client id looks like, for the text of an error.
const legalClientID = `^[.A-Z:a-z0-9_-]{1,36}$`

// clientIDCharsMax is how many characters a client id may have. A ref may have more.
const clientIDCharsMax = 36

// clientID returns the client id of an order: its ref, or that of the amend that made it, or one that is made up.
func clientID(o *exchange.OrderDetail) string {
	switch {
	case o.Ref != "":
		return string(o.Ref)
	case o.Replaces != 0 && o.NewRef != "":
		return string(o.NewRef)
	}
	return madeUpID(o.ID)
}

// madeUpID returns the client id of an order that has none.
func madeUpID(id exchange.OrderID) string { return madeUp + strconv.FormatUint(uint64(id), 10) }

// orderOfMadeUp returns the order that a made up client id names.
func orderOfMadeUp(client string) (id exchange.OrderID, ok bool) {
	digits, ok := strings.CutPrefix(client, madeUp)
	if !ok || !isDigits(digits) {
		return 0, false
	}
	id, err := exchange.ParseOrderID(digits)
	return id, err == nil
}

// newRef reads the client id of a new order, or of a cancel. One that the door makes up is not taken.
func newRef(name, value string) (exchange.Ref, *Error) {
	ref, err := exchange.ParseRef(value)
	if _, own := orderOfMadeUp(value); err != nil || own || len(value) > clientIDCharsMax {
		return "", illegal(name, legalClientID)
	}
	return ref, nil
}

// status returns what an order has come to.
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

// statusOfCanceled returns the status of an order by why what was left of it was canceled.
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

// timeInForce returns an order's time in force: of a market order GTC, whatever it is here.
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

// selfTrades are the modes of self-trade prevention.
var selfTrades = map[exchange.SelfTrade]string{
	exchange.TradeWithSelf: "NONE",
	exchange.CancelNewest:  "EXPIRE_TAKER",
	exchange.CancelOldest:  "EXPIRE_MAKER",
	exchange.CancelBoth:    "EXPIRE_BOTH",
}
