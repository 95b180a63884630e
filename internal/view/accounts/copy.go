package accounts

import (
	"cmp"
	"runtime"
	"slices"
	"sort"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
)

// partMax is how many orders and positions are gathered or copied for a new listener, or how much news it gets, while
// the view waits. Records are applied between two parts.
const partMax = 1000

// unlocked calls f while feeding is unlocked. Its caller holds feeding, and still holds it after a panic of f.
func (v *View) unlocked(f func()) {
	v.feeding.Unlock()
	defer v.feeding.Lock()
	f()
}

// copied is a copy of the open orders and the positions of an account, made in parts while records change them.
type copied struct {
	orders    []exchange.OrderDetail  // sorted by id, as of the records at which their parts were copied
	positions []exchange.PositionView // likewise, sorted by symbolNumber
	last      exchange.OrderID        // orders up to this id are copied
	next      symbolNumber            // positions of lower symbols are copied
}

// copyInParts returns the state of an account as of one record. r is a reader that waits from now on, and has the later
// events when copyInParts returns. The error is that of lost. Its caller holds feeding, which is unlocked between two
// parts, and while the copy is completed and sorted.
func (v *View) copyInParts(a *account, r *reader[*exchange.AccountEvent]) (*Snapshot, error) {
	r.waits, r.copies = true, true
	c := newCopied(a)
	for c.add(v, a) {
		v.unlocked(c.grow)
		if err := v.lost(); err != nil {
			return nil, err
		}
	}
	snap := &Snapshot{N: a.n, LastFill: a.fills.count, Seq: v.Seq(), Balance: a.balance, Held: a.held}
	earlier := r.waiting
	r.waiting, r.copies = nil, false
	v.unlocked(func() { snap.Orders, snap.Positions = c.after(earlier) })
	return snap, v.lost()
}

// newCopied returns an empty copy with room for the first part.
func newCopied(a *account) *copied {
	return &copied{orders: make([]exchange.OrderDetail, 0, min(a.orders.len(), partMax)),
		positions: make([]exchange.PositionView, 0, min(len(a.positions), partMax))}
}

// grow makes room for the next part, so that add allocates nothing, and lets other goroutines run.
func (c *copied) grow() {
	c.orders, c.positions = slices.Grow(c.orders, partMax), slices.Grow(c.positions, partMax)
	runtime.Gosched()
}

// add copies the next part. It returns false if the copy is complete. Its caller holds feeding.
func (c *copied) add(v *View, a *account) (more bool) {
	n := 0
	a.orders.after(c.last, func(o *order) bool {
		if more = n == partMax; more {
			return false
		}
		c.orders = append(c.orders, v.detail(o))
		n, c.last = n+1, o.id
		return true
	})
	if more {
		return true
	}
	i, _ := a.place(c.next)
	part := a.positions[i:]
	part = part[:min(len(part), partMax-n)]
	for i := range part {
		c.positions, c.next = append(c.positions, v.showPosition(&part[i])), part[i].symbol+1
	}
	return i+len(part) < len(a.positions)
}

// after returns the orders and the positions, sorted by symbol, after the last part was copied. events has each change
// from before the first part until then.
func (c *copied) after(events []*exchange.AccountEvent) ([]exchange.OrderDetail, []exchange.PositionView) {
	changed := make(map[exchange.OrderID]*exchange.OrderDetail)
	seqs := make(map[exchange.OrderID]uint64)
	moved := make(map[exchange.Symbol]exchange.PositionView)
	for _, e := range events {
		for i := range e.Orders {
			if o := &e.Orders[i].OrderDetail; e.Seq > seqs[o.ID] {
				changed[o.ID], seqs[o.ID] = o, e.Seq
			}
		}
		for _, p := range e.Positions {
			moved[p.Symbol] = p
		}
	}
	orders := slices.DeleteFunc(c.orders, func(o exchange.OrderDetail) bool { return changed[o.ID] != nil })
	for _, o := range changed {
		if o.State == exchange.StatusOpen {
			orders = append(orders, *o)
		}
	}
	slices.SortFunc(orders, func(a, b exchange.OrderDetail) int { return cmp.Compare(a.ID, b.ID) })
	positions := slices.DeleteFunc(c.positions, func(p exchange.PositionView) bool {
		_, ok := moved[p.Symbol]
		return ok
	})
	for _, p := range moved {
		if p.Shares.Sign() != 0 || p.Held.Sign() != 0 {
			positions = append(positions, p)
		}
	}
	sortPositions(positions)
	return orders, positions
}

// noteRef adds, for readers whose beginning is copied, an event without a number to their news: an amend that only uses
// a ref makes no other one. It may precede events of earlier records, which are added at the end of a chunk.
func (v *View) noteRef(a *account, o *order) {
	if a.watch == nil {
		return
	}
	for _, r := range a.watch.readers {
		if r.copies {
			r.waiting = append(r.waiting, &exchange.AccountEvent{Seq: v.at,
				Orders: []exchange.OrderChange{{OrderDetail: v.detail(o)}}})
		}
	}
}

