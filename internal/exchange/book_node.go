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
	flags      nodeFlags
	taken      TakenCount
	canceledAt int64 // valid where canceled
}

// nodeFlags is what of an order is yes or no.
type nodeFlags uint8

// The flags.
const (
	canceled     nodeFlags = 1 << iota // what was open was taken back
	executed                           // something was: the page has the executions
	onDisconnect                       // Order.OnDisconnect
	atOnce                             // it was taken back by the order's own record
	amended                            // the book has its Lineage
)

// has reports whether a flag is set.
func (n *node) has(f nodeFlags) bool { return n.flags&f != 0 }

// open returns the shares that are still to be executed.
func (n *node) open() Shares {
	if n.has(canceled) {
		return 0
	}
	return n.left
}

// enter makes the book's own copy of an order, which is still to be indexed.
func (b *Book) enter(o *Order) (slot, *node) {
	i := b.orders.take()
	n := b.orders.at(i)
	n.id, n.account, n.packed, n.limit, n.shares, n.left = o.ID, o.Account, o.Terms.pack(), o.Limit, o.Shares, o.Open
	n.level, n.prev, n.next, n.flags, n.taken = 0, 0, 0, 0, o.Taken
	if len(o.Executions) > 0 {
		n.flags = executed
		*b.orders.executions(i) = o.Executions
	}
	if o.Lineage != nil || o.OnDisconnect || o.Canceled > 0 {
		b.enterMore(o, n)
	}
	return i, n
}

// enterMore enters what few orders have.
func (b *Book) enterMore(o *Order, n *node) {
	if o.OnDisconnect {
		n.flags |= onDisconnect
	}
	if o.Canceled > 0 {
		n.takeBack(o)
	}
	if o.Lineage != nil {
		b.setLineage(n, o.Lineage)
	}
}

// takeBack notes what the order's own record has taken back of it.
func (n *node) takeBack(o *Order) {
	n.flags |= canceled | atOnce
	n.left, n.canceledAt = o.Canceled, o.CanceledAt
}

// read makes o the order at a slot.
func (b *Book) read(i slot, o *Order) {
	n := b.orders.at(i)
	o.ID, o.Account, o.Shares = n.id, n.account, n.shares
	n.unpack(&o.Terms, n.limit)
	o.Open, o.Canceled, o.CanceledAt, o.Executions = n.left, 0, 0, nil
	o.OnDisconnect, o.AtOnce, o.Taken, o.Lineage = n.has(onDisconnect), n.has(atOnce), n.taken, nil
	if n.has(canceled) {
		o.Open, o.Canceled, o.CanceledAt = 0, n.left, n.canceledAt
	}
	if n.has(executed) {
		o.Executions = *b.orders.executions(i)
	}
	if n.has(amended) {
		o.Lineage = b.more.lineage[n.id]
	}
}

// order returns the order at a slot.
func (b *Book) order(i slot) (o Order) {
	b.read(i, &o)
	return o
}
