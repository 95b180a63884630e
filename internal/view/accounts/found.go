package accounts

import (
	"unsafe"

	"outcry/internal/exchange"
)

// foundBits is the binary logarithm of how many accounts, and how many symbols, are remembered.
const foundBits = 12

// found remembers the accounts and symbols of recent records, which is quicker than a map. Only Run uses it.
type found struct {
	accounts remembered[exchange.AccountID, *account]
	symbols  remembered[exchange.Symbol, symbolNumber]
}

// remembered has values by name. A name is remembered at the place that its address in memory gives: the records of an
// account mostly have the same string, so that no byte of it is read.
type remembered[K ~string, V any] [1 << foundBits]named[K, V]

// named is a name and its value; both are zero if nothing is remembered.
type named[K ~string, V any] struct {
	name  K
	value V
}

// at returns the place of a name.
func (r *remembered[K, V]) at(name K) *named[K, V] {
	address := uint64(uintptr(unsafe.Pointer(unsafe.StringData(string(name)))))
	return &r[address*0x9E3779B97F4A7C15>>(64-foundBits)]
}

// findAccount returns an account, nil if it was never opened. Only Run may call it.
func (v *View) findAccount(id exchange.AccountID) *account {
	at := v.found.accounts.at(id)
	if at.name == id && at.value != nil {
		return at.value
	}
	a := v.accounts[id]
	if a != nil {
		at.name, at.value = id, a
	}
	return a
}

// findSymbol returns a symbol. made is false if it was never made. Only Run may call it.
func (v *View) findSymbol(s exchange.Symbol) (n symbolNumber, made bool) {
	at := v.found.symbols.at(s)
	if at.name == s && s != "" {
		return at.value, true
	}
	if n, made = v.symbols[s]; made {
		at.name, at.value = s, n
	}
	return n, made
}
