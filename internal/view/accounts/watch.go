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
	// accountEventsMax is how many events of an account are kept at the most, and keptBytesMax how many bytes those of
	// all accounts may have, about.
	accountEventsMax = 10_000
	keptBytesMax     = 64 << 20

	// watchedFor is how long the events of an account, and the orders of a symbol, are kept after the last one who
	// wanted them. sweepTime is how often that is looked at.
	watchedFor = 5 * time.Minute
	sweepTime  = 10 * time.Second

	// unopenedMax is how many accounts may be watched that are not opened.
	unopenedMax = 10_000
)

// watch has the events of an account, and those who are told of them.
type watch struct {
	audience[*exchange.AccountEvent]
	holders int       // who want them, each once; guarded by View.mu, as all that follows
	until   time.Time // they are forgotten then if there are no holders
	events  []*event  // without a gap up to the account's newest
	making  *event    // of the record at hand, nil if it has not touched the account
	account *account  // set with making
	symbols []symbolNumber
}

// event is an event that is made or kept.
type event struct {
	*exchange.AccountEvent
	before       []uint64 // of each of its orders, the number of the event before that changed it; 0 if none was made
	bytes        int
	of           *watch
	older, newer *event // of all that are kept
}

// eventMemory is an event with room for what most have: one order, one fill, one symbol. It is one piece, as there
// are as many as orders.
type eventMemory struct {
	event
	account   exchange.AccountEvent
	orders    [1]exchange.OrderChange
	before    [1]uint64
	fills     [1]exchange.AccountFill
	positions [1]exchange.PositionView
}

// newEvent returns an event in which nothing has happened yet.
func newEvent(of *watch) *event {
	m := &eventMemory{event: event{of: of}}
	m.AccountEvent, m.event.before = &m.account, m.before[:0]
	m.Orders, m.Fills, m.Positions = m.orders[:0], m.fills[:0], m.positions[:0]
	return &m.event
}

// kept are the events that are kept, of all accounts. If there is one more than there may be, the account's oldest
// goes; if they are too large, the oldest of all.
type kept struct {
	bytesMost, accountMost int
	bytes                  int
	oldest, newest         *event
}

// add adds an event, which is complete, to those of its account.
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

// drop forgets an event, the oldest of its account.
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

// changed returns the events up to record seq that changed an order, as far as they are kept, from the newest to the
// oldest. It is usually the event of that very record that tells where they are; else it looks at one after the other.
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

// upTo returns how many of the events are of records up to seq.
func (w *watch) upTo(seq uint64) int {
	n := len(w.events)
	newest := min(1, n) // how many of the newest are looked through: it is nearly always one of them
	for newest < n && w.events[n-newest].Seq > seq {
		newest = min(2*newest, n)
	}
	from := n - newest
	return from + sort.Search(newest, func(i int) bool { return w.events[from+i].Seq > seq })
}

// after returns the events after a number, which is not above last, that of the newest one. ok is false if some of
// them are not kept.
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

// touch counts the event that the record at hand makes for an account, once, and returns what it is made in, nil if
// nobody wants it.
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

// touchSymbol notes that the record at hand is about a symbol, for its event of an account.
func (v *View) touchSymbol(a *account, sym symbolNumber) *watch {
	w := v.touch(a)
	if w == nil {
		return nil
	}
	if n := len(w.symbols); n == 0 || w.symbols[n-1] != sym { // a record has all of a symbol in one place
		w.symbols = append(w.symbols, sym)
	}
	return w
}

// note enters an order as the record at hand leaves it, with so much open, into the event of its account. It returns
// what is to be completed, nil if nobody wants it.
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

// finish completes the events of the record at hand, keeps them, and has those who listen be told.
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

// byID sorts the orders of an event.
type byID event

func (e *byID) Len() int           { return len(e.Orders) }
func (e *byID) Less(i, j int) bool { return e.Orders[i].ID < e.Orders[j].ID }
func (e *byID) Swap(i, j int) {
	e.Orders[i], e.Orders[j] = e.Orders[j], e.Orders[i]
	e.before[i], e.before[j] = e.before[j], e.before[i]
}

// measure sets the bytes that an event takes, about: refs that its orders share with others are counted.
func (e *event) measure() {
	e.bytes = int(unsafe.Sizeof(eventMemory{})) +
		beyond(e.Positions)*int(unsafe.Sizeof(exchange.PositionView{})) +
		beyond(e.Orders)*int(unsafe.Sizeof(exchange.OrderChange{})) +
		beyond(e.Fills)*int(unsafe.Sizeof(exchange.AccountFill{}))
	for i := range e.Orders {
		e.bytes += int(unsafe.Sizeof(e.before[i])) + len(e.Orders[i].Ref) + len(e.Orders[i].NewRef)
	}
}

// orNil returns a list, nil if it is empty.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// beyond returns how many entries a list has memory for, 0 if that is a part of the event's.
func beyond[T any](list []T) int {
	if cap(list) <= 1 {
		return 0
	}
	return cap(list)
}

// Watch has the view keep the events of an account, which may be yet to be opened, until release is called and some
// minutes longer. Callers who want Did to have what a command does call it before they execute the command.
// It may be called twice for an account; release may be too.
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

// hold returns the watch of an account, with one more holder; nil if too many accounts that are not opened are watched.
// Its caller holds mu.
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

// letGo takes a holder off. Its caller holds mu.
func (v *View) letGo(id exchange.AccountID, w *watch) {
	if w.holders--; w.holders > 0 {
		return
	}
	if w.until = time.Now().Add(watchedFor); v.accounts[id] == nil {
		delete(v.watches, id)
		v.unopened--
	}
}

// sweep forgets what nobody has wanted for watchedFor.
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
