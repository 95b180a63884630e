package exchange

// node is an order in a book's memory, except its executions. Nodes link to each other by
// slots, so the garbage collector has only one pointer per node to follow.
//
// A resting order is linked with the next older and newer orders at its price level; a
// closed order with the order that closed next.
//
// A node takes 64 bytes. A page of nodes begins 8 bytes after the start of a cache line,
// because Go keeps its type information there for memory with pointers. So all fields
// except canceledAt lie in one line.
type node struct {
	id         OrderID
	account    *Account
	limit      Price
	shares     Shares
	left       Shares // open shares; of a canceled order, the shares that were canceled
	level      slot   // slot of its price level, 0 if it does not rest
	prev, next slot
	packed     // Terms without the limit
	flags      nodeFlags
	taken      TakenCount
	canceledAt int64 // valid if canceled is set
}

// nodeFlags are the boolean properties of a node.
type nodeFlags uint8

// The flags.
const (
	canceled     nodeFlags = 1 << iota // the open shares were canceled
	executed                           // the order has executions; they are in the page
	onDisconnect                       // Order.OnDisconnect
	atOnce                             // the order's own record canceled it: Order.AtOnce
	amended                            // the book has the order's Lineage
)

// has reports whether a flag is set.
func (n *node) has(f nodeFlags) bool { return n.flags&f != 0 }

// open returns the open shares.
func (n *node) open() Shares {
	if n.has(canceled) {
		return 0
	}
	return n.left
}

// enter copies an order into the book's memory. It does not add it to the index.
func (b *Book) enter(o *Order) (slot, *node) {
	i := b.orders.alloc()
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

// enterMore sets the rarely used properties of a node.
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

// takeBack marks n as canceled by the order's own record.
func (n *node) takeBack(o *Order) {
	n.flags |= canceled | atOnce
	n.left, n.canceledAt = o.Canceled, o.CanceledAt
}

// read sets o to the order at a slot.
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
