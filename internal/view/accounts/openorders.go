package accounts

// packedAtOnce is how many orders a record may move to other places.
const packedAtOnce = 2

// openOrders is the open orders of all accounts. An order is in the list of its account and in the queue of its
// symbol.
type openOrders struct {
	slab[order]
	more  slab[*orderMore]
	spare spareOrders
}

// moreOf returns the rarely used fields of an order, nil if all are zero.
func (l *openOrders) moreOf(o *order) *orderMore {
	if o.more == 0 {
		return nil
	}
	return *l.more.at(o.more)
}

// with returns the rarely used fields of an order, and allocates them if needed.
func (l *openOrders) with(o *order) *orderMore {
	if o.more == 0 {
		var m **orderMore
		o.more, m = l.more.add()
		*m = new(orderMore)
	}
	return *l.more.at(o.more)
}

// drop frees the memory of the order at a place.
func (l *openOrders) drop(p place) {
	if o := l.at(p); o.more != 0 {
		*l.more.at(o.more) = nil
		l.more.remove(o.more)
	}
	l.remove(p)
}

// queue has the open orders of a symbol, sorted by id, oldest first. With it, a new listener to a symbol costs no
// search through the orders of all other symbols.
type queue struct {
	oldest, newest place
	n              int
}

// add adds the order at a place. Mostly it is the newest one, because the exchange accepts the orders of a symbol by
// rising ids.
func (q *queue) add(all *openOrders, p place) {
	o := all.at(p)
	o.older, o.newer = q.newest, 0
	for o.older != 0 && all.at(o.older).id > o.id {
		o.older, o.newer = all.at(o.older).older, o.older
	}
	q.point(all, o.older, o.newer, p, p)
	q.n++
}

// remove removes an order.
func (q *queue) remove(all *openOrders, o *order) {
	q.point(all, o.older, o.newer, o.newer, o.older)
	q.n--
}

// moved records that an order is at a different place now.
func (q *queue) moved(all *openOrders, o *order, p place) { q.point(all, o.older, o.newer, p, p) }

// point makes the neighbours older and newer, each of which may be missing, link to what is next to them.
func (q *queue) point(all *openOrders, older, newer, afterOlder, beforeNewer place) {
	if older == 0 {
		q.oldest = afterOlder
	} else {
		all.at(older).newer = afterOlder
	}
	if newer == 0 {
		q.newest = beforeNewer
	} else {
		all.at(newer).older = beforeNewer
	}
}
