package faulty

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

type order struct {
	id           int
	account, sym string
	buys         bool
	shares       *big.Rat // always positive
	limit        *big.Rat
	open         *big.Rat
	canceled     *big.Rat // shares canceled; nil if the order was not canceled
	canceledAt   int64
	executions   []execution
}

type execution struct {
	shares, price *big.Rat
	time          int64
}

// richBalance is the balance of accounts that the fault unknown-account opens.
var richBalance = big.NewRat(1e9, 1)

// transaction executes a child of <transactions>, and returns its answer.
func (x *exchange) transaction(root, n *node) string {
	id := root.get("id") + root.get("account")
	if x.o.Habits.AccountAttribute {
		id = root.get("account")
	}
	if x.accountID(id) && x.accounts[id] == nil && x.o.has("unknown-account") && n.name == "order" {
		x.accounts[id] = &account{richBalance, richBalance, map[string]*big.Rat{}, map[string]*big.Rat{}}
	}
	if root.has("id") == root.has("account") || x.accounts[id] == nil {
		return x.refuse(n.name, x.echo(n, nil), errors.New("there is no such account"))
	}
	names := map[string][]string{"order": {"sym", "amount", "limit"}, "query": {"id"}, "cancel": {"id"}}[n.name]
	if names == nil || !n.only(names...) || len(n.children) > 0 || strings.TrimSpace(n.text) != "" {
		return x.refuse(n.name, x.echo(n, nil), errors.New("unknown element, attribute or content"))
	}
	var text string
	var err error
	switch n.name {
	case "order":
		text, err = x.order(id, n)
	case "query":
		text, err = x.query(id, n)
	case "cancel":
		text, err = x.cancel(id, n)
	}
	if err != nil {
		return x.refuse(n.name, x.echo(n, nil), err)
	}
	return text
}

// order executes an <order>. The error is why it is rejected.
func (x *exchange) order(id string, n *node) (string, error) {
	read := func(name string) (*big.Rat, error) {
		if !n.has(name) && x.o.has("default-limit") {
			return big.NewRat(1, 1), nil
		}
		return x.decimal(n.get(name), orderBound)
	}
	amount, err1 := read("amount")
	limit, err2 := read("limit")
	sym := n.get("sym")
	if x.books[sym] == "" && symbol.MatchString(sym) && x.o.has("unknown-symbol") {
		x.books[sym] = sym
	}
	switch {
	case err1 != nil || err2 != nil:
		return "", errors.Join(err1, err2)
	case amount.Sign() == 0 && !x.o.has("zero-amount"):
		return "", errors.New("an order with amount 0")
	case limit.Sign() <= 0:
		return "", errors.New("a limit must be more than 0")
	case x.books[sym] == "":
		return "", errors.New("there is no such symbol")
	}
	o := &order{account: id, sym: sym, buys: amount.Sign() > 0, shares: new(big.Rat).Abs(amount), limit: limit}
	o.open = o.shares
	if err := x.hold(o); err != nil {
		return "", err
	}
	o.id = x.number(sym)
	x.orders[o.id] = o
	x.match(o)
	return fmt.Sprintf(`<opened%s id="%d"/>`, x.echo(n, nil), o.id), nil
}

// number returns a new order id.
func (x *exchange) number(sym string) int {
	if !x.o.has("ids-per-symbol") {
		sym = ""
	}
	n := x.last[sym] + 1
	x.race("racing-ids")
	x.last[sym] = n
	return n
}

// hold sets aside the money or the shares that an order could need. The error says that the account has too little.
func (x *exchange) hold(o *order) error {
	a := x.accounts[o.account]
	if !o.buys {
		if sum(a.shares[o.sym], minus(o.shares)).Sign() < 0 && !x.o.has("short-sales") {
			return errors.New("insufficient shares")
		}
		if !x.o.has("holds-nothing") {
			a.add(o.sym, minus(o.shares))
		}
		return nil
	}
	cost := product(o.shares, o.limit)
	if a.cash.Cmp(cost) < 0 && !x.o.has("overdraft") {
		return errors.New("insufficient funds")
	}
	x.race("racing-balance")
	if !x.o.has("holds-nothing") {
		x.pay(a, minus(cost))
	}
	return nil
}

// pay adds v to an account's cash.
func (x *exchange) pay(a *account, v *big.Rat) {
	a.cash = sum(a.cash, v)
	if x.o.has("float-money") {
		f, _ := a.cash.Float64()
		a.cash = new(big.Rat).SetFloat64(f)
	}
}

// match executes an order against the resting orders that it crosses; the rest of it stays in the book.
func (x *exchange) match(o *order) {
	book := x.books[o.sym]
	for o.open.Sign() > 0 && !(x.restored && x.o.has("executions-lost")) {
		r := x.best(o)
		if r == nil {
			break
		}
		shares := smaller(o.open, r.open)
		x.race("racing-trades")
		x.execute(o, r, shares)
		if x.o.has("one-execution") {
			break
		}
	}
	if o.open.Sign() > 0 {
		x.resting[book] = append(x.resting[book], o)
	}
}

