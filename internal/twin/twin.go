// Package twin is the exchange a second time: slow, obvious, and written from
// docs/PROTOCOL.md alone. It shares no code with the exchange that it is compared
// with. Numbers are big.Int, books are lists that are searched from the front,
// nothing is ever stored. Only tests import it.
//
// It also holds the transcripts: conversations whose every byte is known, which
// tests hold both exchanges to; and a generator of random sessions.
package twin

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// Exchange is a whole exchange in memory. Not safe for concurrent use.
type Exchange struct {
	accounts map[string]*account
	symbols  map[string]*big.Int // shares placed in each
	orders   []*order            // order n is orders[n-1]
	resting  map[string][]*order // those with open shares, by symbol, oldest first
	opened   *big.Int            // all balances that accounts were opened with
}

type account struct {
	balance *big.Int
	shares  map[string]*big.Int
}

type order struct {
	id            int
	account, sym  string
	buys          bool
	shares, limit *big.Int
	open          *big.Int
	time          int64
	canceled      *big.Int // nil when it was not
	canceledAt    int64
	executions    []execution
}

type execution struct {
	shares, price *big.Int
	time          int64
}

// New returns an exchange without anything in it.
func New() *Exchange {
	return &Exchange{accounts: map[string]*account{}, symbols: map[string]*big.Int{}, resting: map[string][]*order{}, opened: new(big.Int)}
}

