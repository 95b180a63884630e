package exchange

// node is an order as a book keeps it, but for its executions. It is linked by slots,
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
	side       Side
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
