package model

import (
	"fmt"
	"math/big"
	"slices"
)

// order is an order with everything that has happened to it.

type order struct {
	id            int
	account, sym  string
	buys          bool
	shares, limit *big.Int // the limit of a market order is its protection price
	open          *big.Int
	time          int64
	canceled      *big.Int // shares canceled, or nil if the order was not canceled
	canceledAt    int64
	executions    []execution // oldest first

	market, post bool
	tif, stp     string      // effective values: GTC, IOC or FOK; newest, oldest, both or ""
	cod          *Connection // the connection whose end cancels the order, or nil

	replaces, replacedBy *order   // the neighbors in the order's chain of amends, or nil
	reduced              *big.Int // shares removed by amends; nil if none were
	reducedAt            int64
	report               string // the order's status right after it was accepted
}

type execution struct {
	shares, price *big.Int
	time          int64
}

// trade is an execution together with the two matched orders.
type trade struct {
	resting, incoming *order
	execution
}

// placeOrder executes an <order>. The account exists.
func (c *Connection) placeOrder(id string, n *node, now int64) (*order, error) {
	q, err := readAsk(n)
	if err != nil {
		return nil, err
	}
	use, err := c.x.once(id, q.ref, q.content(), func() (refUse, error) {
		o, err := c.order(id, q, now)
		return refUse{order: o}, err
	})
	return use.order, err
}

// order checks, accepts and matches an order. The account exists. On an error nothing changes.
func (c *Connection) order(id string, q ask, now int64) (*order, error) {
	x := c.x
	if x.symbols[q.sym] == nil {
		return nil, fmt.Errorf("no such symbol")
	}
	if x.halted[q.sym] || x.blocked[id] {
		return nil, fmt.Errorf("halted, or blocked")
	}
	o := &order{account: id, sym: q.sym, buys: q.amount.Sign() > 0, shares: new(big.Int).Abs(q.amount), limit: q.limit,
		time: now, market: q.market, post: q.post, tif: q.tif, stp: q.stp}
	o.open = o.shares
	if o.stp == "" {
		o.stp = x.rules[id].STP
	}
	if q.cod == "yes" || q.cod == "" && c.cancels {
		o.cod = c
	}
	if o.market {
		best := x.bestOpposite(o)
		if best == nil {
			return nil, fmt.Errorf("no opposite orders")
		}
		if o.limit == nil {
			o.limit = x.protection(o, best.limit)
		}
	}
	if err := x.judge(o, q.limit, o.shares); err != nil {
		return nil, err
	}
	if o.mayRest() && x.openOrders(id) >= x.rules[id].openMax() {
		return nil, fmt.Errorf("too many open orders")
	}
	if err := x.reserve(o, x.holds(o)); err != nil {
		return nil, err
	}
	x.enter(o, now)
	return o, nil
}

// mayRest reports whether o's unexecuted shares stay open.
func (o *order) mayRest() bool { return o.tif == "GTC" }

// holds returns the hold that o needs: its open shares for a sell, open shares × limit for a buy, and for
// a market buy exactly what its executions cost.
func (x *Exchange) holds(o *order) *big.Int {
	switch {
	case !o.buys:
		return o.open
	case o.market:
		_, cost := total(x.would(o))
		return cost
	}
	return product(o.open, o.limit)
}

// reserve subtracts hold from the account's free cash or free shares. It returns an error if there is not enough, and
// then changes nothing.
func (x *Exchange) reserve(o *order, hold *big.Int) error {
	a := x.accounts[o.account]
	if o.buys {
		if a.balance.Cmp(hold) < 0 {
			return fmt.Errorf("insufficient funds")
		}
		a.balance = minus(a.balance, hold)
		return nil
	}
	if free := orZero(a.shares[o.sym]); free.Cmp(hold) < 0 {
		return fmt.Errorf("insufficient shares")
	}
	a.shares[o.sym] = minus(a.shares[o.sym], hold)
	return nil
}

// enter numbers and matches an order whose hold is already reserved.
func (x *Exchange) enter(o *order, now int64) {
	x.orders = append(x.orders, o)
	o.id = len(x.orders)
	x.match(o, now)
	if o.open.Sign() > 0 {
		x.resting[o.sym] = append(x.resting[o.sym], o)
		if !o.mayRest() {
			x.takeBack(o, now)
		}
	}
	o.report = o.status(1000)
}

// partMost is how many resting orders one event of an order covers. An order that meets more resting orders has
// several events.
const partMost = 4096

// match executes an incoming order against the resting orders that it reaches. If it meets an order of
// its own account, its mode of self-trade prevention applies.
func (x *Exchange) match(o *order, now int64) {
	touched := []string{o.account}
	for met := 0; o.open.Sign() > 0; met++ {
		r := x.bestOpposite(o)
		if r == nil || !o.reaches(r.limit) {
			break
		}
		if met > 0 && met%partMost == 0 {
			x.happened(touched...)
			touched = []string{o.account}
		}
		touched = append(touched, r.account)
		if r.account != o.account || o.stp == "" {
			x.execute(o, r, now)
			continue
		}
		if o.stp != "newest" {
			x.takeBack(r, now)
		}
		if o.stp != "oldest" {
			x.takeBack(o, now)
		}
	}
	x.happened(touched...)
}

