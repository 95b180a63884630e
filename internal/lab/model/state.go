package model

import (
	"fmt"
	"maps"
	"math/big"
)

// Check returns an error if cash or shares were created or lost, if a balance or position is negative, if
// an order's parts do not add up to its amount, or if two open orders should have matched.
func (x *Exchange) Check() error {
	cash, shares := new(big.Int), map[string]*big.Int{}
	for id, a := range x.accounts {
		if a.balance.Sign() < 0 {
			return fmt.Errorf("model: account %s has %s", id, dollars(a.balance))
		}
		cash = sum(cash, a.balance)
		for sym, s := range a.shares {
			if s.Sign() < 0 {
				return fmt.Errorf("model: account %s has %s of %s", id, show(s), sym)
			}
			add(shares, sym, s)
		}
	}
	for _, o := range x.orders {
		if err := o.check(); err != nil {
			return err
		}
		if o.buys {
			cash = sum(cash, product(o.open, o.limit))
		} else {
			add(shares, o.sym, o.open)
		}
	}
	if cash.Cmp(x.opened) != 0 || cash.Cmp(cashTotal) >= 0 {
		return fmt.Errorf("model: %s in cash of %s", dollars(cash), dollars(x.opened))
	}
	for sym, placed := range x.symbols {
		if s := orZero(shares[sym]); s.Cmp(placed) != 0 || s.Cmp(sharesTotal) >= 0 {
			return fmt.Errorf("model: %s shares of %s in %s", show(s), show(placed), sym)
		}
	}
	if err := x.checkHistory(); err != nil {
		return err
	}
	return x.checkBooks()
}

// checkHistory returns an error if an account's balance or positions differ from those that all its past events add
// up to.
func (x *Exchange) checkHistory() error {
	for id, a := range x.accounts {
		cash, _, shares, _ := x.history(id)
		if cash.Cmp(a.balance) != 0 {
			return fmt.Errorf("model: account %s has %s, its history says %s", id, dollars(a.balance), dollars(cash))
		}
		for sym := range a.shares {
			if orZero(shares[sym]).Cmp(a.shares[sym]) != 0 {
				return fmt.Errorf("model: account %s has %s of %s, its history says %s", id, show(a.shares[sym]), sym,
					show(orZero(shares[sym])))
			}
		}
	}
	return nil
}

// check returns an error if the open, canceled and executed shares do not add up to the order's amount,
// or if an execution was worse than the order's limit.
func (o *order) check() error {
	parts := sum(sum(o.open, orZero(o.canceled)), orZero(o.reduced))
	for _, e := range o.executions {
		parts = sum(parts, e.shares)
		if o.buys && e.price.Cmp(o.limit) > 0 || !o.buys && e.price.Cmp(o.limit) < 0 {
			return fmt.Errorf("model: order %d was executed at %s, beyond its limit %s", o.id, show(e.price), show(o.limit))
		}
	}
	if o.open.Sign() > 0 && !o.mayRest() {
		return fmt.Errorf("model: order %d has %s open, but is of the kind %s", o.id, show(o.open), o.tif)
	}
	if parts.Cmp(o.shares) != 0 || o.open.Sign() < 0 || o.canceled != nil && o.open.Sign() != 0 {
		return fmt.Errorf("model: order %d of %s shares has %s open and %s canceled", o.id, show(o.shares), show(o.open),
			show(orZero(o.canceled)))
	}
	return nil
}

// checkBooks returns an error unless the books hold exactly the orders with open shares, oldest first,
// and every resting buy is below every resting sell.
func (x *Exchange) checkBooks() error {
	open := map[string][]*order{}
	for _, o := range x.orders {
		if o.open.Sign() > 0 {
			open[o.sym] = append(open[o.sym], o)
		}
	}
	for sym := range x.symbols {
		if len(open[sym]) != len(x.resting[sym]) {
			return fmt.Errorf("model: %d orders for %s are open, but %d rest", len(open[sym]), sym, len(x.resting[sym]))
		}
		var bid, ask *order
		for i, o := range open[sym] {
			if o != x.resting[sym][i] {
				return fmt.Errorf("model: order %d stands where order %d belongs", x.resting[sym][i].id, o.id)
			}
			if o.buys && (bid == nil || o.limit.Cmp(bid.limit) > 0) {
				bid = o
			}
			if !o.buys && (ask == nil || o.limit.Cmp(ask.limit) < 0) {
				ask = o
			}
		}
		if bid != nil && ask != nil && bid.limit.Cmp(ask.limit) >= 0 {
			return fmt.Errorf("model: orders %d and %d are open and match", bid.id, ask.id)
		}
	}
	return nil
}

