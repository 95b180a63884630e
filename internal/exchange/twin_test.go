package exchange

import "slices"

// twin is a reference model of an exchange with one symbol in its simplest form: a list of orders that is scanned
// for every match, and the totals that accounts own. Holds are recomputed from the open orders each time. It has no
// parts, and answers what-if questions on a copy of itself.
type twin struct {
	orders []*twinOrder // sorted by id
	cash   map[AccountID]int64
	shares map[AccountID]int64
	now    int64
	last   Price // price of the newest trade
}

type twinOrder struct {
	Terms
	id                              OrderID
	account                         AccountID
	shares, open, canceled, reduced int64
	canceledAt, reducedAt           int64
	done                            []Execution
	taken                           int   // number of executions in done that the order had as the taker
	atOnce                          int64 // how much of canceled the order's own record canceled
	cod                             bool
	first, replaces, replaced       OrderID
	before                          int64 // shares executed by earlier orders of the chain
}

// twinResult is the immediate result of an order.
type twinResult struct {
	fills []Fill
	own   []Cancel
	rest  Shares
}

func newTwin() *twin {
	return &twin{cash: map[AccountID]int64{}, shares: map[AccountID]int64{}}
}

func (w *twin) clone() *twin {
	c := newTwin()
	c.now = w.now
	for _, o := range w.orders {
		n := *o
		n.done = slices.Clone(o.done)
		c.orders = append(c.orders, &n)
	}
	for a := range w.cash {
		c.cash[a], c.shares[a] = w.cash[a], w.shares[a]
	}
	return c
}

// free returns what an account can spend and sell. The hold of the order `but` counts as free.
func (w *twin) free(a AccountID, but *twinOrder) (cash, shares int64) {
	cash, shares = w.cash[a], w.shares[a]
	for _, o := range w.orders {
		if o.account == a && o != but && o.side() == Buy {
			cash -= o.open * int64(o.Limit)
		} else if o.account == a && o != but {
			shares -= o.open
		}
	}
	return cash, shares
}

func (o *twinOrder) side() Side { return o.Terms.Side }

func (o *twinOrder) executed() (n int64) {
	for _, e := range o.done {
		n += int64(e.Shares)
	}
	return n
}

// next returns the order that o matches next, or nil if none crosses.
func (w *twin) next(o *twinOrder) (best *twinOrder) {
	for _, r := range w.orders {
		if r.open == 0 || r.side() == o.side() || r == o {
			continue
		}
		if o.side() == Buy && r.Limit <= o.Limit && (best == nil || r.Limit < best.Limit) ||
			o.side() == Sell && r.Limit >= o.Limit && (best == nil || r.Limit > best.Limit) {
			best = r
		}
	}
	return best
}

// enter matches an order, and lets the remainder rest if it may.
func (w *twin) enter(o *twinOrder) (r twinResult) {
	w.orders = append(w.orders, o)
	stopped := false
	for o.open > 0 && !stopped {
		m := w.next(o)
		if m == nil {
			break
		}
		if m.account == o.account && o.STP != TradeWithSelf {
			if o.STP == CancelOldest || o.STP == CancelBoth {
				r.own = append(r.own, Cancel{Order: m.id, Terms: m.Terms, Shares: Shares(m.open)})
				m.cancel(w.now)
			}
			stopped = o.STP != CancelOldest
			continue
		}
		n := min(o.open, m.open)
		o.open, m.open = o.open-n, m.open-n
		w.last = m.Limit
		e := Execution{Shares: Shares(n), Price: m.Limit, Time: w.now}
		o.done, m.done = append(o.done, e), append(m.done, e)
		r.fills = append(r.fills, Fill{Resting: m.id, Account: m.account, Shares: Shares(n), Price: m.Limit})
		buyer, seller := o.account, m.account
		if o.side() == Sell {
			buyer, seller = seller, buyer
		}
		w.cash[buyer] -= n * int64(m.Limit)
		w.cash[seller] += n * int64(m.Limit)
		w.shares[buyer] += n
		w.shares[seller] -= n
	}
	o.taken = len(o.done)
	if o.open > 0 && (stopped || o.TIF != GTC) {
		r.rest, o.atOnce = Shares(o.open), o.open
		o.cancel(w.now)
	}
	return r
}

func (o *twinOrder) cancel(now int64) { o.canceled, o.open, o.canceledAt = o.open, 0, now }

// place checks an order and enters it.
func (w *twin) place(o *twinOrder) (twinResult, RejectReason) {
	if o.first == 0 {
		o.first = o.id
	}
	if reason := w.judge(o, nil); reason != OK {
		return twinResult{}, reason
	}
	return w.enter(o), OK
}

// judge returns why an order must be rejected, or OK. old is the order that it replaces, or nil.
func (w *twin) judge(o *twinOrder, old *twinOrder) RejectReason {
	if o.Post && w.next(o) != nil {
		return WouldExecute
	}
	try, copied := w.clone(), *o
	fills := try.enter(&copied).fills
	if o.TIF == FOK && copied.open+copied.canceled > 0 {
		return CannotFill
	}
	cash, shares := w.free(o.account, old)
	need := o.shares * int64(o.Limit)
	if o.Type == Market {
		need = 0
		for _, f := range fills {
			need += int64(f.Shares) * int64(f.Price)
		}
	}
	switch {
	case o.side() == Buy && cash < need:
		return InsufficientFunds
	case o.side() == Sell && shares < o.shares:
		return InsufficientShares
	}
	return OK
}

// amend amends an open order to a total and a limit. by is the id of an order that replaces it.
func (w *twin) amend(
	o *twinOrder,
	total int64,
	limit Price,
	by OrderID,
) (r twinResult, replaced bool, reason RejectReason) {
	executed := o.before + o.executed()
	switch open := total - executed; {
	case open <= 0:
		return r, false, AmountExecuted
	case limit == o.Limit && open <= o.open:
		if open < o.open {
			o.reduced, o.reducedAt, o.open = o.reduced+o.open-open, w.now, open
		}
		return r, false, OK
	default:
		n := &twinOrder{Terms: o.Terms, id: by, account: o.account, shares: open, open: open, cod: o.cod, first: o.first,
			replaces: o.id, before: executed}
		n.Limit = limit
		if reason = w.judge(n, o); reason != OK {
			return r, false, reason
		}
		o.cancel(w.now)
		o.replaced = by
		return w.enter(n), true, OK
	}
}
