package exchange

import "math"

// Scales: how many fractional decimal digits a unit of each number has.
const (
	scaleShares = 8  // Price, Shares and Position count 10^-8
	scaleCash   = 16 // Cash counts 10^-16, the product of a Price and a Shares
)

// Limits of the values in a request (docs/PROTOCOL.md, section "Values").
const (
	AccountDigitsMax  = 64          // digits of an account id
	SymbolCharsMax    = 32          // characters of a symbol
	fractionDigitsMax = 8           // fractional digits of any decimal, as written
	wholeMax          = 1e18        // balances and deposits stay below it
	orderWholeMax     = 90000000000 // amounts and limits stay below it

	// OrderSharesMax is what the total of an order stays below.
	OrderSharesMax Shares = orderUnitsMax

	orderUnitsMax = orderWholeMax * 1e8 // orderWholeMax in units of 10^-8, within an int64
)

// The bounds of one balance and of one deposit: wholeMax in their units.
var (
	balanceMax = Cash(mul64(wholeMax, 1e16))
	depositMax = Position(mul64(wholeMax, 1e8))
)

// Price is dollars a share in units of 10^-8. A limit is always above 0.
type Price int64

// Shares is a number of shares in units of 10^-8. Orders and fills carry their
// size as a positive Shares; the side says which way they go.
type Shares int64

// Second is a second in the unit of all times here: nanoseconds since the Unix epoch.
const Second = 1_000_000_000

// Seconds returns a time in whole seconds since the epoch, as replies and the database
// have it: rounded down.
func Seconds(time int64) int64 {
	if time < 0 {
		return ^(^time / Second)
	}
	return time / Second
}

// Cash is US dollars in units of 10^-16, so that Shares × Price is exact.
type Cash Int128

// Position is a number of shares in units of 10^-8 with the range of a whole
// symbol, where a Shares holds one order's.
type Position Int128

// OrderID numbers the orders of the exchange from 1 up, across all symbols. 0
// is no order. It stays below 2^63.
type OrderID uint64

// AccountID is the digit string that names an account. "007" and "7" are two.
type AccountID string

// Symbol names what is traded: A-Z, a-z, 0-9, case-sensitive.
type Symbol string

// Side tells buys from sells.
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

// CashTotalMax is the bound that all balances ever made stay below: 10^21 dollars.
var CashTotalMax = Cash(mul64(1e19, 1e18))

// PositionTotalMax is the bound that all shares of one symbol stay below: 10^21 shares.
var PositionTotalMax = Position(mul64(1e19, 1e10))

// Notional returns shares × price, exactly. Both are 0 or more; it never overflows.
func Notional(s Shares, p Price) Cash {
	return Cash(mul64(uint64(s), uint64(p)))
}

// Position returns s with the range of a Position.
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

// Append appends p in dollars a share, in its shortest exact form.
func (p Price) Append(dst []byte) []byte { return Shares(p).Append(dst) }

// String returns p in dollars a share, in its shortest exact form.
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
