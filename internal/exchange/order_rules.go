package exchange

// limitMax is the highest limit that an order may have.
const limitMax = Price(orderUnitsMax - 1)

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
