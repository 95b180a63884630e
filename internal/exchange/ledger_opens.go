package exchange

import "slices"

// The ledger counts open orders: those that rest, and those that are reserved but not settled yet. An account knows in
// which symbols it has open orders, so that finding them does not need a walk over all symbols.
//
// Most accounts have all their open orders in one symbol, whose number is in the Account.
// Other accounts have a list of symbols, and a map once the list is too long.

// openListMax is how many symbols the list may have before a map replaces it.
const openListMax = 16

// openIn counts an account's open orders by symbol number. The counts are in list until it
// is too long; then they are in many, until the account has no open orders.
type openIn struct {
	list []openCount
	many map[uint32]int32
}

type openCount struct {
	symbol uint32
	orders int32
}

// OpenOrders returns the number of open orders of all accounts.
func (l *Ledger) OpenOrders() int { return l.open }

// OpenOrders returns the number of open orders of the account.
func (a *Account) OpenOrders() int { return int(a.open) }

// AppendOpenIn appends the instruments in which an account has open orders, in no particular order. It does not visit
// other symbols.
func (l *Ledger) AppendOpenIn(dst []*Instrument, a *Account) []*Instrument {
	if a.openIn == nil {
		if a.open > 0 {
			dst = append(dst, l.numbered[a.only-1])
		}
		return dst
	}
	for _, c := range a.openIn.list {
		dst = append(dst, l.numbered[c.symbol-1])
	}
	for symbol := range a.openIn.many {
		dst = append(dst, l.numbered[symbol-1])
	}
	return dst
}

// OpenOrdersIn returns the number of open orders of the account in a symbol: those that rest, or are reserved but not
// settled yet.
func (a *Account) OpenOrdersIn(in *Instrument) int {
	switch {
	case a.openIn != nil:
		return int(a.openIn.orders(in.number))
	case a.only == in.number:
		return int(a.open)
	}
	return 0
}

// openOrder counts an order of an account that was reserved or restored.
func (l *Ledger) openOrder(in *Instrument, a *Account) {
	switch {
	case a.openIn != nil:
		a.openIn.add(in.number, 1)
	case a.open == 0:
		a.only = in.number
	case a.only != in.number:
		a.openIn = &openIn{list: []openCount{{a.only, a.open}, {in.number, 1}}}
	}
	a.open++
	l.open++
}

// closeOrder reduces the counts of open orders by one order of an account that is no longer open.
func (l *Ledger) closeOrder(in *Instrument, a *Account) {
	a.open--
	l.open--
	if a.openIn == nil {
		return
	}
	if a.openIn.add(in.number, -1); a.open == 0 {
		a.openIn = nil
	}
}

// orders returns the number of open orders in a symbol.
func (o *openIn) orders(symbol uint32) int32 {
	for _, c := range o.list {
		if c.symbol == symbol {
			return c.orders
		}
	}
	return o.many[symbol]
}

// add adds n to the number of orders in a symbol. It adds an entry for a symbol that has
// none, and removes an entry that becomes 0.
func (o *openIn) add(symbol uint32, n int32) {
	if o.many != nil {
		if o.many[symbol] += n; o.many[symbol] == 0 {
			delete(o.many, symbol)
		}
		return
	}
	at := slices.IndexFunc(o.list, func(c openCount) bool { return c.symbol == symbol })
	if at < 0 {
		o.list = append(o.list, openCount{symbol, n})
		o.listToMap()
		return
	}
	if o.list[at].orders += n; o.list[at].orders == 0 {
		last := len(o.list) - 1
		o.list[at] = o.list[last]
		o.list = o.list[:last]
	}
}

// listToMap moves the list into a map if it is too long.
func (o *openIn) listToMap() {
	if len(o.list) <= openListMax {
		return
	}
	o.many = make(map[uint32]int32, 2*len(o.list))
	for _, c := range o.list {
		o.many[c.symbol] = c.orders
	}
	o.list = nil
}
