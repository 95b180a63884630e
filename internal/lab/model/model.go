// Package model is a second implementation of the exchange: slow, obvious, and written from
// docs/PROTOCOL.md alone. It shares no code with the exchange that it is compared with, and the exchange
// does not import it. Numbers are big.Int, books are lists searched from the front, and nothing is stored
// on disk. Its files follow the protocol: document.go parses a document, protocol.go reads and answers
// its elements, ask.go reads an <order>, order.go runs an order from acceptance to its final status,
// amend.go implements amends, refs.go implements refs, rules.go holds the operator's rules, view.go
// answers an account's queries about itself, and model.go keeps the accounts.
//
// The package also holds the transcripts: conversations whose every byte is known, which tests run
// against both implementations. And it holds a generator of random sessions.
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
	symbols  map[string]*big.Int  // shares deposited in total, by symbol
	orders   []*order             // order n is orders[n-1]
	resting  map[string][]*order  // orders with open shares, by symbol, oldest first
	opened   *big.Int             // sum of all opening balances
	refs     map[[2]string]refUse // by account and ref
	halted   map[string]bool      // symbols that accept no orders
	trades   []trade              // all executions, oldest first
	last     map[string]*big.Int  // price of the last execution, by symbol
	events   map[string]int       // number of events, by account

	rules       map[string]AccountRules
	blocked     map[string]bool // accounts that may not place or amend orders
	symbolRules map[string]SymbolRules
	switches    map[string]int64 // times at which all of an account's orders are canceled, in seconds since the epoch
	alone       *Connection      // the connection that Exchange.Do uses
}

// account has the free cash and shares, without the holds of open orders, and the opening balance.
type account struct {
	balance, opened *big.Int
	shares, placed  map[string]*big.Int
}

// New returns an empty exchange.
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

// The upper bounds of the sum of all balances, and of all shares of one symbol: 10^21.
var (
	cashTotal   = tenTo(21 + 16)
	sharesTotal = tenTo(21 + 8)
)

// open opens an account. balance is in units of 10^-16 dollars.
func (x *Exchange) open(id string, balance *big.Int) error {
	if x.accounts[id] != nil {
		return fmt.Errorf("account exists")
	}
	if sum(x.opened, balance).Cmp(cashTotal) >= 0 {
		return fmt.Errorf("too much cash")
	}
	x.opened = sum(x.opened, balance)
	x.accounts[id] = &account{balance: balance, opened: balance,
		shares: map[string]*big.Int{}, placed: map[string]*big.Int{}}
	x.happened(id)
	return nil
}

// make makes a symbol if it does not exist. If it exists, tick and lot must be equal to the symbol's. A
// nil tick or lot was not sent.
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

// place adds shares to an account's position. The symbol must exist.
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

// forget removes orders without open shares from x.resting.
func (x *Exchange) forget(sym string) {
	x.resting[sym] = slices.DeleteFunc(x.resting[sym], func(o *order) bool { return o.open.Sign() == 0 })
}

// cancel cancels the open shares of an order. The order must belong to the account.
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
