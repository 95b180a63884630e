package accounts

import (
	"cmp"
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
}

// position is what an account has of a symbol.
type position struct {
	symbol       symbolNumber
	shares, held exchange.Position
}

// add makes an account. Its id must not be there.
func (v *View) add(id exchange.AccountID) *account {
	a := &account{id: exchange.AccountID(strings.Clone(string(id))), number: uint32(len(v.list))}
	v.accounts[a.id] = a
	v.list = append(v.list, a)
	return a
}

// addSymbol makes a symbol. It must not be there.
func (v *View) addSymbol(s exchange.Symbol) {
	s = exchange.Symbol(strings.Clone(string(s)))
	v.symbols[s] = symbolNumber(len(v.names))
	v.names = append(v.names, s)
}

// pay changes an account's free and held cash. ok is false if one of them is negative then.
func (a *account) pay(free, held exchange.Cash) (ok bool) {
	a.balance, a.held = a.balance.Add(free), a.held.Add(held)
	return a.balance.Sign() >= 0 && a.held.Sign() >= 0
}

// deliver changes an account's free and held shares of a symbol. ok is false if one of them is
// negative then.
func (a *account) deliver(s symbolNumber, free, held exchange.Position) (ok bool) {
	i, found := slices.BinarySearchFunc(a.positions, s, func(p position, s symbolNumber) int {
		return cmp.Compare(p.symbol, s)
	})
	if !found {
		a.positions = slices.Insert(a.positions, i, position{symbol: s})
	}
	p := &a.positions[i]
	p.shares, p.held = p.shares.Add(free), p.held.Add(held)
	if p.shares.Sign() == 0 && p.held.Sign() == 0 {
		a.positions = remove(a.positions, i)
		return true
	}
	return p.shares.Sign() >= 0 && p.held.Sign() >= 0
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
