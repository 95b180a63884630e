package exchange

import (
	"errors"
	"fmt"
	"strings"
)

// AccountRules are the rules that an operator has set for an account. The zero value means that
// nothing is set.
type AccountRules struct {
	Block       *Halt     // the block in force; nil while the account may place and amend orders
	STP         SelfTrade // default mode of orders that do not specify one
	SharesMax   Shares    // maximum shares of an order; 0 means no limit, as in the fields below
	NotionalMax Cash      // maximum of an order's amount × limit
	OpenMax     int64     // maximum number of open orders
}

// same reports whether two accounts have the same rules; nil means no rules.
func (r *AccountRules) same(s *AccountRules) bool {
	if r == nil || s == nil {
		return r == s
	}
	a, b := *r, *s
	a.Block, b.Block = nil, nil
	return a == b && equal(r.Block, s.Block)
}

// Check returns an error that names the value that an operator cannot set for an account.
func (r *AccountRules) Check() error {
	if r.STP > CancelBoth {
		return fmt.Errorf("stp %s is invalid", r.STP)
	}
	if r.SharesMax < 0 || r.NotionalMax.Sign() < 0 || r.OpenMax < 0 {
		return fmt.Errorf(
			"a limit of %s shares, %s dollars, %d open orders is negative",
			r.SharesMax,
			r.NotionalMax,
			r.OpenMax,
		)
	}
	if r.Block != nil {
		_, err := ParseHaltReason(r.Block.Reason)
		return err
	}
	return nil
}

// SymbolRules are the rules for the orders of a symbol. The zero value means that nothing is set: the smallest
// tick and lot, ProtectStandard, no band.
type SymbolRules struct {
	Tick    Price    // limits must be multiples of Tick; 0 means 10^-8, also for Lot
	Lot     Shares   // amounts must be multiples of it
	Protect Fraction // maximum distance of market orders from the best price; 0 means ProtectStandard
	Band    Fraction // orders with a limit further from the last trade's price are rejected; 0 means no band
}

// tick returns the tick in force, and lot the lot: at least the smallest unit.
func (r SymbolRules) tick() Price { return max(r.Tick, 1) }
func (r SymbolRules) lot() Shares { return max(r.Lot, 1) }

// Check returns an error that names the value that an operator cannot set for a symbol.
func (r SymbolRules) Check() error {
	if r.Tick < 0 || r.Tick >= orderUnitsMax {
		return fmt.Errorf("tick %s is not from %s to below %s", r.Tick, Price(1), Price(orderUnitsMax))
	}
	if r.Lot < 0 || r.Lot >= orderUnitsMax {
		return fmt.Errorf("lot %s is not from %s to below %s", r.Lot, Shares(1), Shares(orderUnitsMax))
	}
	return nil
}

// limitMax is the highest limit that an order may have.
const limitMax = Price(orderUnitsMax - 1)

// Fraction is a part of a whole, in units of 10^-8: 10,000,000 is 10 %.
type Fraction uint32

// FractionOne is 100 %.
const FractionOne Fraction = 1e8

// ProtectStandard is how far from the best price a market order without a limit may execute, unless an
// operator has set another fraction.
const ProtectStandard Fraction = 1e7

// FractionMax is the largest Fraction that an operator may set: 1000 %.
const FractionMax = 10 * FractionOne

// unitsOfPercent is the number of units of 10^-8 percent in one unit of a Fraction.
const unitsOfPercent = 100

// String returns f in percent, as operators write it: "10%".
func (f Fraction) String() string { return Shares(int64(f)*unitsOfPercent).String() + "%" }

// ParseFraction parses a percentage above 0 and up to FractionMax, with up to 6 fractional
// digits: "10%". The error names the value.
func ParseFraction(s string) (Fraction, error) {
	number, isPercent := strings.CutSuffix(s, "%")
	d, err := parseDecimal(number)
	switch {
	case !isPercent:
		err = errors.New(`is not a number of percent, such as "10%"`)
	case err == nil && (d.negative || d.isZero()):
		err = errors.New("is not more than 0")
	case err == nil && (d.whole > unitsOfPercent*10 || d.orderUnits() > uint64(FractionMax)*unitsOfPercent):
		err = fmt.Errorf("is more than %s", FractionMax)
	case err == nil && d.fraction%unitsOfPercent != 0:
		err = errors.New("has more than 6 fractional digits")
	}
	if err != nil {
		return 0, fmt.Errorf("%s %w", quote(s), err)
	}
	return Fraction(d.orderUnits() / unitsOfPercent), nil
}