// passWaiting passes the news that came while a reader waited, in parts. If the view has ended since the reader began,
// passWaiting ends the reader, because end skips readers that wait. Its caller holds feeding.
func passWaiting[E any](v *View, r *reader[E]) {
	for len(r.waiting) > 0 {
		part := r.waiting[:min(len(r.waiting), partMax)]
		r.waiting = r.waiting[len(part):]
		for _, news := range part {
			r.tell(news)
		}
		r.flush()
		if len(r.waiting) > 0 {
			v.unlocked(runtime.Gosched)
		}
	}
	r.waits, r.waiting = false, nil
	if v.ended != nil {
		trail.EndListener(v.options.Log, func() { r.end(v.ended) })
	}
}

// copiedOrders is a copy of the resting orders of a symbol, made in parts while records change them.
type copiedOrders struct{ bids, asks copiedSide }

// copiedSide has the orders of one side, sorted by priority, as of the records at which their parts were copied.
type copiedSide []RestingOrder

// copyOrders returns the resting orders of a symbol as of one record. r is a reader that waits from now on, and has the
// later changes when copyOrders returns. The error is that of lost. Its caller holds feeding, which is unlocked between
// two parts and while the copy is completed.
func (v *View) copyOrders(n symbolNumber, r *reader[*OrdersChange]) (*OrdersSnapshot, error) {
	r.waits = true
	b, c := v.markets[n].resting, new(copiedOrders)
	for c.add(b) {
		v.unlocked(c.grow)
		if err := v.lost(); err != nil {
			return nil, err
		}
	}
	snap := &OrdersSnapshot{Seq: v.markets[n].changed}
	earlier := r.waiting
	r.waiting = nil
	v.unlocked(func() { snap.Bids, snap.Asks = c.after(earlier) })
	return snap, v.lost()
}

// grow makes room for the next part, so that add allocates nothing, and lets other goroutines run.
func (c *copiedOrders) grow() {
	c.bids, c.asks = slices.Grow(c.bids, partMax), slices.Grow(c.asks, partMax)
	runtime.Gosched()
}

// add copies the next part. It returns false if the copy is complete. Its caller holds feeding.
func (c *copiedOrders) add(b *resting) (more bool) {
	left := c.bids.add(&b.bids, partMax)
	return c.asks.add(&b.asks, left) == 0
}

// add copies up to most orders of a side, after those that are copied already, and returns how many fewer it copied.
func (c *copiedSide) add(l *ladder, most int) (left int) {
	i, from := len(l.steps)-1, 0
	if n := len(*c); n > 0 {
		last, found := &(*c)[n-1], false
		if i, found = l.find(last.Price); found {
			orders := l.steps[i].orders
			from = sort.Search(len(orders), func(i int) bool { return orders[i].ID > last.ID })
		} else {
			i--
		}
	}
	for ; i >= 0 && most > 0; i, from = i-1, 0 {
		part := l.steps[i].orders[from:]
		part = part[:min(len(part), most)]
		*c, most = append(*c, part...), most-len(part)
	}
	return most
}

// after returns the orders after the last part was copied. changes has each change from before the first part until
// then.
func (c *copiedOrders) after(changes []*OrdersChange) (bids, asks []RestingOrder) {
	open := make(map[exchange.OrderID]exchange.Shares) // of each changed order
	added := make(map[exchange.OrderID]*OrderOp)
	for _, change := range changes {
		for i := range change.Ops {
			op := &change.Ops[i]
			if open[op.Order] = op.Open; op.Kind == OpAdd {
				open[op.Order], added[op.Order] = op.Shares, op
			}
		}
	}
	return c.bids.after(exchange.Buy, open, added), c.asks.after(exchange.Sell, open, added)
}

// after returns the orders of a side after orders were added, and after the open shares of some changed.
func (c copiedSide) after(
	side exchange.Side, open map[exchange.OrderID]exchange.Shares, added map[exchange.OrderID]*OrderOp,
) []RestingOrder {
	all := slices.DeleteFunc([]RestingOrder(c), func(o RestingOrder) bool {
		left, changed := open[o.ID]
		return changed && left == 0 || added[o.ID] != nil
	})
	for i := range all {
		if left, changed := open[all[i].ID]; changed {
			all[i].Shares = left
		}
	}
	unchanged := len(all)
	for id, op := range added {
		if op.Side == side && open[id] > 0 {
			all = append(all, RestingOrder{ID: id, Price: op.Price, Shares: open[id]})
		}
	}
	if len(all) > unchanged {
		slices.SortFunc(all, func(a, b RestingOrder) int {
			better := cmp.Compare(a.Price, b.Price)
			if side == exchange.Buy {
				better = -better
			}
			return cmp.Or(better, cmp.Compare(a.ID, b.ID))
		})
	}
	return all
}
