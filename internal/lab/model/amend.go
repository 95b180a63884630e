package model

import (
	"errors"
	"fmt"
	"math/big"
)

// Amends (part two). A chain is an order and the orders that replaced it one after another.

// first returns the oldest order of o's chain.
func (o *order) first() *order {
	for o.replaces != nil {
		o = o.replaces
	}
	return o
}

// newest returns the newest order of o's chain.
func (o *order) newest() *order {
	for o.replacedBy != nil {
		o = o.replacedBy
	}
	return o
}

// executed returns how many shares o and the orders before it in its chain have executed.
func (o *order) executed() *big.Int {
	all := new(big.Int)
	for ; o != nil; o = o.replaces {
		shares, _ := total(o.executions)
		all = sum(all, shares)
	}
	return all
}

// amend answers an <amend>. The account exists.
func (x *Exchange) amend(id string, n *node, now int64) string {
	use, err := x.amendOnce(id, n, now)
	if err != nil {
		return refusal(n, nil, err)
	}
	s := "<amended"
	if n.has("ref") {
		s += ` ref="` + n.get("ref") + `"`
	}
	s += fmt.Sprintf(` id="%d"`, use.named)
	if n.has("id") {
		s = `<amended id="` + n.get("id") + `"`
	}
	body := use.body
	if use.by != nil {
		s += fmt.Sprintf(` by="%d"`, use.by.id)
		if n.has("report") {
			body = use.by.report
		}
	}
	for _, name := range []string{"amount", "limit", "report", "newref"} {
		if n.has(name) {
			s += " " + name + `="` + escape(n.get(name)) + `"`
		}
	}
	if body == "" {
		return s + "/>"
	}
	return s + ">" + body + "</amended>"
}

// amendOnce executes an <amend>, unless its newref was used before.
func (x *Exchange) amendOnce(id string, n *node, now int64) (use refUse, err error) {
	newref, err := refOf(n, "newref")
	if err != nil || n.has("report") && n.get("report") != "full" || !n.has("amount") && !n.has("limit") {
		return use, errors.New("bad newref, bad report, or nothing to amend")
	}
	var amount, limit *big.Int
	if n.has("amount") {
		if amount, err = decimal(n.get("amount"), orderBound); err != nil || amount.Sign() == 0 {
			return use, errors.New("bad amount")
		}
	}
	if n.has("limit") {
		if limit, err = decimal(n.get("limit"), orderBound); err != nil || limit.Sign() <= 0 {
			return use, errors.New("bad limit")
		}
	}
	about, err := x.named(id, n)
	if err != nil {
		return use, err
	}
	o, err := x.own(id, about)
	if err != nil {
		return use, err
	}
	content := fmt.Sprintf("amend %d %s %s", o.first().id, showOrNone(amount), showOrNone(limit))
	return x.once(id, newref, content, func() (refUse, error) { return x.change(o, amount, limit, now) })
}

// change sets an open order's total amount and limit. A nil amount or limit stays unchanged.
func (x *Exchange) change(o *order, amount, limit *big.Int, now int64) (use refUse, err error) {
	switch {
	case o.open.Sign() == 0:
		return use, errors.New("nothing is open")
	case x.blocked[o.account]:
		return use, errors.New("blocked")
	case amount != nil && (amount.Sign() > 0) != o.buys:
		return use, errors.New("the other side")
	}
	open, price := o.open, o.limit
	if amount != nil {
		open = minus(new(big.Int).Abs(amount), o.executed())
	}
	if limit != nil {
		price = limit
	}
	use = refUse{order: o, named: o.id}
	samePrice, change := price.Cmp(o.limit) == 0, open.Cmp(o.open)
	switch {
	case open.Sign() <= 0:
		return use, errors.New("executed already")
	case samePrice && change == 0:
		use.body = `<open shares="` + show(o.open) + `"/>`
		return use, nil
	}
	if change != 0 && !x.oddLotFits(o, new(big.Int).Abs(amount), open, o.open) {
		return use, errors.New("not a multiple of the lot")
	}
	if samePrice && change < 0 {
		use.body = x.reduce(o, open, now)
		return use, nil
	}
	use.by, err = x.replace(o, open, price, now)
	use.order = use.by
	return use, err
}

// reduce lowers an order's open shares to open and returns the <reduced> element. The order keeps its
// place in the book.
func (x *Exchange) reduce(o *order, open *big.Int, now int64) string {
	off, a := minus(o.open, open), x.accounts[o.account]
	if o.buys {
		a.balance = sum(a.balance, product(off, o.limit))
	} else {
		add(a.shares, o.sym, off)
	}
	x.happened(o.account)
	o.open, o.reduced, o.reducedAt = open, sum(orZero(o.reduced), off), now
	return fmt.Sprintf(`<open shares="%s"/><reduced shares="%s" time="%d"/>`, show(open), show(off), now)
}

// replace cancels o and enters a new order in its place. On an error nothing changes.
func (x *Exchange) replace(o *order, open, limit *big.Int, now int64) (*order, error) {
	r := &order{account: o.account, sym: o.sym, buys: o.buys, shares: open, open: open, limit: limit, time: now,
		post: o.post, tif: o.tif, stp: o.stp, cod: o.cod, replaces: o}
	if x.halted[o.sym] {
		return nil, errors.New("halted")
	}
	changed := limit
	if limit.Cmp(o.limit) == 0 {
		changed = nil
	}
	if err := x.judge(r, changed, nil); err != nil {
		return nil, err
	}
	// The hold of the old order pays for the new one. Only the difference is reserved or released.
	if err := x.reserve(r, minus(x.holds(r), x.holds(o))); err != nil {
		return nil, err
	}
	o.canceled, o.canceledAt, o.open, o.replacedBy = o.open, now, new(big.Int), r
	x.forget(o.sym)
	x.enter(r, now)
	return r, nil
}
