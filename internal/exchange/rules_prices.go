package exchange

import "math/bits"

// part returns p × (FractionOne + sign × f) / FractionOne, rounded down, or up, and within the prices that
// a limit may have.
func part(p Price, f Fraction, sign int64, up bool) Price {
	factor := int64(FractionOne) + sign*int64(f)
	if factor <= 0 {
		return 1
	}
	hi, lo := bits.Mul64(uint64(p), uint64(factor))
	if hi >= uint64(FractionOne) {
		return orderUnitsMax - 1
	}
	q, rest := bits.Div64(hi, lo, uint64(FractionOne))
	if up && rest > 0 {
		q++
	}
	return Price(min(max(q, 1), orderUnitsMax-1))
}

// Bounds returns the least limit that a sell may have and the greatest of a buy, exactly: those that the
// band around the last trade's price leaves, and all if there is no band, or last is 0, as nothing was traded.
func (r SymbolRules) Bounds(last Price) (sell, buy Price) {
	if r.Band == 0 || last == 0 {
		return 1, orderUnitsMax - 1
	}
	return part(last, r.Band, -1, true), part(last, r.Band, 1, false)
}

// Protection returns how far an order at market without a limit may go: Protect beyond the other side's best
// price, rounded towards that, and within Bounds.
func (r SymbolRules) Protection(side Side, best, last Price) Price {
	protect := r.Protect
	if protect == 0 {
		protect = ProtectStandard
	}
	least, greatest := r.Bounds(last)
	if side == Buy {
		return min(part(best, protect, 1, false), greatest)
	}
	return max(part(best, protect, -1, true), least)
}

// FitsTick reports whether a limit is a multiple of the tick.
func (r SymbolRules) FitsTick(limit Price) bool { return limit%r.tick() == 0 }

// FitsLot reports whether a number of shares is a multiple of the lot.
func (r SymbolRules) FitsLot(shares Shares) bool { return shares%r.lot() == 0 }

// Instructed reports whether an order with these terms has instructions: not every program reads its records.
func (t Terms) Instructed() bool { return !t.plain() }

// Opposite returns the best price of the other side, 0 if nothing rests there.
func (b *Book) Opposite(s Side) Price { return b.Best(s.opposite()) }

// Reaches reports whether o may execute at the price of a resting order.
func (o *Order) Reaches(price Price) bool { return o.crosses(price) }
