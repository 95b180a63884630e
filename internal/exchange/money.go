package exchange

import "math"

// Scales: the number of fractional decimal digits in one unit of each type.
const (
	scaleShares = 8  // Price, Shares and Position count 10^-8
	scaleCash   = 16 // Cash counts 10^-16, the product of a Price and a Shares
)

// Limits of the values in a request (docs/PROTOCOL.md, section "Values").
const (
	AccountDigitsMax  = 64          // digits of an account id
	SymbolCharsMax    = 32          // characters of a symbol
	fractionDigitsMax = 8           // fractional digits of a decimal in a request
	wholeMax          = 1e18        // balances and deposits are below it
	orderWholeMax     = 90000000000 // amounts and limits are below it

	// OrderSharesMax is above the total of every order.
	OrderSharesMax Shares = orderUnitsMax

	orderUnitsMax = orderWholeMax * 1e8 // orderWholeMax in units of 10^-8, within an int64
)

// balanceMax and depositMax are wholeMax in the units of a balance and of a deposit.
var (
	balanceMax = Cash(mul64(wholeMax, 1e16))
	depositMax = Position(mul64(wholeMax, 1e8))
)

// Price is a price in dollars per share, in units of 10^-8. A limit is always above 0.
type Price int64

// Shares is a number of shares in units of 10^-8. Orders and fills have a positive
// Shares and a Side.
type Shares int64

// Second is one second in nanoseconds, the unit of all times in this package.
const Second = 1_000_000_000

// Seconds converts nanoseconds since the epoch to whole seconds, rounded down, as replies
// and the database have them.
func Seconds(time int64) int64 {
	if time < 0 {
		return ^(^time / Second)
	}
	return time / Second
}

// Cash is US dollars in units of 10^-16, so that Shares × Price is exact.
type Cash Int128

// Position is a number of shares in units of 10^-8. It is large enough for all shares of a symbol, whereas Shares is
// large enough for those of one order.
type Position Int128

// OrderID identifies an order. Ids are given out from 1 up, across all symbols, and stay
// below 2^63. 0 means no order.
type OrderID uint64

// AccountID is a string of digits that identifies an account. "007" and "7" are different accounts.
type AccountID string

// Symbol is the name of a traded instrument: A-Z, a-z, 0-9, case-sensitive.
type Symbol string

// Side is buy or sell.
type Side uint8

// The two sides. The zero Side is neither.
const (
	Buy Side = iota + 1
	Sell
)

// String returns "buy" or "sell".
func (s Side) String() string {
	switch s {
	case Buy:
		return "buy"
	case Sell:
		return "sell"
	}
	return "no side"
}

// opposite returns the side that s trades with.
func (s Side) opposite() Side { return Buy + Sell - s }

// CashTotalMax is above the sum of all balances ever opened: 10^21 dollars.
var CashTotalMax = Cash(mul64(1e19, 1e18))

// PositionTotalMax is above the number of all shares of a symbol: 10^21 shares.
var PositionTotalMax = Position(mul64(1e19, 1e10))

// Notional returns shares × price, exactly. s and p must not be negative; the product never overflows.
func Notional(s Shares, p Price) Cash {
	return Cash(mul64(uint64(s), uint64(p)))
}

// Position converts s to a Position.
func (s Shares) Position() Position {
	return Position{Hi: int64(s) >> 63, Lo: uint64(s)}
}

// Add returns c + d.
func (c Cash) Add(d Cash) Cash { return Cash(Int128(c).Add(Int128(d))) }

// Sub returns c - d, which may be negative.
func (c Cash) Sub(d Cash) Cash { return Cash(Int128(c).Sub(Int128(d))) }

// Cmp returns -1, 0 or +1 as c is below, equal to or above d.
func (c Cash) Cmp(d Cash) int { return Int128(c).Cmp(Int128(d)) }

// Sign returns -1, 0 or +1.
func (c Cash) Sign() int { return Int128(c).Sign() }

// Append appends c in dollars, in its shortest exact form.
func (c Cash) Append(dst []byte) []byte { return Int128(c).appendDecimal(dst, scaleCash) }

// String returns c in dollars, in its shortest exact form.
func (c Cash) String() string { return string(c.Append(nil)) }

// Add returns p + q.
func (p Position) Add(q Position) Position { return Position(Int128(p).Add(Int128(q))) }

// Sub returns p - q, which may be negative.
func (p Position) Sub(q Position) Position { return Position(Int128(p).Sub(Int128(q))) }

// Cmp returns -1, 0 or +1 as p is below, equal to or above q.
func (p Position) Cmp(q Position) int { return Int128(p).Cmp(Int128(q)) }

// Sign returns -1, 0 or +1.
func (p Position) Sign() int { return Int128(p).Sign() }

// Append appends p in shares, in its shortest exact form.
func (p Position) Append(dst []byte) []byte { return Int128(p).appendDecimal(dst, scaleShares) }

// String returns p in shares, in its shortest exact form.
func (p Position) String() string { return string(p.Append(nil)) }

// Append appends p in dollars per share, in its shortest exact form.
func (p Price) Append(dst []byte) []byte { return Shares(p).Append(dst) }

// String returns p in dollars per share, in its shortest exact form.
func (p Price) String() string { return string(p.Append(nil)) }

// Append appends s in shares, in its shortest exact form.
func (s Shares) Append(dst []byte) []byte {
	return Int128(s.Position()).appendDecimal(dst, scaleShares)
}

// String returns s in shares, in its shortest exact form.
func (s Shares) String() string { return string(s.Append(nil)) }

// orderIDMax is the largest OrderID: the database and most clients hold ids in
// a signed 64-bit integer.
const orderIDMax = OrderID(math.MaxInt64)