// times returns p × (1 - f) and p × (1 + f) in whole units, each rounded towards p and limited to the valid
// prices: below is 0 if f is 1 or more.
func (p Price) times(f Fraction) (below, above Price) {
	change, _ := mul64(uint64(p), uint64(f)).divmod64(uint64(FractionOne)) // rounded down: towards p in both directions
	if change.Hi != 0 || change.Lo > uint64(limitMax) {
		return 0, limitMax
	}
	return max(p-Price(change.Lo), 0), Price(min(uint64(p)+change.Lo, uint64(limitMax)))
}

// Bounds returns the highest limit of a buy and the lowest limit of a sell that the band allows around last, the
// price of the last trade, or 0 if there was none. Without a band or a trade all limits are allowed.
func (r SymbolRules) Bounds(last Price) (buyMax, sellMin Price) {
	if r.Band == 0 || last == 0 {
		return limitMax, 1
	}
	sellMin, buyMax = last.times(r.Band)
	return buyMax, max(sellMin, 1)
}

// Outside reports whether the band forbids an order with this limit, and returns the bound for its side.
func (r SymbolRules) Outside(side Side, limit, last Price) (bound Price, outside bool) {
	buyMax, sellMin := r.Bounds(last)
	if side == Buy {
		return buyMax, limit > buyMax
	}
	return sellMin, limit < sellMin
}

// Protection returns the protection price of a market order without a limit: the worst price at which it may
// execute. It is the other side's best price plus (buy) or minus (sell) the fraction Protect, rounded towards the
// best price, and within the band.
func (r SymbolRules) Protection(side Side, best, last Price) Price {
	protect := r.Protect
	if protect == 0 {
		protect = ProtectStandard
	}
	below, above := best.times(protect)
	buyMax, sellMin := r.Bounds(last)
	if side == Buy {
		return min(above, buyMax)
	}
	return max(below, sellMin)
}

// OnTick reports whether a limit is a multiple of the tick.
func (r SymbolRules) OnTick(limit Price) bool { return r.Tick <= 1 || limit%r.Tick == 0 }

// OnLot reports whether a number of shares is a multiple of the lot.
func (r SymbolRules) OnLot(shares Shares) bool { return r.Lot <= 1 || shares%r.Lot == 0 }

// Meets returns the best price of the opposite side, or 0 if no order rests there, and reports whether an order
// with this side and limit would execute at once, or meet an order of its own account.
func (b *Book) Meets(side Side, limit Price) (best Price, meets bool) {
	best = b.Best(side.opposite())
	o := Order{Terms: Terms{Side: side, Limit: limit}}
	return best, best != 0 && o.crosses(best)
}

// BlockResult is the result of blocking or unblocking an account.
type BlockResult struct {
	Reason   RejectReason // OK, or why the request was refused; then only Text may be set
	Text     string       // details of Reason; for NotReadYet, which node, and why
	Changed  bool         // false if the account was already blocked, or already not blocked
	Block    Halt         // the block in force, or the one that was ended; zero if the account had none
	Canceled CancelAllResult
}

// AccountRulesResult is the result of setting the rules of an account.
type AccountRulesResult struct {
	Reason  RejectReason // OK, or why the request was refused
	Text    string       // details of Reason
	Changed bool         // false if the rules were the same before
	Rules   AccountRules // the rules in force
}

// SymbolRulesResult is the result of setting the rules of a symbol.
type SymbolRulesResult struct {
	Reason  RejectReason // OK, or why the request was refused
	Text    string       // details of Reason
	Changed bool         // false if the rules were the same before
	Rules   SymbolRules  // the rules in force
	// After OffTick, Misfit is a resting order whose limit is not a multiple of the new tick.
	Misfit      OrderID
	MisfitLimit Price
}
