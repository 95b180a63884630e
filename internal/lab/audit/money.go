package audit

import (
	"fmt"
	"math/big"
	"slices"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/model"
)

func abs(v int64) int64 { return max(v, -v) }

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// move adds v to *to and subtracts it from *from. Either may be nil.
func move(from, to **big.Int, v *big.Int) {
	if from != nil {
		*from = new(big.Int).Sub(*from, v)
	}
	if to != nil {
		*to = new(big.Int).Add(*to, v)
	}
}

// money returns the cash of an account. For an unknown account it adds an empty entry, so that a later
// comparison fails.
func (t *truth) money(account string) *holding {
	if t.cash[account] == nil {
		t.openAccount(account, new(big.Int))
	}
	return t.cash[account]
}

// reserve moves an order's hold from free to held. Whether there was enough is checked at the end, when
// nothing may be negative: orders of different symbols are not replayed in their original order.
func (t *truth) reserve(o *order, fills []fill) {
	if o.buys() {
		cost := product(o.amount, o.limit)
		if o.kind == "market" { // a market order holds exactly what it executes
			cost = new(big.Int)
			for _, f := range fills {
				cost.Add(cost, product(f.shares, f.price))
			}
		}
		h := t.money(o.account)
		move(&h.free, &h.held, cost)
		return
	}
	h := t.position(o.sym, o.account)
	move(&h.free, &h.held, big.NewInt(-o.amount))
}

// release releases the hold of a canceled order's open shares.
func (t *truth) release(o *order) {
	t.free(o, o.open)
	o.open, o.released = 0, true
	t.cancels++
	t.touched[o.id] = true
}

// free releases the hold for the given number of an order's shares.
func (t *truth) free(o *order, shares int64) {
	switch {
	case !o.buys():
		h := t.position(o.sym, o.account)
		move(&h.held, &h.free, big.NewInt(shares))
	case o.kind != "market":
		h := t.money(o.account)
		move(&h.held, &h.free, product(shares, o.limit))
	}
}

// execute trades between an incoming and a resting order.
func (t *truth) execute(o, r *order, f fill) {
	buy, sell := o, r
	if r.buys() {
		buy, sell = r, o
	}
	o.open -= f.shares
	r.open -= f.shares
	o.done, r.done = o.done+f.shares, r.done+f.shares
	e := wire.Executed{Shares: decimal(f.shares), Price: decimal(f.price), Time: f.time}
	o.executed, r.executed = append(o.executed, e), append(r.executed, e)
	t.touched[r.id] = true
	t.fills++

	buyer, seller := t.money(buy.account), t.money(sell.account)
	move(&buyer.held, &seller.free, product(f.shares, f.price))
	if buy.kind != "market" {
		move(&buyer.held, &buyer.free, product(f.shares, buy.limit-f.price))
	}
	move(&t.position(o.sym, sell.account).held, &t.position(o.sym, buy.account).free, big.NewInt(f.shares))
}

// settleCancels applies the cancels that the replay of later orders has not applied, and compares the open shares
// with the tables.
func (t *truth) settleCancels(r *rows) error {
	if err := t.reduceAll(); err != nil {
		return err
	}
	changed := map[*book]bool{}
	for id := range r.canceled {
		o := t.orders[id]
		if o == nil || o.released {
			continue
		}
		if o.canceled != o.open || o.open == 0 {
			return fmt.Errorf("order %d was canceled with %s open; by its executions it had %s", id, decimal(o.canceled),
				decimal(o.open))
		}
		t.release(o)
		changed[t.books[o.sym]] = true
	}
	for b := range changed {
		for _, side := range []*[]*order{&b.bids, &b.asks} {
			*side = slices.DeleteFunc(*side, func(o *order) bool { return o.open == 0 })
		}
	}
	for id, open := range r.open {
		if o := t.orders[id]; o == nil || o.open != open {
			return fmt.Errorf("order %d: the table has %s open, its executions leave %s", id, decimal(open), decimal(o.open))
		}
	}
	return nil
}

// conserved returns an error if anything is negative, or if a symbol's shares differ from its deposits.
// Cash needs no sum, since each balance was compared.
func (t *truth) conserved() error {
	sums := map[string]*big.Int{}
	for key, h := range t.shares {
		if h.free.Sign() < 0 || h.held.Sign() < 0 {
			return fmt.Errorf("position %s has %s free and %s held", key, model.Decimal(h.free, 8), model.Decimal(h.held, 8))
		}
		sum := sums[key[0]]
		if sum == nil {
			sum = new(big.Int)
			sums[key[0]] = sum
		}
		sum.Add(sum, h.free).Add(sum, h.held)
	}
	for sym, placed := range t.placed {
		if sums[sym] == nil || sums[sym].Cmp(placed) != 0 {
			return fmt.Errorf("symbol %s has %v shares, in units of 10^-8, of %s that were placed", sym, sums[sym], placed)
		}
	}
	for id, h := range t.cash {
		if h.free.Sign() < 0 || h.held.Sign() < 0 {
			return fmt.Errorf("account %s has %s free and %s held", id, model.Decimal(h.free, 16), model.Decimal(h.held, 16))
		}
	}
	return nil
}

// compareHoldings compares a table with the expected holdings. A row of zeros may be missing.
func compareHoldings(what string, table map[[2]string][2]string, want map[[2]string]*holding, places int) error {
	for key, h := range want {
		have, ok := table[key]
		switch {
		case !ok && h.free.Sign() == 0 && h.held.Sign() == 0:
		case !ok:
			return fmt.Errorf("%s %s is not in the tables, but should have %s free and %s held", what, key,
				model.Decimal(h.free, places),
				model.Decimal(h.held, places))
		case !equals(have[0], h.free, places) || !equals(have[1], h.held, places):
			return fmt.Errorf("%s %s has %s free and %s held in the tables; by the orders and executions it must be %s and %s",
				what, key, have[0], have[1], model.Decimal(h.free, places), model.Decimal(h.held, places))
		}
	}
	for key, have := range table {
		if want[key] == nil {
			return fmt.Errorf("%s %s is in the tables with %s and %s, but was never sent", what, key, have[0], have[1])
		}
	}
	return nil
}

func equals(text string, v *big.Int, places int) bool {
	have, ok := new(big.Rat).SetString(text)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	return ok && have.Cmp(new(big.Rat).SetFrac(v, scale)) == 0
}

// status returns the expected answer to a query of the order.
func (o *order) status() wire.Answer {
	a := wire.Answer{Kind: "status", ID: fmt.Sprint(o.id), Executed: o.executed}
	if o.open > 0 {
		a.Open = decimal(o.open)
	}
	if o.canceled > 0 {
		a.Canceled, a.CanceledAt = decimal(o.canceled), o.canceledAt
	}
	if o.replacedBy > 0 {
		a.Replaced = fmt.Sprint(o.replacedBy)
	}
	if o.reduced > 0 {
		a.Reduced, a.ReducedAt = decimal(o.reduced), o.reducedAt
	}
	return a
}
