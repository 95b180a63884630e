package accounts

import (
	"slices"
	"sort"
	"time"
	"unsafe"

	"outcry/internal/exchange"
)

const (
	// accountEventsMax is how many events of one account are kept. keptBytesMax is about how many bytes the kept
	// events of all accounts may use.
	accountEventsMax = 10_000
	keptBytesMax     = 64 << 20

	// watchedFor is how long the events of an account, or the resting orders of a symbol, are kept after the last
	// holder or listener has left. sweepTime is the interval between checks for that.
	watchedFor = 5 * time.Minute
	sweepTime  = 10 * time.Second

	// unopenedMax is how many accounts that are not open yet may be watched.
	unopenedMax = 10_000
)

// watch holds the kept events of an account and the listeners to them.
type watch struct {
	audience[*exchange.AccountEvent]
	holders int       // number of callers that need the events; View.mu guards it and the fields below
	until   time.Time // the events are dropped at this time if there are no holders
	events  []*event  // kept events, without a gap up to the account's newest
	making  *event    // event of the record being applied, nil if the record has not changed the account
	account *account  // set together with making
	symbols []symbolNumber
}

// event is an account's event, complete or being made.
type event struct {
	*exchange.AccountEvent
	before       []uint64 // for each order of the event, the number of the previous event that changed it, or 0
	bytes        int
	of           *watch
	older, newer *event // neighbours in the list of all kept events
}

// eventMemory is an event with room for what most events have: one order, one fill, one symbol. It is one allocation,
// because there are as many events as orders.
type eventMemory struct {
	event
	account   exchange.AccountEvent
	orders    [1]exchange.OrderChange
	before    [1]uint64
	fills     [1]exchange.AccountFill
	positions [1]exchange.PositionView
}

// newEvent returns an empty event.
func newEvent(of *watch) *event {
	m := &eventMemory{event: event{of: of}}
	m.AccountEvent, m.event.before = &m.account, m.before[:0]
	m.Orders, m.Fills, m.Positions = m.orders[:0], m.fills[:0], m.positions[:0]
	return &m.event
}

// kept is the list of the kept events of all accounts. If an account exceeds its limit, its oldest event is dropped;
// if all events together are too large, the oldest of all is dropped.
type kept struct {
	bytesMost, accountMost int
	bytes                  int
	oldest, newest         *event
}

// add adds a complete event to those of its account.
func (k *kept) add(e *event) {
	w := e.of
	for len(w.events) >= k.accountMost {
		k.drop(w.events[0])
	}
	w.events = append(w.events, e)
	if e.older = k.newest; k.newest == nil {
		k.oldest = e
	} else {
		k.newest.newer = e
	}
	k.newest = e
	for k.bytes += e.bytes; k.bytes > k.bytesMost; {
		k.drop(k.oldest)
	}
}

// drop drops an event, which must be the oldest of its account.
func (k *kept) drop(e *event) {
	if e.older == nil {
		k.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		k.newest = e.older
	} else {
		e.newer.older = e.older
	}
	e.older, e.newer = nil, nil
	k.bytes -= e.bytes
	w := e.of
	w.events[0] = nil
	if w.events = w.events[1:]; len(w.events) == 0 {
		w.events = nil
	}
}

// changed returns the kept events up to record seq that changed an order, from the newest to the oldest. Usually the
// event of record seq itself changed the order and links to the earlier ones; if not, changed searches event by event.
func (w *watch) changed(id exchange.OrderID, seq uint64) (all []*exchange.AccountEvent) {
	for at := w.upTo(seq) - 1; at >= 0; {
		e := w.events[at]
		i := slices.IndexFunc(e.Orders, func(c exchange.OrderChange) bool { return c.ID == id })
		if i < 0 {
			at--
			continue
		}
		if all = append(all, e.AccountEvent); e.before[i] < w.events[0].N {
			break
		}
		at = int(e.before[i] - w.events[0].N)
	}
	return all
}

// upTo returns how many of the events belong to records up to seq.
func (w *watch) upTo(seq uint64) int {
	n := len(w.events)
	newest := min(1, n) // how many of the newest events to search, doubled as needed; usually one suffices
	for newest < n && w.events[n-newest].Seq > seq {
		newest = min(2*newest, n)
	}
	from := n - newest
	return from + sort.Search(newest, func(i int) bool { return w.events[from+i].Seq > seq })
}

// after returns the events with numbers above n. last is the number of the newest event, and n is at most last. ok is
// false if some of these events are no longer kept.
func (w *watch) after(n, last uint64) (missed []*exchange.AccountEvent, ok bool) {
	if last-n > uint64(len(w.events)) {
		return nil, false
	}
	missed = make([]*exchange.AccountEvent, 0, last-n)
	for _, e := range w.events[len(w.events)-int(last-n):] {
		missed = append(missed, e.AccountEvent)
	}
	return missed, true
}

// byID sorts the orders of an event by id.
type byID event

func (e *byID) Len() int           { return len(e.Orders) }
func (e *byID) Less(i, j int) bool { return e.Orders[i].ID < e.Orders[j].ID }
func (e *byID) Swap(i, j int) {
	e.Orders[i], e.Orders[j] = e.Orders[j], e.Orders[i]
	e.before[i], e.before[j] = e.before[j], e.before[i]
}

// measure sets the approximate size of an event in bytes. Refs shared with other orders are counted too.
func (e *event) measure() {
	e.bytes = int(unsafe.Sizeof(eventMemory{})) +
		beyond(e.Positions)*int(unsafe.Sizeof(exchange.PositionView{})) +
		beyond(e.Orders)*int(unsafe.Sizeof(exchange.OrderChange{})) +
		beyond(e.Fills)*int(unsafe.Sizeof(exchange.AccountFill{}))
	for i := range e.Orders {
		e.bytes += int(unsafe.Sizeof(e.before[i])) + len(e.Orders[i].Ref) + len(e.Orders[i].NewRef)
	}
}

// orNil returns a list, or nil if it is empty.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// beyond returns the capacity of a list that has its own memory, 0 if the list uses the event's memory.
func beyond[T any](list []T) int {
	if cap(list) <= 1 {
		return 0
	}
	return cap(list)
}
