package engine

import "outcry/internal/exchange"

// Request is a command from a client together with options that only the engine evaluates.
type Request struct {
	exchange.Command

	OwnOnly bool // rejects a QueryOrder as ForeignOrder if the order belongs to another account
	Repeat  bool // rejects a command with a ref as RateExceeded unless the ref was used by the same command before
	// Origin is the connection of a PlaceOrder with OnDisconnect. nil means a connection that has ended.
	Origin *Origin
}
