package exchange

import "slices"

// The ledger counts open orders: those that rest, and those that are reserved and not
// settled yet. An account knows in which symbols it has any, so that nobody has to walk
// all symbols to find them.
//
// Most accounts have all their open orders in one symbol, whose number is in the Account.
// One that has more lists them, and where they are many, it has a map.

// openListMax is how many symbols are in a list, which is searched, and not in a map.
const openListMax = 16

// openIn are the symbols, by their numbers, in which an account has open orders, and how
// many. They are in list until there are too many, and then in many until there is none.
type openIn struct {
	list []openCount
	many map[uint32]int32
}

type openCount struct {
	symbol uint32
	orders int32
}

// OpenOrders returns how many orders of all accounts are open.
func (l *Ledger) OpenOrders() int { return l.open }

// OpenOrders returns how many orders of the account are open.
func (a *Account) OpenOrders() int { return int(a.open) }

// AppendOpenIn appends the instruments of the symbols in which an account has open orders, in
// no order. It looks at no other symbol.
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

// OpenOrdersIn returns how many orders of the account are open in a symbol: they rest, or
// are reserved and not settled yet.
func (a *Account) OpenOrdersIn(in *Instrument) int {
	switch {
	case a.openIn != nil:
		return int(a.openIn.orders(in.number))
	case a.only == in.number:
		return int(a.open)
	}
	return 0
}

// openOrder counts an order of an account that is reserved or restored.
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

// closeOrder counts an order of an account that is open no more.
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

// orders returns how many orders are open in a symbol.
func (o *openIn) orders(symbol uint32) int32 {
	for _, c := range o.list {
		if c.symbol == symbol {
			return c.orders
		}
	}
	return o.many[symbol]
}

// add adds n to the orders in a symbol, which it lists where there was none, and no more
// where there is none.
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
		o.spread()
		return
	}
	if o.list[at].orders += n; o.list[at].orders == 0 {
		last := len(o.list) - 1
		o.list[at] = o.list[last]
		o.list = o.list[:last]
	}
}

// spread moves a list that has become too long into a map.
func (o *openIn) spread() {
	if len(o.list) <= openListMax {
		return
	}
	o.many = make(map[uint32]int32, 2*len(o.list))
	for _, c := range o.list {
		o.many[c.symbol] = c.orders
	}
	o.list = nil
}
