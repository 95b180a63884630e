package exchange

// executionsChunk is how many executions come out of one piece of memory.
const executionsChunk = 64

// executionRoom makes the lists of executions of a book's orders. They are handed
// out to other goroutines (Order.Status), so an execution is written once, never
// moved or used again, and left to the garbage collector. The first ones of an
// order lie in a chunk that it shares with others: making them hardly allocates,
// and the most memory of others that an order can keep is a chunk of 1.5 KiB.
type executionRoom struct {
	free []Execution // what is free of the chunk; its length is 0
}

// add returns an aggressing order's list with e at its end, the first in the free
// part of the chunk. It is followed by end once the list is complete.
func (x *executionRoom) add(list []Execution, e Execution) []Execution {
	n := len(list)
	if n == 0 {
		list = x.free
	}
	if n == cap(list) {
		room := executionsChunk
		if n >= executionsChunk {
			room = 2 * n // a list of its own
		}
		list = append(make([]Execution, 0, room), list[:n]...)
	}
	return append(list, e)
}

// share adds the last execution of an aggressing order's list to the list of a
// resting order, which sees the same. A first execution is not copied, unless the
// order stays and would keep a long list that is not its own.
func (x *executionRoom) share(to *fate, list []Execution, closed bool) {
	n := len(list)
	if to.executions == nil && (closed || n <= executionsChunk) {
		to.executions = list[n-1 : n : n]
	} else {
		to.executions = append(to.executions, list[n-1])
	}
}

// end returns a complete list, and leaves what it did not use of a chunk to the
// next.
func (x *executionRoom) end(list []Execution) []Execution {
	n := len(list)
	if n > executionsChunk {
		x.free = nil
	} else {
		x.free = list[n:]
	}
	return list[:n:n]
}
