package exchange

import "fmt"

// TimeInForce is how long an order may stay in the book (FIX tag 59).
type TimeInForce uint8

// The times in force. An order without one is GTC.
const (
	GTC TimeInForce = iota // good till canceled: the remainder rests
	IOC                    // immediate or cancel: the remainder is canceled in the order's own record
	FOK                    // fill or kill: the order is filled completely at once, or rejected
)

// String returns the name in the protocol.
func (t TimeInForce) String() string {
	switch t {
	case IOC:
		return "IOC"
	case FOK:
		return "FOK"
	case GTC:
		return "GTC"
	}
	return fmt.Sprintf("tif(%d)", uint8(t))
}

// ParseTimeInForce parses a tif, case-sensitive. The error names the value.
func ParseTimeInForce[S string | []byte](s S) (TimeInForce, error) {
	for t := GTC; t <= FOK; t++ {
		if string(s) == t.String() {
			return t, nil
		}
	}
	return GTC, fmt.Errorf("tif %s is not one of GTC, IOC, FOK", quote(s))
}

// OrderType is how an order's limit is chosen (FIX tag 40). An order without a type is Limited.
type OrderType uint8

// The types of orders.
const (
	Limited OrderType = iota // the client sent the limit
	Market                   // at any price up to the protection price, which is Terms.Limit; IOC or FOK
)

// String returns the name in the protocol.
func (t OrderType) String() string {
	if t == Market {
		return "market"
	}
	return "limit"
}

// ParseOrderType parses a type; the only one in the protocol is "market". The error names the value.
func ParseOrderType[S string | []byte](s S) (OrderType, error) {
	if string(s) == Market.String() {
		return Market, nil
	}
	return Limited, fmt.Errorf("type %s is not market", quote(s))
}

// SelfTrade determines what an incoming order does when the next order that it would execute against belongs to the
// same account (self-trade prevention).
type SelfTrade uint8

// The modes of self-trade prevention. An order without one uses the account's default, which
// is TradeWithSelf unless an operator has set another mode.
const (
	TradeWithSelf SelfTrade = iota // the two orders execute
	CancelNewest                   // the incoming order stops, and its remainder is canceled
	CancelOldest                   // the resting order is canceled, and the incoming order continues
	CancelBoth                     // both are canceled, and the incoming order stops
)

// String returns the name in the protocol, "none" for TradeWithSelf.
func (m SelfTrade) String() string {
	switch m {
	case CancelNewest:
		return "newest"
	case CancelOldest:
		return "oldest"
	case CancelBoth:
		return "both"
	case TradeWithSelf:
		return "none"
	}
	return fmt.Sprintf("stp(%d)", uint8(m))
}

// ParseSelfTrade parses an stp, case-sensitive. The error names the value.
func ParseSelfTrade[S string | []byte](s S) (SelfTrade, error) {
	for m := CancelNewest; m <= CancelBoth; m++ {
		if string(s) == m.String() {
			return m, nil
		}
	}
	return TradeWithSelf, fmt.Errorf("stp %s is not one of newest, oldest, both", quote(s))
}

// ParseYes parses an attribute whose value is "yes" or "no". The error names the attribute and the value.
func ParseYes[S string | []byte](name string, s S) (bool, error) {
	switch string(s) {
	case "yes":
		return true, nil
	case "no":
		return false, nil
	}
	return false, fmt.Errorf("%s %s is not yes or no", name, quote(s))
}
