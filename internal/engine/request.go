package engine

import "outcry/internal/exchange"

// Request is a command as a client asks for it: what the core executes, and on what terms.
type Request struct {
	exchange.Command

	OwnOnly bool // a QueryOrder is refused as ForeignOrder if the order is not Account's
	Repeat  bool // what has a ref is refused as RateExceeded unless it was done before
	// Origin is the connection of a PlaceOrder with OnDisconnect; nil is one that has ended.
	Origin *Origin
}
