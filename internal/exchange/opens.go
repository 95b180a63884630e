package exchange

// The ledger counts open orders: those that rest, and those that are reserved and not
// settled yet. An account knows in which symbols it has any, so that nobody has to walk
// all symbols to find them. What is counted hangs on the account's position in the
// symbol, which a buy makes and its end removes where it holds nothing.

// openInKept is how many places Account.openIn keeps when all its orders are closed.
const openInKept = 64

// OpenOrders returns how many orders of all accounts are open.
func (l *Ledger) OpenOrders() int { return l.open }

// OpenOrders returns how many orders of the account are open.
func (a *Account) OpenOrders() int { return int(a.open) }

// AppendOpenIn appends the listings of the symbols in which the account has open
// orders, in no order. It takes a copy of as many pointers and looks at no symbol.
func (a *Account) AppendOpenIn(dst []*Listing) []*Listing {
	for _, o := range a.openIn {
		dst = append(dst, o.li)
	}
	return dst
}

// openIn is a symbol in which an account has open orders.
type openIn struct {
	li *Listing
	is *holding
}

// openOrder counts an order of an account that is reserved or restored.
func (l *Ledger) openOrder(li *Listing, a *Account) {
	h := li.holding(a)
	if h.open++; h.open == 1 {
		h.at = uint32(len(a.openIn))
		a.openIn = append(a.openIn, openIn{li, h})
	}
	a.open++
	l.open++
}

// closeOrder counts an order of an account that is open no more. It has moved all that
// the order moves.
func (l *Ledger) closeOrder(li *Listing, a *Account) {
	h := li.find(a)
	h.open--
	a.open--
	l.open--
	if h.open > 0 {
		return
	}
	last := len(a.openIn) - 1
	moved := a.openIn[last]
	a.openIn[h.at], moved.is.at = moved, h.at
	a.openIn[last] = openIn{}
	if a.openIn = a.openIn[:last]; last == 0 && cap(a.openIn) > openInKept {
		a.openIn = nil
	}
	if h.shares.Sign() == 0 && h.held.Sign() == 0 {
		delete(li.holdings, a)
		a.latest = latestHolding{}
	}
}
