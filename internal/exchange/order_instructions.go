package exchange

import "fmt"

// TimeInForce says how long an order may stay (FIX tag 59).
type TimeInForce uint8

// The times in force. Absent is GTC.
const (
	GTC TimeInForce = iota // good till canceled: what remains rests
	IOC                    // immediate or cancel: what remains is canceled in the order's own record
	FOK                    // fill or kill: whole and at once, or refused
)

// String returns the value that the protocol uses.
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

// ParseTimeInForce reads a tif, case-sensitive. The error names the value.
func ParseTimeInForce[S string | []byte](s S) (TimeInForce, error) {
	for t := GTC; t <= FOK; t++ {
		if string(s) == t.String() {
			return t, nil
		}
	}
	return GTC, fmt.Errorf("tif %s is not one of GTC, IOC, FOK", quote(s))
}

// OrderType says how an order's limit comes about (FIX tag 40). Absent is Limited.
type OrderType uint8

// The types of orders.
const (
	Limited OrderType = iota // at the limit that the client sent
	Market                   // at any price up to a protection price, which is Terms.Limit; IOC or FOK
)

// String returns the value that the protocol uses.
func (t OrderType) String() string {
	if t == Market {
		return "market"
	}
	return "limit"
}

// ParseOrderType reads a type, of which the protocol has one. The error names the value.
func ParseOrderType[S string | []byte](s S) (OrderType, error) {
	if string(s) == Market.String() {
		return Market, nil
	}
	return Limited, fmt.Errorf("type %s is not market", quote(s))
}

// SelfTrade says what an incoming order does when the next order that it would execute against
// is of the same account (self-trade prevention).
type SelfTrade uint8

// The modes of self-trade prevention. Absent is the account's default, which is TradeWithSelf
// unless an operator has set another one.
const (
	TradeWithSelf SelfTrade = iota // it executes
	CancelNewest                   // the incoming order stops, and what remains of it is canceled
	CancelOldest                   // the resting order is canceled, and the incoming one goes on
	CancelBoth                     // both are canceled, and the incoming order stops
)

// String returns the value that the protocol uses, "none" for TradeWithSelf.
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

// ParseSelfTrade reads an stp, case-sensitive. The error names the value.
func ParseSelfTrade[S string | []byte](s S) (SelfTrade, error) {
	for m := CancelNewest; m <= CancelBoth; m++ {
		if string(s) == m.String() {
			return m, nil
		}
	}
	return TradeWithSelf, fmt.Errorf("stp %s is not one of newest, oldest, both", quote(s))
}

// ParseYes reads the value of an attribute that is yes or no. The error names both.
func ParseYes[S string | []byte](name string, s S) (bool, error) {
	switch string(s) {
	case "yes":
		return true, nil
	case "no":
		return false, nil
	}
	return false, fmt.Errorf("%s %s is not yes or no", name, quote(s))
}