// reaches reports whether o's limit allows an execution at price.
func (o *order) reaches(price *big.Int) bool {
	if o.buys {
		return price.Cmp(o.limit) <= 0
	}
	return price.Cmp(o.limit) >= 0
}

// bestOpposite returns the open order on the other side with the best price, the oldest one if several
// have it, or nil if the other side is empty.
func (x *Exchange) bestOpposite(o *order) (best *order) {
	for _, r := range x.resting[o.sym] {
		if r.buys == o.buys {
			continue
		}
		if best == nil || o.buys && r.limit.Cmp(best.limit) < 0 || !o.buys && r.limit.Cmp(best.limit) > 0 {
			best = r
		}
	}
	return best
}

// would returns the executions that o would have if it were submitted now. It changes nothing.
func (x *Exchange) would(o *order) (all []execution) {
	var others []*order
	for _, r := range x.resting[o.sym] {
		if r.buys != o.buys && o.reaches(r.limit) {
			others = append(others, r)
		}
	}
	slices.SortStableFunc(others, func(a, b *order) int {
		if o.buys {
			return a.limit.Cmp(b.limit)
		}
		return b.limit.Cmp(a.limit)
	})
	left := o.open
	for _, r := range others {
		if left.Sign() == 0 {
			break
		}
		if r.account == o.account && o.stp == "oldest" {
			continue
		}
		if r.account == o.account && o.stp != "" {
			break
		}
		e := execution{shares: smaller(left, r.open), price: r.limit}
		all, left = append(all, e), minus(left, e.shares)
	}
	return all
}

// total returns the sum of the executions' shares and of their notionals.
func total(executions []execution) (shares, worth *big.Int) {
	shares, worth = new(big.Int), new(big.Int)
	for _, e := range executions {
		shares, worth = sum(shares, e.shares), sum(worth, product(e.shares, e.price))
	}
	return shares, worth
}

// execute trades the smaller open amount of the incoming order o and the resting order r, at r's limit. The amount
// that the buyer reserved above that price is released.
func (x *Exchange) execute(o, r *order, now int64) {
	e := execution{shares: smaller(o.open, r.open), price: r.limit, time: now}
	o.open, r.open = minus(o.open, e.shares), minus(r.open, e.shares)
	o.executions, r.executions = append(o.executions, e), append(r.executions, e)
	x.trades = append(x.trades, trade{r, o, e})
	x.last[o.sym] = e.price
	buy, sell := o, r
	if r.buys {
		buy, sell = r, o
	}
	buyer, seller := x.accounts[buy.account], x.accounts[sell.account]
	seller.balance = sum(seller.balance, product(e.shares, e.price))
	if !buy.market {
		buyer.balance = sum(buyer.balance, product(e.shares, minus(buy.limit, e.price)))
	}
	add(buyer.shares, o.sym, e.shares)
	x.forget(o.sym)
}

// takeBack cancels an order's open shares and releases their hold.
func (x *Exchange) takeBack(o *order, now int64) {
	a := x.accounts[o.account]
	switch {
	case !o.buys:
		add(a.shares, o.sym, o.open)
	case !o.market: // a market buy holds nothing for shares that do not execute
		a.balance = sum(a.balance, product(o.open, o.limit))
	}
	o.canceled, o.canceledAt, o.open = o.open, now, new(big.Int)
	x.forget(o.sym)
}

// find returns an order of any account: a query may name any order (section query).
func (x *Exchange) find(id int) (*order, error) {
	if id < 1 || id > len(x.orders) {
		return nil, fmt.Errorf("no such order")
	}
	return x.orders[id-1], nil
}

// own returns an order. It returns an error if the order belongs to another account.
func (x *Exchange) own(account string, id int) (*order, error) {
	o, err := x.find(id)
	if err == nil && o.account != account {
		err = fmt.Errorf("not your order")
	}
	return o, err
}

// status returns the elements for the open shares, the canceled shares, the amends, and up to most executions, oldest
// first.
func (o *order) status(most int) (s string) {
	if o.open.Sign() > 0 {
		s += `<open shares="` + show(o.open) + `"/>`
	}
	if o.canceled != nil {
		s += fmt.Sprintf(`<canceled shares="%s" time="%d"/>`, show(o.canceled), o.canceledAt)
	}
	if o.replacedBy != nil {
		s += fmt.Sprintf(`<replaced id="%d"/>`, o.replacedBy.id)
	}
	if o.reduced != nil {
		s += fmt.Sprintf(`<reduced shares="%s" time="%d"/>`, show(o.reduced), o.reducedAt)
	}
	for i, e := range o.executions {
		if i == most {
			return s + "<more/>"
		}
		s += fmt.Sprintf(`<executed shares="%s" price="%s" time="%d"/>`, show(e.shares), show(e.price), e.time)
	}
	return s
}
