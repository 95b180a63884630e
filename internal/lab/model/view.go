package model

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// An account's own view (part two, section 6), computed from the complete history.

// listed is the largest number of orders or fills in one reply.
const listed = 1000

// history returns an account's free cash, held cash, and free and held shares by symbol.
func (x *Exchange) history(account string) (cash, held *big.Int, shares, heldShares map[string]*big.Int) {
	cash, held = x.accounts[account].opened, new(big.Int)
	shares, heldShares = maps.Clone(x.accounts[account].placed), map[string]*big.Int{}
	for _, t := range x.trades {
		for _, o := range []*order{t.resting, t.incoming} {
			switch worth := product(t.shares, t.price); {
			case o.account != account:
			case o.buys:
				cash = minus(cash, worth)
				add(shares, o.sym, t.shares)
			default:
				cash = sum(cash, worth)
				shares[o.sym] = minus(shares[o.sym], t.shares)
			}
		}
	}
	for _, o := range x.orders {
		switch {
		case o.account != account || o.open.Sign() == 0:
		case o.buys:
			cash, held = minus(cash, product(o.open, o.limit)), sum(held, product(o.open, o.limit))
		default:
			shares[o.sym] = minus(shares[o.sym], o.open)
			add(heldShares, o.sym, o.open)
		}
	}
	return cash, held, shares, heldShares
}

// showAccount answers an <account/>.
func (x *Exchange) showAccount(id string) string {
	cash, held, shares, heldShares := x.history(id)
	s := fmt.Sprintf(`<account id="%s" balance="%s" held="%s"`, id, dollars(cash), dollars(held))
	positions := ""
	for _, sym := range slices.Sorted(maps.Keys(shares)) {
		free, held := shares[sym], orZero(heldShares[sym])
		if free.Sign() != 0 || held.Sign() != 0 {
			positions += fmt.Sprintf(`<position sym="%s" shares="%s" held="%s"/>`, sym, show(free), show(held))
		}
	}
	if positions == "" {
		return s + "/>"
	}
	return s + ">" + positions + "</account>"
}

// amount returns an order's total, negative for a sell: what its chain has executed plus what is open.
func (o *order) amount() *big.Int {
	all := sum(o.executed(), o.open)
	if !o.buys {
		all = new(big.Int).Neg(all)
	}
	return all
}

// listOrders answers an <orders/>: the account's open orders with ids above after, of one symbol if sym
// is not empty.
func (x *Exchange) listOrders(id, sym string, after int) (s string) {
	n, last := 0, 0
	for _, o := range x.orders {
		if o.account != id || o.open.Sign() == 0 || sym != "" && o.sym != sym || o.id <= after {
			continue
		}
		if n++; n > listed {
			return s + fmt.Sprintf(`<more after="%d"/>`, last)
		}
		last = o.id
		s += fmt.Sprintf(`<order id="%d" sym="%s" amount="%s" limit="%s"`, o.id, o.sym, show(o.amount()), show(o.limit))
		if o.post {
			s += ` post="yes"`
		}
		if o.stp != "" {
			s += ` stp="` + o.stp + `"`
		}
		if o.cod != nil {
			s += ` cod="yes"`
		}
		s += fmt.Sprintf(` open="%s" time="%d"/>`, show(o.open), o.time)
	}
	return s
}

// fills returns all executions of an account, numbered from 1.
func (x *Exchange) fills(id string) (all []string) {
	for _, t := range x.trades {
		for _, o := range []*order{t.resting, t.incoming} {
			if o.account != id {
				continue
			}
			side := "sell"
			if o.buys {
				side = "buy"
			}
			all = append(all, fmt.Sprintf(`<fill n="%d" id="%d" sym="%s" side="%s" shares="%s" price="%s" time="%d"/>`,
				len(all)+1, o.id, o.sym, side, show(t.shares), show(t.price), t.time))
		}
	}
	return all
}

// listFills answers a <fills/>: the fills after number after, or the newest fills if after is negative.
func (x *Exchange) listFills(id string, after int) (s string) {
	all := x.fills(id)
	if after < 0 {
		after = max(0, len(all)-listed)
	}
	end := min(len(all), min(after, len(all))+listed)
	s = strings.Join(all[min(after, end):end], "")
	if end < len(all) {
		s += fmt.Sprintf(`<more after="%d"/>`, end)
	}
	return s
}
