package market

import "outcry/internal/exchange"

// event encodes an event for S.
func event(e exchange.Event) []byte {
	e.Symbol = "S"
	if e.Kind != exchange.SymbolMade {
		e.Account = "1"
	}
	return exchange.AppendEvent(nil, &e)
}

func placed(id exchange.OrderID, side exchange.Side, shares exchange.Shares, limit exchange.Price,
	fills ...exchange.Fill) []byte {
	return event(exchange.Event{Kind: exchange.OrderAccepted, Order: id, Terms: exchange.Terms{Side: side,
		Limit: limit}, Shares: shares,
		Fills: fills})
}

func canceled(id exchange.OrderID, side exchange.Side, shares exchange.Shares, limit exchange.Price) []byte {
	return event(exchange.Event{Kind: exchange.OrderCanceled, Order: id, Terms: exchange.Terms{Side: side,
		Limit: limit}, Shares: shares})
}

func canceledAll(cancels ...exchange.Cancel) []byte {
	return exchange.AppendEvent(nil, &exchange.Event{Kind: exchange.OrdersCanceled, Account: "1", Cancels: cancels})
}

// made makes S.
var made = event(exchange.Event{Kind: exchange.SymbolMade})
