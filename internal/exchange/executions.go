package exchange

// executionsChunk is how many executions come out of one piece of memory.
const executionsChunk = 64

// executionRoom makes the lists of executions of a book's orders. They are handed
// out to other goroutines (Order.Status), so an execution is written once, never
// moved or used again, and left to the garbage collector. The first ones of an
// order lie in a chunk that it shares with others: making them hardly allocates,
// and the longest an order can keep others' memory is a chunk of 1.5 KiB.
type executionRoom struct {
	rest []Execution // what is free of the chunk; of length 0
}

// add adds e, in which o takes from the resting order r, to the lists of both.
// It is followed by end once o has all of its executions.
func (x *executionRoom) add(o, r *Order, e Execution) {
	n := len(o.Executions)
	if n == 0 {
		o.Executions = x.rest
	}
	if n == cap(o.Executions) {
		room := executionsChunk
		if n >= executionsChunk {
			room = 2 * n // a list of its own
		}
		o.Executions = append(make([]Execution, 0, room), o.Executions...)
	}
	o.Executions = append(o.Executions, e)
	// Both orders see the same. r looks at o's list, unless it has a list or could
	// outlive a large one.
	if r.Executions == nil && (n < executionsChunk || r.Open == 0) {
		r.Executions = o.Executions[n : n+1 : n+1]
	} else {
		r.Executions = append(r.Executions, e)
	}
}

// end leaves what o has not used of a chunk to the orders after it.
func (x *executionRoom) end(o *Order) {
	switch n := len(o.Executions); {
	case n > executionsChunk:
		x.rest = nil
	case n > 0:
		x.rest = o.Executions[n:]
	default:
		return
	}
	o.Executions = o.Executions[:len(o.Executions):len(o.Executions)]
}
