package exchange

// node is an order as a book keeps it, except its executions. It is linked by slots,
// so that the garbage collector has one pointer of it to look at.
//
// An order that rests is linked with its neighbours at its price level, older and
// newer; a closed one with the order that closed next.
//
// A node takes 64 bytes, and its page begins 8 bytes behind the begin of a cache line,
// where Go keeps what it knows of a piece of memory with pointers. So all but
// canceledAt lies in one line.
type node struct {
	id         OrderID
	account    *Account
	limit      Price
	shares     Shares
	left       Shares // open; where the order was canceled, what was taken back
	level      slot   // where it rests, 0 when it does not
	prev, next slot
	packed     // what Terms has besides the limit
	canceled   bool
	executed   bool  // something was: the page has the executions
	canceledAt int64 // valid where canceled
}

// open returns the shares that are still to be executed.
func (n *node) open() Shares {
	if n.canceled {
		return 0
	}
	return n.left
}

// enter makes the book's own copy of an order, which is still to be indexed.
func (b *Book) enter(o *Order) (slot, *node) {
	i := b.orders.take()
	n := b.orders.at(i)
	n.id, n.account, n.packed, n.limit, n.shares, n.left = o.ID, o.Account, o.Terms.pack(), o.Limit, o.Shares, o.Open
	n.level, n.prev, n.next, n.canceled, n.executed = 0, 0, 0, false, o.Executions != nil
	if n.executed {
		*b.orders.executions(i) = o.Executions
	}
	return i, n
}

// read makes o the order at a slot.
func (s *slab) read(i slot, o *Order) {
	n := s.at(i)
	o.ID, o.Account, o.Terms, o.Shares = n.id, n.account, n.terms(n.limit), n.shares
	o.Open, o.Canceled, o.CanceledAt, o.Executions = n.left, 0, 0, nil
	if n.canceled {
		o.Open, o.Canceled, o.CanceledAt = 0, n.left, n.canceledAt
	}
	if n.executed {
		o.Executions = *s.executions(i)
	}
}