// tenTo returns 10^n. Shares and prices are counted in units of 10^-8, cash in
// units of 10^-16, so that shares × price is cash.
func tenTo(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

func sum(a, b *big.Int) *big.Int     { return new(big.Int).Add(a, b) }
func minus(a, b *big.Int) *big.Int   { return new(big.Int).Sub(a, b) }
func product(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }

func smaller(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// show prints a number of shares or a price in its shortest exact form.
func show(v *big.Int) string { return decimals(v, 8) }

// dollars prints cash in its shortest exact form.
func dollars(v *big.Int) string { return decimals(v, 16) }

func decimals(v *big.Int, places int) string {
	s := fmt.Sprintf("%0*s", places+1, new(big.Int).Abs(v))
	s = s[:len(s)-places] + "." + s[len(s)-places:]
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	if v.Sign() < 0 {
		return "-" + s
	}
	return s
}

// The bounds of all balances, and of the shares of one symbol: 10^21.
var (
	cashTotal   = tenTo(21 + 16)
	sharesTotal = tenTo(21 + 8)
)

func (x *Exchange) open(id string, balance *big.Int) error {
	if x.accounts[id] != nil {
		return fmt.Errorf("account exists")
	}
	if sum(x.opened, balance).Cmp(cashTotal) >= 0 {
		return fmt.Errorf("too much money")
	}
	x.opened = sum(x.opened, balance)
	x.accounts[id] = &account{balance: balance, shares: map[string]*big.Int{}}
	return nil
}

func (x *Exchange) make(sym string) {
	if x.symbols[sym] == nil {
		x.symbols[sym] = new(big.Int)
	}
}

func (x *Exchange) place(sym, id string, shares *big.Int) error {
	a := x.accounts[id]
	if a == nil {
		return fmt.Errorf("no such account")
	}
	if sum(x.symbols[sym], shares).Cmp(sharesTotal) >= 0 {
		return fmt.Errorf("too many shares")
	}
	x.symbols[sym] = sum(x.symbols[sym], shares)
	a.add(sym, shares)
	return nil
}

func (a *account) add(sym string, shares *big.Int) {
	if a.shares[sym] == nil {
		a.shares[sym] = new(big.Int)
	}
	a.shares[sym] = sum(a.shares[sym], shares)
}

// order accepts an order and matches it; amount is not 0.
func (x *Exchange) order(id, sym string, amount, limit *big.Int, now int64) (*order, error) {
	a := x.accounts[id]
	if a == nil || x.symbols[sym] == nil {
		return nil, fmt.Errorf("no such account or symbol")
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

// forget takes the orders out of resting that have nothing open any more.
func (x *Exchange) forget(sym string) {
	x.resting[sym] = slices.DeleteFunc(x.resting[sym], func(o *order) bool { return o.open.Sign() == 0 })
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

// execute trades what o and the open order r have in common, at r's limit.
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
	buyer.add(o.sym, e.shares)
	x.forget(o.sym)
}

func (x *Exchange) find(account string, id int) (*order, error) {
	if x.accounts[account] == nil {
		return nil, fmt.Errorf("no such account")
	}
	if id < 1 || id > len(x.orders) {
		return nil, fmt.Errorf("no such order")
	}
	return x.orders[id-1], nil
}

func (x *Exchange) cancel(account string, id int, now int64) (*order, error) {
	o, err := x.find(account, id)
	if err != nil {
		return nil, err
	}
	if o.account != account {
		return nil, fmt.Errorf("not your order")
	}
	if o.open.Sign() == 0 {
		return nil, fmt.Errorf("nothing is open")
	}
	a := x.accounts[account]
	if o.buys {
		a.balance = sum(a.balance, product(o.open, o.limit))
	} else {
		a.add(o.sym, o.open)
	}
	o.canceled, o.canceledAt, o.open = o.open, now, new(big.Int)
	x.forget(o.sym)
	return o, nil
}

// Check returns an error where cash or shares were made or lost, anything is
// negative, or two open orders should have been executed against each other.
func (x *Exchange) Check() error {
	cash, shares := new(big.Int), map[string]*big.Int{}
	for sym := range x.symbols {
		shares[sym] = new(big.Int)
	}
	for id, a := range x.accounts {
		if a.balance.Sign() < 0 {
			return fmt.Errorf("twin: account %s has %s", id, dollars(a.balance))
		}
		cash.Add(cash, a.balance)
		for sym, s := range a.shares {
			if s.Sign() < 0 {
				return fmt.Errorf("twin: account %s has %s of %s", id, show(s), sym)
			}
			shares[sym].Add(shares[sym], s)
		}
	}
	for sym, resting := range x.resting {
		for _, o := range resting {
			if o.buys {
				cash.Add(cash, product(o.open, o.limit))
			} else {
				shares[sym].Add(shares[sym], o.open)
			}
			if r := x.best(o); r != nil {
				return fmt.Errorf("twin: orders %d and %d are open and match", o.id, r.id)
			}
		}
	}
	if cash.Cmp(x.opened) != 0 {
		return fmt.Errorf("twin: %s in cash of %s", dollars(cash), dollars(x.opened))
	}
	for sym, placed := range x.symbols {
		if shares[sym].Cmp(placed) != 0 {
			return fmt.Errorf("twin: %s shares of %s in %s", show(shares[sym]), show(placed), sym)
		}
	}
	return nil
}

// Holding is what an account has free and what its open orders hold, as exact
// decimals.
type Holding struct{ Free, Held string }

// Cash returns every account's cash.
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

// Shares returns every position that was ever made, by symbol and account.
func (x *Exchange) Shares() map[[2]string]Holding {
	held := map[[2]string]*big.Int{}
	for _, o := range x.orders {
		if !o.buys {
			add(held, [2]string{o.sym, o.account}, o.open)
		}
	}
	all := map[[2]string]Holding{}
	for id, a := range x.accounts {
		for _, sym := range slices.Sorted(maps.Keys(a.shares)) {
			key := [2]string{sym, id}
			all[key] = Holding{show(a.shares[sym]), show(orZero(held[key]))}
		}
	}
	return all
}

// Order is an order as people see it, with exact decimals; sells have a negative
// Amount.
type Order struct {
	ID                       int
	Account, Sym             string
	Amount, Limit            string
	Open, Executed, Canceled string
}

// Orders returns all orders.
func (x *Exchange) Orders() (all []Order) {
	for _, o := range x.orders {
		amount := o.shares
		if !o.buys {
			amount = new(big.Int).Neg(amount)
		}
		canceled := orZero(o.canceled)
		all = append(all, Order{o.id, o.account, o.sym, show(amount), show(o.limit), show(o.open),
			show(minus(minus(o.shares, o.open), canceled)), show(canceled)})
	}
	return all
}

func add[K comparable](m map[K]*big.Int, k K, v *big.Int) { m[k] = sum(orZero(m[k]), v) }

func orZero(r *big.Int) *big.Int {
	if r == nil {
		return new(big.Int)
	}
	return r
}
