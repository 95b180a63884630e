package model

import (
	"errors"
	"fmt"
	"math/big"
)

// An order, from its element to what became of it (sections 4.1 to 4.3).

// The attributes that an <order> has, and those that a reply repeats of any element.
var (
	orderAttributes    = []string{"sym", "amount", "limit", "ref"}
	repeatedAttributes = []string{"sym", "amount", "limit", "id", "ref"}
)

type order struct {
	id            int
	account, sym  string
	buys          bool
	shares, limit *big.Int
	open          *big.Int
	time          int64
	canceled      *big.Int // nil if it was not
	canceledAt    int64
	executions    []execution // oldest first
}

type execution struct {
	shares, price *big.Int
	time          int64
}

// placeOrder does what an <order> of an account that exists asks for.
func (x *Exchange) placeOrder(id string, n *node, now int64) (*order, error) {
	amount, err1 := decimal(n.get("amount"), orderBound)
	limit, err2 := decimal(n.get("limit"), orderBound)
	ref, err3 := refOf(n)
	sym := n.get("sym")
	if err1 != nil || err2 != nil || err3 != nil || amount.Sign() == 0 || limit.Sign() <= 0 || !symbol.MatchString(sym) {
		return nil, errors.New("bad symbol, amount or limit, or bad ref")
	}
	return x.once(id, ref, "order "+sym+" "+show(amount)+" "+show(limit), func() (*order, error) {
		return x.order(id, sym, amount, limit, now)
	})
}

// order accepts an order of an account that exists, or refuses it, and matches
// it (sections 4.1 and 4.2). amount is not 0.
func (x *Exchange) order(id, sym string, amount, limit *big.Int, now int64) (*order, error) {
	a := x.accounts[id]
	if x.symbols[sym] == nil {
		return nil, fmt.Errorf("no such symbol")
	}
	if x.halted[sym] {
		return nil, fmt.Errorf("halted")
	}
	o := &order{account: id, sym: sym, buys: amount.Sign() > 0, shares: new(big.Int).Abs(amount), limit: limit, time: now}
	o.open = o.shares
	if o.buys {
		cost := product(o.shares, limit)
		if a.balance.Cmp(cost) < 0 {
			return nil, fmt.Errorf("insufficient funds")
		}
		a.balance = minus(a.balance, cost)
	} else {
		if a.shares[sym] == nil || a.shares[sym].Cmp(o.shares) < 0 {
			return nil, fmt.Errorf("insufficient shares")
		}
		a.shares[sym] = minus(a.shares[sym], o.shares)
	}
	o.id = len(x.orders) + 1
	for r := x.best(o); r != nil && o.open.Sign() > 0; r = x.best(o) {
		x.execute(o, r, now)
	}
	x.orders = append(x.orders, o)
	if o.open.Sign() > 0 {
		x.resting[sym] = append(x.resting[sym], o)
	}
	return o, nil
}

// best returns the open order that o executes against next: of those with a
// price that suits it, the one with the best price, and of these the oldest.
func (x *Exchange) best(o *order) (best *order) {
	for _, r := range x.resting[o.sym] {
		if r.buys == o.buys {
			continue
		}
		if o.buys && r.limit.Cmp(o.limit) > 0 || !o.buys && r.limit.Cmp(o.limit) < 0 {
			continue
		}
		if best == nil || o.buys && r.limit.Cmp(best.limit) < 0 || !o.buys && r.limit.Cmp(best.limit) > 0 {
			best = r
		}
	}
	return best
}

// execute trades what the incoming order o and the open order r have in common,
// at r's limit. What the buyer reserved beyond that price comes back.
func (x *Exchange) execute(o, r *order, now int64) {
	e := execution{shares: smaller(o.open, r.open), price: r.limit, time: now}
	o.open, r.open = minus(o.open, e.shares), minus(r.open, e.shares)
	o.executions, r.executions = append(o.executions, e), append(r.executions, e)
	buy, sell := o, r
	if r.buys {
		buy, sell = r, o
	}
	buyer, seller := x.accounts[buy.account], x.accounts[sell.account]
	seller.balance = sum(seller.balance, product(e.shares, e.price))
	buyer.balance = sum(buyer.balance, product(e.shares, minus(buy.limit, e.price)))
	add(buyer.shares, o.sym, e.shares)
	x.forget(o.sym)
}

// find returns an order; whose it is does not matter (section 4.3).
func (x *Exchange) find(id int) (*order, error) {
	if id < 1 || id > len(x.orders) {
		return nil, fmt.Errorf("no such order")
	}
	return x.orders[id-1], nil
}

// status lists what is open, what was canceled, and the executions, oldest first
// (section 4.3).
func (o *order) status() (s string) {
	if o.open.Sign() > 0 {
		s += `<open shares="` + show(o.open) + `"/>`
	}
	if o.canceled != nil {
		s += fmt.Sprintf(`<canceled shares="%s" time="%d"/>`, show(o.canceled), o.canceledAt)
	}
	for _, e := range o.executions {
		s += fmt.Sprintf(`<executed shares="%s" price="%s" time="%d"/>`, show(e.shares), show(e.price), e.time)
	}
	return s
}
