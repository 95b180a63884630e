package exchange

// executionsChunk is how many executions come out of one piece of memory.
const executionsChunk = 64

// executionRoom makes the lists of executions of a book's orders. They are handed
// out to other goroutines (Order.Status), so an execution is written once, never
// moved or used again, and left to the garbage collector. The first ones of an
// order lie in a chunk that it shares with others: making them hardly allocates,
// and the most memory of others that an order can keep is a chunk of 1.5 KiB.
type executionRoom struct {
	chunk []Execution // its length is what is in use; behind that it is free
	begin int         // where the list of the taker begins
}

// add writes an execution at the end of the taker's list, and returns the
// list. It is followed by end once the list is complete.
func (x *executionRoom) add(e Execution) []Execution {
	if len(x.chunk) == cap(x.chunk) {
		x.grow()
	}
	x.chunk = append(x.chunk, e)
	return x.chunk[x.begin:]
}

// grow makes room for more, with what the list holds already at its begin: a chunk, or
// where the list is as long as that, memory of its own.
func (x *executionRoom) grow() {
	list, room := x.chunk[x.begin:], executionsChunk
	if len(list) >= executionsChunk {
		room = 2 * len(list)
	}
	x.chunk, x.begin = append(make([]Execution, 0, room), list...), 0
}

// end returns the complete list. What it did not use of a chunk is for the next.
func (x *executionRoom) end() []Execution {
	end := len(x.chunk)
	list := x.chunk[x.begin:end:end]
	x.begin = end
	if len(list) > executionsChunk {
		x.chunk, x.begin = nil, 0
	}
	return list
}

// shareExecution adds the last execution of a taker's list to the list of a
// resting order, which sees the same. A first execution is not copied, unless the
// order stays and would keep a long list that is not its own.
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
