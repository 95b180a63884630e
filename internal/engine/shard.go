package engine

import (
	"sync"
	"sync/atomic"

	"outcry/internal/exchange"
)

// shard owns one symbol: its book, and the queue of its closed orders that are still in
// memory. Only the inbox's goroutine, which exists while the symbol has work, uses the
// fields, except inbox, endedMu with ended, and the atomic fields.
type shard struct {
	engine     *Engine
	inbox      inbox
	symbol     exchange.Symbol
	instrument *exchange.Instrument // its contents are guarded by Engine.mu
	book       *exchange.Book
	account    *exchange.Account // account of the last command; the next command is most often for the same account
	closed     closedQueue
	connected  connected

	endedMu sync.Mutex
	ended   []*Origin // ended connections with orders at this shard, until its next chore; guarded by endedMu

	closedCount atomic.Int64 // closed orders of the book in memory; the sweeper reads it
	activity    activity
	halts       atomic.Pointer[[]haltChange] // recent halts and resumes, for any goroutine; nil before the first

	*scratch // nil while the shard has no goroutine
}

// scratch is memory that every command reuses.
type scratch struct {
	// Every order uses these fields. They are adjacent to share cache lines, which move between processors.
	order     exchange.Order
	fills     []exchange.Fill
	event     exchange.Event
	record    []byte
	unsettled bool // the command depends on an order that is not settled or on a cancelAll in progress: retry it

	cancels []exchange.Cancel
	judged  judged
	old     exchange.Order // the order that an amend changes
}

// scratchKeep is the capacity of the record buffer, in bytes, above which a shard drops its
// scratch memory after a task.
const scratchKeep = 4 << 10

func (d *shard) begin() { d.scratch = new(scratch) }

func (d *shard) afterTask() {
	d.forget()
	if cap(d.record) > scratchKeep {
		*d.scratch = scratch{}
	}
}

// freeMemory frees memory that the next task can allocate again.
func (d *shard) freeMemory() {
	d.scratch, d.account = nil, nil
	d.closed.shrink()
	d.connected.shrink()
	d.book.Shrink()
}

// do executes one command. An error is the journal's and final, errAgain, or ErrStopped.
func (d *shard) do(c *Request, r *exchange.Result, now int64) error {
	switch c.Kind {
	case exchange.QueryOrder:
		d.queryOrder(c, r)
		return nil
	case exchange.ShowOrder:
		d.showOrder(&c.Command, r)
		return nil
	case exchange.MakeSymbol:
		d.refuseOtherRules(&c.Command, r)
		return nil // the symbol exists already
	case exchange.OpenAccount, exchange.DepositShares, exchange.PlaceOrder, exchange.CancelOrder, exchange.AmendOrder,
		exchange.CancelAll, exchange.SetSwitch, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
	}
	if d.book.Unfinished() != 0 {
		reason, err := d.finish()
		if r.Reason = reason; c.Kind == exchange.CancelOrder {
			r.Reason = reasonForCancel(reason)
		}
		if err != nil || reason != exchange.OK {
			return err
		}
	}
	now = d.book.Moment(now)
	switch c.Kind {
	case exchange.PlaceOrder:
		d.unsettled = false
		if err := d.placeOrder(c, r, now); err != nil || !d.unsettled {
			return err
		}
		return errAgain
	case exchange.CancelOrder:
		return d.cancelOrder(&c.Command, r, now)
	case exchange.DepositShares:
		return d.placeShares(&c.Command, r, now)
	case exchange.AmendOrder:
		return d.amendOrder(c, r, now)
	case exchange.OpenAccount, exchange.MakeSymbol, exchange.QueryOrder, exchange.ShowOrder, exchange.CancelAll,
		exchange.SetSwitch, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
	}
	panic("engine: a shard cannot execute a command of kind " + c.Kind.String())
}

// placeOrder places an order: it judges, reserves, matches, appends, settles and fills in the result.
func (d *shard) placeOrder(c *Request, r *exchange.Result, now int64) error {
	if r.Reason = d.engine.mayPlace(); r.Reason != exchange.OK {
		return nil
	}
	return d.place(c, r, now)
}

