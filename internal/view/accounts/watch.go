package accounts

import (
	"slices"
	"sort"
	"sync"
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
	newest := min(1, n) // number of newest events to check one by one: it is nearly always one of them
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

// touch counts the event that the current record makes for an account, once per record. It returns the watch in which
// the event is made, nil if the account is not watched.
func (v *View) touch(a *account) *watch {
	w := a.watch
	if a.touched != v.at {
		a.touched = v.at
		a.n++
		if w != nil {
			e := newEvent(w)
			e.N, e.Seq, e.Time, e.Account = a.n, v.at, v.event.Time, a.id
			w.making, w.account = e, a
			v.touched = append(v.touched, w)
		}
	}
	return w
}

// touchSymbol adds the symbol of the current record to the event of an account.
func (v *View) touchSymbol(a *account, sym symbolNumber) *watch {
	w := v.touch(a)
	if w == nil {
		return nil
	}
	if n := len(w.symbols); n == 0 || w.symbols[n-1] != sym { // the changes of one symbol are adjacent in a record
		w.symbols = append(w.symbols, sym)
	}
	return w
}

// note adds an order, as the current record leaves it, to the event of its account. It returns the change for the
// caller to complete, nil if the account is not watched.
func (v *View) note(a *account, o *order) *exchange.OrderChange {
	w := v.touchSymbol(a, o.symbol)
	if w == nil {
		return nil
	}
	w.making.Orders = append(w.making.Orders, exchange.OrderChange{OrderDetail: o.detail(v.markets[o.symbol].name)})
	w.making.before, o.event = append(w.making.before, o.event), a.n
	c := &w.making.Orders[len(w.making.Orders)-1]
	c.Changed = v.event.Time
	c.Settle(exchange.NotCanceled)
	return c
}

// finish completes and keeps the events of the current record, and queues them for the listeners.
func (v *View) finish() {
	for _, w := range v.touched {
		e, a := w.making, w.account
		e.Balance, e.Held, e.LastFill = a.balance, a.held, a.fills.count
		for _, sym := range w.symbols {
			p := exchange.PositionView{Symbol: v.markets[sym].name}
			p.Shares, p.Held = a.position(sym)
			e.Positions = append(e.Positions, p)
		}
		sortPositions(e.Positions)
		sort.Sort((*byID)(e))
		e.Positions, e.Orders, e.Fills = orNil(e.Positions), orNil(e.Orders), orNil(e.Fills)
		e.measure()
		if w.tell(e.AccountEvent) {
			v.due = append(v.due, w)
		}
		v.kept.add(e)
		w.making, w.account, w.symbols = nil, nil, w.symbols[:0]
	}
	clear(v.touched)
	v.touched = v.touched[:0]
	v.finishOrders()
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

// Watch makes the view keep the events of an account until release is called, and some minutes longer. The account may
// not be open yet. Callers that want Did to return what a command does call Watch before they execute the command.
// Watch may be called more than once for an account, and release more than once.
func (v *View) Watch(id exchange.AccountID) (release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.hold(id)
	if w == nil {
		return func() {}
	}
	return sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.letGo(id, w)
	})
}

// hold returns the watch of an account, with one more holder. It returns nil if too many unopened accounts are
// watched. Its caller holds mu.
func (v *View) hold(id exchange.AccountID) *watch {
	w := v.watches[id]
	if w == nil {
		a := v.accounts[id]
		if a == nil && v.unopened >= unopenedMax {
			return nil
		}
		w = new(watch)
		if v.watches[id] = w; a != nil {
			a.watch = w
		} else {
			v.unopened++
		}
	}
	w.holders++
	return w
}

// letGo removes a holder. Its caller holds mu.
func (v *View) letGo(id exchange.AccountID, w *watch) {
	if w.holders--; w.holders > 0 {
		return
	}
	if w.until = time.Now().Add(watchedFor); v.accounts[id] == nil {
		delete(v.watches, id)
		v.unopened--
	}
}

// sweep drops events and resting orders that have been unused for watchedFor.
func (v *View) sweep(now time.Time) {
	if now.Sub(v.swept) < sweepTime {
		return
	}
	v.swept = now
	v.feeding.Lock()
	defer v.feeding.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, w := range v.watches {
		if w.holders > 0 || now.Before(w.until) {
			continue
		}
		for len(w.events) > 0 {
			v.kept.drop(w.events[0])
		}
		delete(v.watches, id)
		v.accounts[id].watch = nil
	}
	for i := range v.markets {
		if b := v.markets[i].resting; b != nil && len(b.readers) == 0 && !now.Before(b.until) {
			v.markets[i].resting = nil
		}
	}
}
