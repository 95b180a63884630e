package model

import (
	"errors"
	"math"
	"math/big"
)

// The operator's rules for accounts and symbols (part two, sections 2 and 5). An order is checked against them
// once, when it is accepted.

// AccountRules are an operator's rules for the orders of an account. A nil, "" or 0 field sets no rule.
type AccountRules struct {
	STP         string   // default mode for orders without stp
	SharesMax   *big.Int // largest amount of an order, in units of 10^-8
	NotionalMax *big.Int // largest notional of an order, in units of 10^-16 dollars
	OpenMax     int      // most open orders at a time
}

func (r AccountRules) openMax() int {
	if r.OpenMax == 0 {
		return math.MaxInt
	}
	return r.OpenMax
}

// SymbolRules are an operator's rules for the orders of a symbol, all in units of 10^-8. A nil field sets
// no rule.
type SymbolRules struct {
	Tick, Lot *big.Int
	Protect   *big.Int // as a fraction of the best price; nil means a tenth
	Band      *big.Int // as a fraction of the last trade's price
}

// SetAccountRules replaces all rules of an account.
func (x *Exchange) SetAccountRules(account string, r AccountRules) { x.rules[account] = r }

// SetSymbolRules replaces all rules of a symbol. If the limit of an open order is not a multiple of the
// tick it returns an error and changes nothing.
func (x *Exchange) SetSymbolRules(sym string, r SymbolRules) error {
	for _, o := range x.resting[sym] {
		if !multiple(o.limit, r.Tick) {
			return errors.New("an open order is not a multiple of the new tick")
		}
	}
	x.symbolRules[sym] = r
	return nil
}

// Block cancels all open orders of an account and stops it from placing and amending orders.
func (x *Exchange) Block(account string, now int64) map[string]Canceled {
	x.blocked[account] = true
	return x.CancelAll(account, "", now)
}

// Unblock lets a blocked account place and amend orders.
func (x *Exchange) Unblock(account string) { x.blocked[account] = false }

// unit returns v, or the smallest tick or lot if v is nil.
func unit(v *big.Int) *big.Int {
	if v == nil {
		return big.NewInt(1)
	}
	return v
}

// multiple reports whether v is a multiple of the tick or lot.
func multiple(v, of *big.Int) bool { return new(big.Int).Mod(v, unit(of)).Sign() == 0 }

// over reports whether v exceeds bound. A nil bound is no bound.
func over(v, bound *big.Int) bool { return bound != nil && v.Cmp(bound) > 0 }

// judge returns why a new order is rejected before its hold is reserved, or nil. limit and amount are
// what the client sent in this request, nil if not sent.
func (x *Exchange) judge(o *order, limit, amount *big.Int) error {
	rules, account := x.symbolRules[o.sym], x.rules[o.account]
	if limit != nil && !multiple(limit, rules.Tick) {
		return errors.New("not a multiple of the tick")
	}
	if amount != nil && !x.oddLotFits(o, amount, amount, new(big.Int)) {
		return errors.New("not a multiple of the lot")
	}
	if low, high := x.band(o.sym); o.buys && o.limit.Cmp(high) > 0 || !o.buys && o.limit.Cmp(low) < 0 {
		return errors.New("outside of the band")
	}
	could, worth := total(x.would(o))
	if o.tif == "FOK" && could.Cmp(o.shares) < 0 {
		return errors.New("cannot be filled at once")
	}
	if best := x.bestOpposite(o); o.post && best != nil && o.reaches(best.limit) {
		return errors.New("would execute at once")
	}
	if !o.market || limit != nil {
		worth = product(o.shares, o.limit)
	}
	if over(o.shares, account.SharesMax) || over(worth, account.NotionalMax) {
		return errors.New("more than the account may place at once")
	}
	return nil
}

// oddLotFits reports whether amount is valid for an order: a multiple of the lot, or all that the account
// can sell. open is what the order would have open; own is what the order that it replaces has open.
func (x *Exchange) oddLotFits(o *order, amount, open, own *big.Int) bool {
	all := sum(orZero(x.accounts[o.account].shares[o.sym]), own)
	return multiple(amount, x.symbolRules[o.sym].Lot) || !o.buys && open.Cmp(all) == 0
}

// above returns v × (1 + fraction), rounded down.
func above(v, fraction *big.Int) *big.Int {
	return new(big.Int).Div(product(v, sum(tenTo(8), fraction)), tenTo(8))
}

// below returns v × (1 − fraction), rounded up.
func below(v, fraction *big.Int) *big.Int {
	whole, rest := new(big.Int).DivMod(product(v, minus(tenTo(8), fraction)), tenTo(8), new(big.Int))
	if rest.Sign() > 0 {
		whole = sum(whole, big.NewInt(1))
	}
	return whole
}

// band returns the lowest limit for a sell and the highest for a buy: the band around the last trade, or
// the limits of the protocol if there is no band.
func (x *Exchange) band(sym string) (low, high *big.Int) {
	low, high = big.NewInt(1), minus(orderBound, big.NewInt(1))
	last, band := x.last[sym], x.symbolRules[sym].Band
	if last == nil || band == nil {
		return low, high
	}
	return larger(low, below(last, band)), smaller(high, above(last, band))
}

// protection returns the worst price for a market order without a limit: the best price plus or minus the
// symbol's protection fraction of it, rounded towards the best price.
func (x *Exchange) protection(o *order, best *big.Int) *big.Int {
	protect := x.symbolRules[o.sym].Protect
	if protect == nil {
		protect = tenTo(7)
	}
	low, high := x.band(o.sym)
	if o.buys {
		return smaller(above(best, protect), high)
	}
	return larger(below(best, protect), low)
}

// openOrders counts the open orders of an account.
func (x *Exchange) openOrders(account string) (n int) {
	for _, o := range x.orders {
		if o.account == account && o.open.Sign() > 0 {
			n++
		}
	}
	return n
}