// place is placeOrder after the check that orders are accepted. An order that replaces another one is placed by the
// same steps (replace).
func (d *shard) place(c *Request, r *exchange.Result, now int64) error {
	var claim orderClaim
	for {
		if !d.reserve(&c.Command, r) {
			d.forgo(&claim)
			return nil
		}
		wait, ok, err := d.claimOrder(&claim, r)
		if ok {
			break
		}
		d.withdraw(&d.order)
		if wait == nil {
			return err
		}
		if err := d.awaitRoom(wait); err != nil {
			return err
		}
	}
	d.submit(&c.Command, d.momentOf(&claim, now))
	seq, err := d.appendFirst(&claim)
	if err != nil {
		return err
	}
	d.settle()
	d.noteFills(seq, 1, 0)
	if r.Seq, err = d.finishClaimed(&c.Command, &claim, seq); err != nil {
		return err
	}
	d.placed(c, r)
	return nil
}

// submit gives d.order its id, has the book match it, and fills d.event with the result.
func (d *shard) submit(c *exchange.Command, now int64) {
	o := &d.order
	o.ID = exchange.OrderID(d.engine.lastOrder.Add(1))
	d.fills = d.book.Submit(o, now, d.fills[:0])
	d.noteOrder(exchange.OrderAccepted, o, o.Shares, now)
	d.event.Ref, d.event.Fills = c.Ref, d.fills
}

// placed fills the result of d.order, which a PlaceOrder has placed.
func (d *shard) placed(c *Request, r *exchange.Result) {
	o := &d.order
	r.Order = o.ID
	if !o.Plain() {
		d.activity.instructed(&o.Terms, o.OnDisconnect)
	}
	d.entered(c, c.Origin, r)
}

// entered fills the part of the result that new orders and replacements share, and notes the connection, if d.order
// is to be canceled when that ends.
func (d *shard) entered(c *Request, origin *Origin, r *exchange.Result) {
	o := &d.order
	if c.Report {
		r.Status = report(o.Status())
	}
	if o.OnDisconnect && o.Open > 0 {
		d.connect(o.Account, o.ID, origin)
	}
}

// find returns an account, or nil if it does not exist. Accounts are never removed, so the cached one stays valid.
func (d *shard) find(id exchange.AccountID) *exchange.Account {
	if d.account == nil || d.account.ID != id {
		d.engine.mu.Lock()
		d.account = d.engine.ledger.Account(id)
		d.engine.mu.Unlock()
	}
	return d.account
}

// noteOrder fills d.event with an event of an order, without ref and fills.
func (d *shard) noteOrder(kind exchange.EventKind, o *exchange.Order, shares exchange.Shares, now int64) {
	d.event.Note(kind, o, d.symbol, shares, now)
	if kind == exchange.OrderCanceled || o.Plain() {
		return
	}
	d.event.NoteMore(o, d.book.Own())
	if kind != exchange.OrderContinued {
		d.event.Unsent, d.event.Hold = d.judged.unsent, d.book.HoldOf(o)
	}
}

// append appends d.event to the journal; bytes is the claimed size.
func (d *shard) append(bytes int) (uint64, error) {
	d.record = exchange.AppendEvent(d.record[:0], &d.event)
	d.inbox.appended = true
	return d.engine.append(d.record, bytes)
}

// noteFills updates the counters and the queue of closed orders after a record of d.order. opened is the number of
// orders that the record opened, and closed the number that it replaced, each 0 or 1.
func (d *shard) noteFills(seq uint64, opened, closed int) {
	if d.order.Open == 0 {
		closed++
	}
	for i := range d.fills {
		if d.fills[i].Closed {
			closed++
			d.disconnect(d.fills[i].Resting)
		}
	}
	own := d.book.Own()
	if own != nil {
		for i := range own {
			d.disconnect(own[i].Order)
		}
		closed += len(own)
		d.activity.cancels.Add(int64(len(own)))
	}
	n := &d.engine.counters
	d.inbox.spent += (len(d.fills) + len(own)) / fillsPerWork
	d.activity.fill(d.fills)
	if opened != closed {
		n.openOrders.Add(int64(opened - closed))
	}
	if closed > 0 {
		d.close(seq, closed)
	}
}