// Holding is the free and the held part of a balance or position, as exact decimals in their shortest
// form.
type Holding struct{ Free, Held string }

// Cash returns every account's dollars.
func (x *Exchange) Cash() map[string]Holding {
	held := map[string]*big.Int{}
	for _, o := range x.orders {
		if o.buys {
			add(held, o.account, product(o.open, o.limit))
		}
	}
	all := map[string]Holding{}
	for id, a := range x.accounts {
		all[id] = Holding{dollars(a.balance), dollars(orZero(held[id]))}
	}
	return all
}

// Shares returns every position that ever existed, by symbol and account.
func (x *Exchange) Shares() map[[2]string]Holding {
	held := map[[2]string]*big.Int{}
	for _, o := range x.orders {
		if !o.buys {
			add(held, [2]string{o.sym, o.account}, o.open)
		}
	}
	all := map[[2]string]Holding{}
	for id, a := range x.accounts {
		for sym, s := range a.shares {
			key := [2]string{sym, id}
			all[key] = Holding{show(s), show(orZero(held[key]))}
		}
	}
	return all
}

// Order is an order with exact decimals in their shortest form. Amount is negative for a sell; the other
// share counts are never negative.
type Order struct {
	ID                       int
	Account, Sym             string
	Amount, Limit            string
	Open, Executed, Canceled string
	Reduced                  string
	Type, TIF, STP           string // limit or market; GTC, IOC or FOK; newest, oldest, both or ""
	Post, COD                bool
	Replaces                 int   // the order that it replaced, 0 if none
	Time, CanceledAt         int64 // seconds since the epoch; CanceledAt is 0 if nothing was canceled
	Executions               []Execution
}

// Execution is one execution of an order.
type Execution struct {
	Shares, Price string
	Time          int64
}

// Orders returns all orders, oldest first.
func (x *Exchange) Orders() (all []Order) {
	for _, o := range x.orders {
		amount, executed := o.shares, new(big.Int)
		if !o.buys {
			amount = new(big.Int).Neg(amount)
		}
		var executions []Execution
		for _, e := range o.executions {
			executed = sum(executed, e.shares)
			executions = append(executions, Execution{show(e.shares), show(e.price), e.time})
		}
		shown := Order{
			ID: o.id, Account: o.account, Sym: o.sym,
			Amount: show(amount), Limit: show(o.limit),
			Open: show(o.open), Executed: show(executed), Canceled: show(orZero(o.canceled)),
			Reduced: show(orZero(o.reduced)), Type: "limit", TIF: o.tif, STP: o.stp, Post: o.post, COD: o.cod != nil,
			Time: o.time, CanceledAt: o.canceledAt, Executions: executions,
		}
		if o.market {
			shown.Type = "market"
		}
		if o.replaces != nil {
			shown.Replaces = o.replaces.id
		}
		all = append(all, shown)
	}
	return all
}

// Fills returns how many executions each account has had. A trade of an account with itself counts twice.
func (x *Exchange) Fills() map[string]int {
	all := map[string]int{}
	for _, t := range x.trades {
		all[t.resting.account]++
		all[t.incoming.account]++
	}
	return all
}

// happened counts one event for each of the accounts. An account that is named several times gets only one.
func (x *Exchange) happened(accounts ...string) {
	counted := map[string]bool{}
	for _, id := range accounts {
		if !counted[id] {
			counted[id] = true
			x.events[id]++
		}
	}
}

// Events returns how many events each account has had: one for each change, including its opening. An
// order counts once for every partMost resting orders that it meets.
func (x *Exchange) Events() map[string]int { return maps.Clone(x.events) }
