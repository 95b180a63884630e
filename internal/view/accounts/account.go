package accounts

import (
	"math"
	"slices"

	"outcry/internal/exchange"
)

// account is the state of one account.
type account struct {
	balance, held exchange.Cash
	positions     []position // sorted by symbol; none is empty
	newest        uint32     // index of the position that was changed last, if it is still there
	number        uint32     // index in View.list
	n             uint64     // number of events so far
	touched       uint64     // record that made the newest event
	watch         *watch     // nil unless the account's events are kept
	orders        orders
	fills         accountFills
	id            exchange.AccountID
}

// symbol is the state of one symbol.
type symbol struct {
	name    exchange.Symbol
	trades  uint64 // number of trades so far
	changed uint64 // newest record that changed the resting orders; at first, the record that made the symbol
	open    queue
	resting *resting // nil unless the resting orders have listeners, or had some recently
}

// position is an account's free and held shares of one symbol.
type position struct {
	symbol       symbolNumber
	shares, held exchange.Position
}

// post adds a posting to an account's cash, shares and holds; its shares are of symbol s. ok is false if one of
// them becomes negative.
func (a *account) post(s symbolNumber, p *exchange.Posting) (ok bool) {
	a.balance, a.held = a.balance.Add(p.Cash), a.held.Add(p.HeldCash)
	if p.Shares == (exchange.Position{}) && p.HeldShares == (exchange.Position{}) {
		return a.balance.Sign() >= 0 && a.held.Sign() >= 0
	}
	return a.deliver(s, p.Shares, p.HeldShares) && a.balance.Sign() >= 0 && a.held.Sign() >= 0
}

// deliver changes an account's free and held shares of a symbol. ok is false if the result is negative.
func (a *account) deliver(s symbolNumber, free, held exchange.Position) (ok bool) {
	i, found := a.place(s)
	if !found {
		a.positions = slices.Insert(withRoom(a.positions, math.MaxInt), i, position{symbol: s})
	}
	a.newest = uint32(i)
	p := &a.positions[i]
	p.shares, p.held = p.shares.Add(free), p.held.Add(held)
	if p.shares.Sign() == 0 && p.held.Sign() == 0 {
		a.positions = remove(a.positions, i)
		return true
	}
	return p.shares.Sign() >= 0 && p.held.Sign() >= 0
}

// place returns the index of an account's position in a symbol, or where to insert it.
func (a *account) place(s symbolNumber) (i int, found bool) {
	if n := int(a.newest); n < len(a.positions) && a.positions[n].symbol == s {
		return n, true
	}
	// A binary search by hand: slices.BinarySearchFunc calls a function for each step.
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

// position returns an account's free and held shares of a symbol.
func (a *account) position(s symbolNumber) (shares, held exchange.Position) {
	if i, found := a.place(s); found {
		shares, held = a.positions[i].shares, a.positions[i].held
	}
	return shares, held
}