// cancelOrder takes an order out of the book, appends the record, and releases its hold.
// A cancel needs no admission, as it frees more room than it uses. It is rejected for lack of
// room only once the journal's reserve is used up as well.
func (d *shard) cancelOrder(c *exchange.Command, r *exchange.Result, now int64) error {
	e := d.engine
	if d.find(c.Account) == nil {
		r.Reason = exchange.UnknownAccount
		return nil
	}
	id := d.orderOf(c, r)
	if r.Reason = d.book.MayCancel(id, c.Account); r.Reason != exchange.OK {
		if r.Reason == exchange.UnknownOrder {
			e.answerAbsent(id, r) // the order was forgotten while the command was on its way
		}
		return nil
	}
	if ok, err := e.claimToCancel(exchange.EventBytesMax, r); !ok {
		return err
	}
	o, _ := d.book.Cancel(id, c.Account, now)
	d.noteOrder(exchange.OrderCanceled, &o, o.Canceled, now)
	seq, err := d.append(exchange.EventBytesMax)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.ledger.Release(d.instrument, &o)
	e.mu.Unlock()
	d.disconnect(id)
	d.closeCanceled(seq, 1)
	r.Status, r.Seq = o.Status(), seq
	return nil
}

func (d *shard) queryOrder(c *Request, r *exchange.Result) {
	if d.find(c.Account) == nil {
		r.Reason = exchange.UnknownAccount
	} else if o, found := d.book.Find(d.orderOf(&c.Command, r)); !found {
		d.engine.answerAbsent(c.Names(r), r) // the order was forgotten while the command was on its way
	} else if c.OwnOnly && o.Account.ID != c.Account {
		r.Reason = exchange.ForeignOrder
	} else {
		r.Status = o.Status()
	}
}

// orderOf returns the id of the order that a command names. A ref names the newest order of its chain that
// memory knows; r.Order, which holds the first order of the chain, is set to that one.
func (d *shard) orderOf(c *exchange.Command, r *exchange.Result) exchange.OrderID {
	if c.Ref == "" {
		return c.Order
	}
	r.Order = d.book.Newest(r.Order)
	return r.Order
}

// report returns the status of an order for a reply, with at most ReportExecutionsMax+1 executions:
// the last one only shows that there are more than a reply lists.
func report(s exchange.Status) exchange.Status {
	if s.Executions = s.Executions[:min(len(s.Executions), exchange.ReportExecutionsMax+1)]; len(s.Executions) == 0 {
		s.Executions = nil
	}
	return s
}

// placeShares checks, claims room, appends, and only then makes the shares visible. No other
// goroutine deposits shares of this symbol, so the check still holds after the append.
func (d *shard) placeShares(c *exchange.Command, r *exchange.Result, now int64) error {
	e := d.engine
	if r.Reason = e.admit(); r.Reason != exchange.OK {
		return nil
	}
	if d.refuseOtherRules(c, r); r.Reason != exchange.OK {
		return nil
	}
	e.mu.Lock()
	r.Reason = e.ledger.MayDeposit(d.instrument, c.Account, c.Deposited)
	e.mu.Unlock()
	if r.Reason != exchange.OK {
		return nil
	}
	if ok, err := e.claim(exchange.EventBytesMax, r); !ok {
		return err
	}
	d.event = exchange.Event{Kind: exchange.SharesDeposited, Time: now, Symbol: d.symbol, Account: c.Account,
		Deposited: c.Deposited, Ref: c.Ref}
	seq, err := d.append(exchange.EventBytesMax)
	if err != nil {
		return err
	}
	r.Seq = seq
	e.mu.Lock()
	e.ledger.Deposit(d.instrument, c.Account, c.Deposited)
	e.mu.Unlock()
	return nil
}
