package exchange

// executionsChunk is how many executions one chunk of memory holds.
const executionsChunk = 64

// executionRoom allocates the execution lists of a book's orders. The lists are handed out to other goroutines
// (Order.Status), so an execution is written once, never moved or reused, and left to the garbage collector. The first
// executions of an order lie in a chunk that it shares with other orders: this rarely allocates, and keeps at most a
// chunk of 1.5 KiB of other orders' memory alive.
type executionRoom struct {
	chunk []Execution // executions up to its length are in use; the rest of its capacity is free
	begin int         // index at which the taker's list begins
}

// add appends an execution to the taker's list and returns the list so far. When
// the list is complete, end must be called.
func (x *executionRoom) add(e Execution) []Execution {
	if len(x.chunk) == cap(x.chunk) {
		x.grow()
	}
	x.chunk = append(x.chunk, e)
	return x.chunk[x.begin:]
}

// grow moves the taker's list to the start of a new chunk, or to memory of its own
// if the list is at least a chunk long.
func (x *executionRoom) grow() {
	list, room := x.chunk[x.begin:], executionsChunk
	if len(list) >= executionsChunk {
		room = 2 * len(list)
	}
	x.chunk, x.begin = append(make([]Execution, 0, room), list...), 0
}

// end returns the complete list. The unused rest of the chunk is kept for the next list.
func (x *executionRoom) end() []Execution {
	end := len(x.chunk)
	list := x.chunk[x.begin:end:end]
	x.begin = end
	if len(list) > executionsChunk {
		x.chunk, x.begin = nil, 0
	}
	return list
}

// shareExecution adds the last execution of a taker's list to the list of the resting
// order. The order's first execution is shared and not copied, unless the order
// stays open and would keep the taker's long list in memory.
func shareExecution(to *[]Execution, first bool, list []Execution, closed bool) {
	n := len(list)
	switch {
	case !first:
		*to = append(*to, list[n-1])
	case closed || n <= executionsChunk:
		*to = list[n-1 : n : n]
	default:
		*to = []Execution{list[n-1]}
	}
}
