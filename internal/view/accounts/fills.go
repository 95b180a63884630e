package accounts

import "outcry/internal/exchange"

// Bounds on the newest fills that are kept: for each account, and in total.
const (
	accountFillsMax = 10_000
	fillsMax        = 1_000_000
)

// slotsChunk is the number of slots allocated at a time.
const slotsChunk = 1024

// makerBit is set in fill.trade if the order was resting. Trade numbers are smaller than this bit.
const makerBit = 1 << 63

// slot is the number of a fill's place, from 1 on; 0 means no fill.
type slot uint32

// fill is an execution as one account sees it. It is in two lists, both from the oldest to the newest: the list of all
// fills and the list of its account.
type fill struct {
	order  exchange.OrderID
	shares exchange.Shares // negative for a sell
	price  exchange.Price
	time   int64
	trade  uint64 // the symbol's trade number, with makerBit if the order was resting

	symbol       symbolNumber
	account      uint32 // index of the account in View.list
	older, newer slot   // neighbours in the list of all fills
	prev, next   slot   // neighbours in the account's list
}

// fills holds the newest fills of all accounts. When it is full, a new fill reuses the slot of the oldest of all. If
// the account is at its own limit, the new fill reuses the slot of that account's oldest instead, so that an account
// that trades very much displaces its own fills and not those of others.
type fills struct {
	most, accountMost int
	chunks            [][]fill
	used              int // slots in use
	oldest, newest    slot
}

// accountFills is the list of one account's fills.
type accountFills struct {
	count          uint64 // all fills so far, kept or not
	kept           int
	oldest, newest slot
}

// at returns the fill in a slot.
func (l *fills) at(s slot) *fill { return &l.chunks[(s-1)/slotsChunk][(s-1)%slotsChunk] }

// add adds a fill that is not linked into the lists yet. accounts is View.list.
func (l *fills) add(f fill, accounts []*account) {
	a := &accounts[f.account].fills
	var s slot
	switch {
	case a.kept == l.accountMost:
		s = a.oldest
		l.drop(s, accounts)
	case l.used == l.most:
		s = l.oldest
		l.drop(s, accounts)
	default:
		if l.used%slotsChunk == 0 {
			l.chunks = append(l.chunks, make([]fill, slotsChunk))
		}
		l.used++
		s = slot(l.used)
	}
	f.older, f.prev = l.newest, a.newest
	*l.at(s) = f
	if l.newest == 0 {
		l.oldest = s
	} else {
		l.at(l.newest).newer = s
	}
	if a.newest == 0 {
		a.oldest = s
	} else {
		l.at(a.newest).next = s
	}
	l.newest, a.newest = s, s
	a.kept++
	a.count++
}

// drop removes the oldest fill of an account from both lists.
func (l *fills) drop(s slot, accounts []*account) {
	f := l.at(s)
	if f.older == 0 {
		l.oldest = f.newer
	} else {
		l.at(f.older).newer = f.newer
	}
	if f.newer == 0 {
		l.newest = f.older
	} else {
		l.at(f.newer).older = f.older
	}
	a := &accounts[f.account].fills
	if a.oldest = f.next; f.next == 0 {
		a.newest = 0
	} else {
		l.at(f.next).prev = 0
	}
	a.kept--
}

// first returns the number of the account's oldest fill that is kept. It is count + 1 if none is kept.
func (a *accountFills) first() uint64 { return a.count - uint64(a.kept) + 1 }

// each calls f for up to most fills of an account, from fill number n on. Fill n must be kept.
func (l *fills) each(a *accountFills, n uint64, most int, f func(n uint64, f *fill)) {
	var s slot
	if first := a.first(); n-first <= a.count-n {
		s = a.oldest
		for ; first < n; first++ {
			s = l.at(s).next
		}
	} else {
		s = a.newest
		for last := a.count; last > n; last-- {
			s = l.at(s).prev
		}
	}
	for ; s != 0 && most > 0; n, most = n+1, most-1 {
		at := l.at(s)
		f(n, at)
		s = at.next
	}
}
