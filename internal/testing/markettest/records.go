package markettest

import "outcry/internal/exchange"

// Event encodes an event of the symbol S.
func Event(e exchange.Event) []byte {
	e.Symbol = "S"
	if e.Kind != exchange.SymbolMade {
		e.Account = "1"
	}
	return exchange.AppendEvent(nil, &e)
}

// Placed encodes an order for S, with its fills.
func Placed(id exchange.OrderID, side exchange.Side, shares exchange.Shares, limit exchange.Price,
	fills ...exchange.Fill) []byte {
	return Event(exchange.Event{Kind: exchange.OrderAccepted, Order: id, Terms: exchange.Terms{Side: side,
		Limit: limit}, Shares: shares,
		Fills: fills})
}

// Canceled encodes the cancel of an order for S.
func Canceled(id exchange.OrderID, side exchange.Side, shares exchange.Shares, limit exchange.Price) []byte {
	return Event(exchange.Event{Kind: exchange.OrderCanceled, Order: id, Terms: exchange.Terms{Side: side,
		Limit: limit}, Shares: shares})
}

// CanceledAll encodes the cancel of several orders.
func CanceledAll(cancels ...exchange.Cancel) []byte {
	return exchange.AppendEvent(nil, &exchange.Event{Kind: exchange.OrdersCanceled, Account: "1", Cancels: cancels})
}

// Made encodes the event that makes the symbol S.
var Made = Event(exchange.Event{Kind: exchange.SymbolMade})
