// Package model is the exchange a second time: slow, obvious, and written from
// docs/PROTOCOL.md alone. It shares no code with the exchange that it is compared
// with. Numbers are big.Int, books are lists that are searched from the front,
// nothing is ever stored. No exchange imports it. It is made to be held beside the
// protocol: document.go is what a document is, protocol.go what its elements are, ask.go an order's element,
// order.go an order from what it asks for to its status, amend.go what amends make of it, refs.go what a ref makes
// of them, rules.go what operators allow, view.go what an account sees of itself, and model.go what they do to
// accounts.
//
// It also holds the transcripts: conversations whose every byte is known, which
// tests hold both exchanges to; and a generator of random sessions.
package model

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Exchange is a whole exchange in memory. Not safe for concurrent use.
type Exchange struct {
	accounts map[string]*account
	symbols  map[string]*big.Int  // shares placed in each
	orders   []*order             // order n is orders[n-1]
	resting  map[string][]*order  // those with open shares, by symbol, oldest first
	opened   *big.Int             // all balances that accounts were opened with
	refs     map[[2]string]refUse // by account and ref
	halted   map[string]bool      // symbols that take no orders
	trades   []trade              // all executions, in their order
	last     map[string]*big.Int  // the price of the last one, by symbol
	events   map[string]int       // how many there were of each account

	rules       map[string]AccountRules
	blocked     map[string]bool // accounts that place and amend no orders
	symbolRules map[string]SymbolRules
	switches    map[string]int64 // when all of an account is canceled, in seconds since the epoch
	alone       *Connection      // that of Do
}

// account has what its open orders do not hold, and what it was given.
type account struct {
	balance, opened *big.Int
	shares, placed  map[string]*big.Int
}

// New returns an exchange without anything in it.
func New() *Exchange {
	x := &Exchange{accounts: map[string]*account{}, symbols: map[string]*big.Int{}, resting: map[string][]*order{},
		opened: new(big.Int), refs: map[[2]string]refUse{}, halted: map[string]bool{}, last: map[string]*big.Int{},
		events: map[string]int{},
		rules:  map[string]AccountRules{}, blocked: map[string]bool{}, symbolRules: map[string]SymbolRules{},
		switches: map[string]int64{}}
	x.alone = x.Connect()
	return x
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

func larger(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// show prints a number of shares or a price in its shortest exact form.
func show(v *big.Int) string { return Decimal(v, 8) }

// dollars prints cash in its shortest exact form.
func dollars(v *big.Int) string { return Decimal(v, 16) }

// Decimal prints v units of 10^-places in its shortest exact form.
func Decimal(v *big.Int, places int) string {
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

// open opens an account. Amounts are in units of 10^-16 dollars.
func (x *Exchange) open(id string, balance *big.Int) error {
	if x.accounts[id] != nil {
		return fmt.Errorf("account exists")
	}
	if sum(x.opened, balance).Cmp(cashTotal) >= 0 {
		return fmt.Errorf("too much money")
	}
	x.opened = sum(x.opened, balance)
	x.accounts[id] = &account{balance: balance, opened: balance,
		shares: map[string]*big.Int{}, placed: map[string]*big.Int{}}
	x.happened(id)
	return nil
}

// make makes a symbol if it is new. If it is not, a tick and a lot, which are nil if they were not sent,
// have to be those that it has.
func (x *Exchange) make(sym string, tick, lot *big.Int) error {
	if x.symbols[sym] == nil {
		x.symbols[sym] = new(big.Int)
		x.symbolRules[sym] = SymbolRules{Tick: tick, Lot: lot}
	}
	if r := x.symbolRules[sym]; tick != nil && tick.Cmp(unit(r.Tick)) != 0 || lot != nil && lot.Cmp(unit(r.Lot)) != 0 {
		return fmt.Errorf("the symbol has another tick or lot")
	}
	return nil
}

// place adds shares of a symbol, which exists, to an account's position.
func (x *Exchange) place(sym, id string, shares *big.Int) error {
	a := x.accounts[id]
	if a == nil {
		return fmt.Errorf("no such account")
	}
	if sum(x.symbols[sym], shares).Cmp(sharesTotal) >= 0 {
		return fmt.Errorf("too many shares")
	}
	x.symbols[sym] = sum(x.symbols[sym], shares)
	add(a.shares, sym, shares)
	add(a.placed, sym, shares)
	x.happened(id)
	return nil
}

// forget takes the orders out of resting that have nothing open any more.
func (x *Exchange) forget(sym string) {
	x.resting[sym] = slices.DeleteFunc(x.resting[sym], func(o *order) bool { return o.open.Sign() == 0 })
}

// cancel cancels what is open of an account's order.
func (x *Exchange) cancel(account string, id int, now int64) (*order, error) {
	o, err := x.own(account, id)
	if err != nil {
		return nil, err
	}
	if o.open.Sign() == 0 {
		return nil, fmt.Errorf("nothing is open")
	}
	x.takeBack(o, now)
	x.happened(account)
	return o, nil
}

func add[K comparable](m map[K]*big.Int, k K, v *big.Int) { m[k] = sum(orZero(m[k]), v) }

func orZero(v *big.Int) *big.Int {
	if v == nil {
		return new(big.Int)
	}
	return v
}
