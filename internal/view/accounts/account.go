package accounts

import (
	"math"
	"slices"
	"strings"

	"outcry/internal/exchange"
)

// symbolNumber stands for a symbol: names take more memory, once for every order.
type symbolNumber uint32

// account is what is known of an account.
type account struct {
	id            exchange.AccountID
	number        uint32 // its place in View.list
	balance, held exchange.Cash
	positions     []position // by symbol; none is empty
	orders        orders
	fills         accountFills

	n       uint64 // events that there were
	touched uint64 // the record that made the newest of them
	watch   *watch // nil unless its events are kept
}

// symbol is what is known of a symbol.
type symbol struct {
	name    exchange.Symbol
	trades  uint64 // how many there were
	changed uint64 // the newest record that changed which orders rest, or the first that there could be
	open    openOrders
	resting *resting // nil unless somebody listens, or did lately
}

// position is what an account has of a symbol.
type position struct {
	symbol       symbolNumber
	shares, held exchange.Position
}

// add makes an account. Its id must not be there.
func (v *View) add(id exchange.AccountID) *account {
	a := &account{id: exchange.AccountID(strings.Clone(string(id))), number: uint32(len(v.list)),
		orders: orders{spare: &v.spareOrders}}
	if a.watch = v.watches[a.id]; a.watch != nil {
		v.unopened--
	}
	v.accounts[a.id] = a
	v.list = append(v.list, a)
	return a
}

// addSymbol makes a symbol, which a record has made. It must not be there.
func (v *View) addSymbol(s exchange.Symbol, seq uint64) *symbol {
	s = exchange.Symbol(strings.Clone(string(s)))
	v.symbols[s] = symbolNumber(len(v.markets))
	v.markets = append(v.markets, symbol{name: s, changed: seq})
	return &v.markets[len(v.markets)-1]
}

// pay changes an account's free and held cash. ok is false if one of them is negative then.
func (a *account) pay(free, held exchange.Cash) (ok bool) {
	a.balance, a.held = a.balance.Add(free), a.held.Add(held)
	return a.balance.Sign() >= 0 && a.held.Sign() >= 0
}

// deliver changes an account's free and held shares of a symbol. ok is false if one of them is
// negative then.
func (a *account) deliver(s symbolNumber, free, held exchange.Position) (ok bool) {
	i, found := a.place(s)
	if !found {
		a.positions = slices.Insert(withRoom(a.positions, math.MaxInt), i, position{symbol: s})
	}
	p := &a.positions[i]
	p.shares, p.held = p.shares.Add(free), p.held.Add(held)
	if p.shares.Sign() == 0 && p.held.Sign() == 0 {
		a.positions = remove(a.positions, i)
		return true
	}
	return p.shares.Sign() >= 0 && p.held.Sign() >= 0
}

// place returns where an account's position in a symbol is or belongs.
func (a *account) place(s symbolNumber) (i int, found bool) {
	// What slices.BinarySearchFunc does, which calls a function for each step.
	end := len(a.positions)
	for i < end {
		if mid := (i + end) / 2; a.positions[mid].symbol < s {
			i = mid + 1
		} else {
			end = mid
		}
	}
	return i, i < len(a.positions) && a.positions[i].symbol == s
}

// position returns what an account has of a symbol.
func (a *account) position(s symbolNumber) (shares, held exchange.Position) {
	if i, found := a.place(s); found {
		shares, held = a.positions[i].shares, a.positions[i].held
	}
	return shares, held
}

// withRoom returns all with room for one more; for half as many again if there is none, up to most. Nothing else takes
// as much memory as what accounts have, mostly few each, and append would make room for as many again.
func withRoom[T any](all []T, most int) []T {
	n := len(all)
	if n < cap(all) {
		return all
	}
	return append(make([]T, 0, min(n+max(1, n/2), most)), all...)
}

// remove removes the i-th of all, and gives memory back if most of it is unused: what was many once
// must not be held for ever.
func remove[T any](all []T, i int) []T {
	all = slices.Delete(all, i, i+1)
	switch n := len(all); {
	case n == 0:
		return nil
	case n <= cap(all)/4:
		return append(make([]T, 0, 2*n), all...)
	}
	return all
}
