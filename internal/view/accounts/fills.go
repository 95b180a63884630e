package accounts

import "outcry/internal/exchange"

// Bounds on the newest fills that are kept: for each account, and in total.
const (
	accountFillsMax = 10_000
	fillsMax        = 1_000_000
)

// blockFills is the number of fills in a block.
const blockFills = 8

// makerBit is set in fill.trade if the order was resting. Trade numbers are smaller than this bit.
const makerBit = 1 << 63

// fill is an execution as one account sees it.
type fill struct {
	order  exchange.OrderID
	shares exchange.Shares // negative for a sell
	price  exchange.Price
	time   int64
	trade  uint64 // the symbol's trade number, with makerBit if the order was resting
	symbol symbolNumber
}

// fillBlock has consecutive fills of one account. Fill number n is at index n % blockFills.
type fillBlock struct {
	fills        [blockFills]fill
	older, newer place // the account's blocks before and after this one
}

// fills holds the newest fills of all accounts. When it is full, a new fill displaces the oldest of all. If the account
// is at its own limit, the new fill displaces that account's oldest instead, so that an account that trades very much
// displaces its own fills and not those of others.
type fills struct {
	most, accountMost int
	blocks            slab[fillBlock]
	used              int // fills in use
	ages              ages
}

// accountFills is the fills of one account.
type accountFills struct {
	count          uint64 // all fills so far, kept or not
	kept           int
	oldest, newest place // blocks

	gone, goneBefore int    // see ages
	pass             uint32 // see ages
}

// add adds a fill of an account, which its caller sets. accounts is View.list.
func (l *fills) add(to *account, accounts []*account) *fill {
	a := &to.fills
	switch {
	case a.kept == l.accountMost:
		l.drop(a)
		l.ages.forget(a)
	case l.used == l.most:
		l.drop(l.ages.pop(accounts))
	}
	l.ages.push(to.number, accounts)
	l.used++
	a.kept++
	a.count++
	i := a.count % blockFills
	if i == 0 || a.newest == 0 {
		p, b := l.blocks.add()
		if b.older, b.newer = a.newest, 0; a.newest == 0 {
			a.oldest = p
		} else {
			l.blocks.at(a.newest).newer = p
		}
		a.newest = p
	}
	return &l.blocks.at(a.newest).fills[i]
}

// drop removes the oldest fill of an account.
func (l *fills) drop(a *accountFills) {
	first := a.first()
	a.kept--
	l.used--
	if (first+1)%blockFills != 0 && a.kept > 0 {
		return
	}
	p := a.oldest
	if a.oldest = l.blocks.at(p).newer; a.oldest == 0 {
		a.newest = 0
	} else {
		l.blocks.at(a.oldest).older = 0
	}
	l.blocks.remove(p)
}

// first returns the number of the account's oldest fill that is kept. It is count + 1 if none is kept.
func (a *accountFills) first() uint64 { return a.count - uint64(a.kept) + 1 }

// each calls f for up to most fills of an account, from fill number n on. Fill n must be kept.
func (l *fills) each(a *accountFills, n uint64, most int, f func(n uint64, f *fill)) {
	block := n / blockFills
	var p place
	if first, last := a.first()/blockFills, a.count/blockFills; block-first <= last-block {
		p = a.oldest
		for ; first < block; first++ {
			p = l.blocks.at(p).newer
		}
	} else {
		p = a.newest
		for ; last > block; last-- {
			p = l.blocks.at(p).older
		}
	}
	for ; most > 0 && n <= a.count; n, most = n+1, most-1 {
		b := l.blocks.at(p)
		f(n, &b.fills[n%blockFills])
		if (n+1)%blockFills == 0 {
			p = b.newer
		}
	}
}

// newest calls f for the fills of an account, newest first, until f returns false.
func (l *fills) newest(a *accountFills, f func(n uint64, f *fill) bool) {
	p := a.newest
	for n := a.count; n >= a.first(); n-- {
		b := l.blocks.at(p)
		if !f(n, &b.fills[n%blockFills]) {
			return
		}
		if n%blockFills == 0 {
			p = b.older
		}
	}
}
