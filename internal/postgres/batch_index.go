package postgres

import (
	"unsafe"

	"outcry/internal/exchange"
)

// byName holds a batch's values by name. A value is created when it is first requested.
type byName[N ~string, T any] struct {
	all    []*namedValue[N, T] // in the order of the first find; memory beyond its length is reused
	index  map[N]int32         // place in all
	recent [recentNames]*namedValue[N, T]
	empty  func(*T)
}

// namedValue is a value with its name and its place in the list of all.
type namedValue[N ~string, T any] struct {
	name  N
	n     int32
	value T
}

// recentNames is how many names find remembers by their address, a power of 2. Most names in records belong to the
// ledger, which has each name once, so most names need not be hashed.
const recentNames = 256

// namesKept is the number of names whose memory a batch keeps for the next batch, at most about 4 kB each.
const namesKept = 1024

// newByName returns an empty byName. empty is called for a value before its memory is reused.
func newByName[N ~string, T any](empty func(*T)) byName[N, T] {
	return byName[N, T]{index: make(map[N]int32), empty: empty}
}

// find returns the value of a name.
func (l *byName[N, T]) find(name N) *namedValue[N, T] {
	at := &l.recent[uint64(uintptr(unsafe.Pointer(unsafe.StringData(string(name)))))*0x9E3779B97F4A7C15>>56%recentNames]
	if v := *at; v != nil && v.name == name {
		return v
	}
	v := l.lookUp(name)
	*at = v
	return v
}

// lookUp is find for a name that is not among the recent ones.
func (l *byName[N, T]) lookUp(name N) *namedValue[N, T] {
	n, found := l.index[name]
	if found {
		return l.all[n]
	}
	n = int32(len(l.all))
	if cap(l.all) > len(l.all) {
		l.all = l.all[:n+1]
	} else {
		l.all = append(l.all, nil)
	}
	if l.all[n] == nil {
		l.all[n] = new(namedValue[N, T])
	}
	v := l.all[n]
	v.name, v.n = name, n
	l.index[name] = n
	return v
}

// reset removes all values.
func (l *byName[N, T]) reset() {
	for i, v := range l.all {
		if i >= namesKept {
			l.all[i] = nil
			continue
		}
		l.empty(&v.value)
		v.name = ""
	}
	l.all = l.all[:0]
	clear(l.index)
	l.recent = [recentNames]*namedValue[N, T]{}
}

// orderIndex maps the ids of a batch's orders to numbers above 0. The ids are mostly consecutive.
type orderIndex struct {
	first  exchange.OrderID // id of numbers[0]
	near   []int32
	others map[exchange.OrderID]int32 // ids below first, or far above it
}

// orderIndexMax is the most entries of an orderIndex's near.
const orderIndexMax = 2 * batchRecordsMax

// find returns the number of an order, 0 if it has none.
func (x *orderIndex) find(id exchange.OrderID) int32 {
	if n := uint64(id - x.first); n < uint64(len(x.near)) {
		return x.near[n]
	}
	return x.others[id]
}

// add sets the number of an order that has none.
func (x *orderIndex) add(id exchange.OrderID, number int32) {
	if len(x.near) == 0 {
		x.first = id
	}
	n := uint64(id - x.first)
	if n >= orderIndexMax {
		if x.others == nil {
			x.others = make(map[exchange.OrderID]int32)
		}
		x.others[id] = number
		return
	}
	for uint64(len(x.near)) <= n {
		x.near = append(x.near, 0)
	}
	x.near[n] = number
}

// reset removes all orders.
func (x *orderIndex) reset() {
	x.near = x.near[:0]
	clear(x.others)
}