// best returns the order that the incoming order o executes against next, nil if no order matches.
func (x *exchange) best(o *order) (best *order) {
	worst, newest := x.o.has("worst-price"), x.o.has("newest-first")
	for _, r := range x.resting[x.books[o.sym]] {
		cross := r.limit.Cmp(o.limit)
		better := 1
		if best != nil {
			better = best.limit.Cmp(r.limit)
		}
		if !o.buys {
			cross = -cross
			if best != nil {
				better = -better
			}
		}
		if best != nil && worst {
			better = -better
		}
		switch {
		case r.buys == o.buys, cross > 0, cross == 0 && x.o.has("strict-cross"),
			r.account == o.account && x.o.has("never-itself"):
		case better > 0, better == 0 && newest:
			best = r
		}
	}
	return best
}

// execute trades shares between an incoming order o and a resting one r.
func (x *exchange) execute(o, r *order, shares *big.Rat) {
	price := r.limit
	if x.o.has("incoming-price") {
		price = o.limit
	}
	for _, each := range []*order{o, r} {
		each.open = sum(each.open, minus(smaller(shares, each.open)))
		each.executions = append(each.executions, execution{shares, price, x.now})
	}
	buy, sell := o, r
	if r.buys {
		buy, sell = r, o
	}
	buyer, seller := x.accounts[buy.account], x.accounts[sell.account]
	if x.o.has("holds-nothing") {
		x.pay(buyer, minus(product(shares, price)))
		seller.add(sell.sym, minus(shares))
	} else if saved := sum(buy.limit, minus(price)); !x.o.has("no-improvement") {
		x.pay(buyer, product(shares, saved))
	}
	if !x.o.has("seller-unpaid") {
		x.pay(seller, product(shares, price))
	}
	if !x.o.has("no-delivery") {
		buyer.add(buy.sym, shares)
	}
	book := x.books[o.sym]
	at := slices.Index(x.resting[book], r)
	if at >= 0 && (r.open.Sign() == 0 || x.o.has("priority-lost")) {
		x.resting[book] = slices.Delete(x.resting[book], at, at+1)
		if r.open.Sign() > 0 {
			x.resting[book] = append(x.resting[book], r)
		}
	}
}

// find returns the order that a <query> or <cancel> names.
func (x *exchange) find(n *node) (*order, error) {
	id, err := strconv.Atoi(n.get("id"))
	if err != nil || !orderID.MatchString(n.get("id")) || x.orders[id] == nil {
		return nil, errors.New("there is no such order")
	}
	return x.orders[id], nil
}

// query executes a <query>.
func (x *exchange) query(id string, n *node) (string, error) {
	o, err := x.find(n)
	if err == nil && o.account != id && x.o.has("own-queries") {
		err = errors.New("not your order")
	}
	if err != nil {
		return "", err
	}
	return "<status" + x.echo(n, nil) + ">" + x.status(o) + "</status>", nil
}

// cancel executes a <cancel>.
func (x *exchange) cancel(id string, n *node) (string, error) {
	o, err := x.find(n)
	switch {
	case err != nil:
		return "", err
	case o.account != id && !x.o.has("others-canceled"):
		return "", errors.New("not your order")
	case o.open.Sign() == 0 && !x.o.has("canceled-twice"):
		return "", errors.New("nothing is open")
	}
	left := o.open
	x.race("racing-cancel")
	x.giveBack(o, left)
	if o.canceled == nil || left.Sign() > 0 {
		o.canceled, o.canceledAt = left, x.now
	}
	if x.o.has("executions-forgotten") {
		o.executions = nil
	}
	text := "<canceled" + x.echo(n, nil) + ">" + x.status(o) + "</canceled>"
	if x.o.has("canceled-executes") {
		o.open = left
		return text, nil
	}
	return text, nil
}

// giveBack removes an order from its book, and returns the hold for left, its open shares, to the account.
func (x *exchange) giveBack(o *order, left *big.Rat) {
	a, book := x.accounts[o.account], x.books[o.sym]
	o.open = new(big.Rat)
	if !x.o.has("canceled-executes") {
		x.resting[book] = slices.DeleteFunc(x.resting[book], func(r *order) bool { return r == o })
	}
	if x.o.has("refund-whole") {
		left = o.shares
	}
	switch {
	case x.o.has("no-refund"), x.o.has("holds-nothing"):
	case o.buys:
		x.pay(a, product(left, o.limit))
	default:
		a.add(o.sym, left)
	}
}

// status returns the open and canceled shares and the executions of an order, as elements.
func (x *exchange) status(o *order) (s string) {
	sign := ""
	if x.o.has("signed-shares") && !o.buys {
		sign = "-"
	}
	open := o.open
	if x.o.has("open-unchanged") && open.Sign() > 0 {
		open = o.shares
	}
	at := func(t int64) int64 {
		if x.o.has("milliseconds") {
			return 1000 * t
		}
		return t
	}
	if o.canceled == nil && (open.Sign() > 0 || x.o.has("open-zero")) {
		s += `<open shares="` + sign + show(open) + `"/>`
	}
	if o.canceled != nil {
		s += fmt.Sprintf(`<canceled shares="%s" time="%d"/>`, sign+show(o.canceled), at(o.canceledAt))
	}
	executions := slices.Clone(o.executions)
	if x.o.has("executions-backwards") {
		slices.Reverse(executions)
	}
	for _, e := range executions {
		price := show(e.price)
		if x.o.has("dollar-signs") {
			price = "$" + e.price.FloatString(2)
		}
		s += fmt.Sprintf(`<executed shares="%s" price="%s" time="%d"/>`, sign+show(e.shares), price, at(e.time))
	}
	return s
}
