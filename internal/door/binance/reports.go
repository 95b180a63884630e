package binance

import (
	"outcry/internal/exchange"
)

// Execution types: the kinds of reports about an order.
const (
	execNew       = "NEW"
	execTrade     = "TRADE"
	execCanceled  = "CANCELED"
	execReplaced  = "REPLACED" // amended in place, through another door
	execExpired   = "EXPIRED"
	execPrevented = "TRADE_PREVENTION"
)

// report is one execution report, with the state of the order at that point.
type report struct {
	order    *exchange.OrderDetail
	exec     string
	status   string
	at       int64 // time of the record
	executed exchange.Shares
	notional exchange.Cash
	fill     *exchange.AccountFill // the execution of a TRADE; nil otherwise

	canceledBy exchange.Ref // client id of the cancel, "" if none is known
}

// running counts how much of an order is executed, while the reports of one record are made.
type running struct {
	executed exchange.Shares
	notional exchange.Cash
}

// eachReport calls tell for each report about what a record did to an account's orders: first replaced orders, then new
// ones, then executions in their order, then orders that ended or were reduced.
func eachReport(e *exchange.AccountEvent, tell func(r *report)) {
	sums := make(map[exchange.OrderID]*running, len(e.Orders))
	for i := range e.Orders {
		o := &e.Orders[i]
		sums[o.ID] = &running{o.Executed, o.Notional}
	}
	for i := range e.Fills {
		if f, s := &e.Fills[i], sums[e.Fills[i].Order]; s != nil {
			s.executed, s.notional = s.executed-f.Shares, s.notional.Sub(exchange.Notional(f.Shares, f.Price))
		}
	}
	say := func(o *exchange.OrderChange, exec, status string, f *exchange.AccountFill) {
		if s := sums[o.ID]; offered(o.Symbol) {
			tell(&report{order: &o.OrderDetail, exec: exec, status: status, at: e.Time, executed: s.executed,
				notional: s.notional, fill: f})
		}
	}
	for i := range e.Orders {
		if o := &e.Orders[i]; o.State == exchange.StatusReplaced {
			say(o, execCanceled, status(&o.OrderDetail), nil)
		}
	}
	for i := range e.Orders {
		if o := &e.Orders[i]; o.New {
			say(o, execNew, "NEW", nil)
		}
	}
	for i := range e.Fills {
		f := &e.Fills[i]
		o := e.Change(f.Order)
		if o == nil {
			continue
		}
		s := sums[o.ID]
		s.executed, s.notional = s.executed+f.Shares, s.notional.Add(exchange.Notional(f.Shares, f.Price))
		state := "PARTIALLY_FILLED"
		if s.executed == total(&o.OrderDetail) {
			state = "FILLED"
		}
		say(o, execTrade, state, f)
	}
	for i := range e.Orders {
		o := &e.Orders[i]
		switch {
		case o.State == exchange.StatusReplaced:
		case o.State == exchange.StatusCanceled:
			say(o, execOf(o.Why), status(&o.OrderDetail), nil)
		case o.Less > 0:
			say(o, execReplaced, status(&o.OrderDetail), nil)
		}
	}
}

// execOf returns the execution type of a cancel from its reason.
func execOf(why exchange.WhyCanceled) string {
	switch statusOfCanceled(why) {
	case "EXPIRED":
		return execExpired
	case "EXPIRED_IN_MATCH":
		return execPrevented
	}
	return execCanceled
}

// appendReport appends an executionReport.
func appendReport(b []byte, r *report) []byte {
	o := r.order
	w := beginEvent(b, "executionReport", millis(r.at), o.Symbol)
	own, original := clientID(o), ""
	if r.exec == execCanceled { // not in other reports: some clients use C as the order's id if it is not empty
		own, original = cancelID(o.ID, r.canceledBy), own
	}
	w.word("c", own)
	w.word("S", side(o.Side))
	w.word("o", orderType(&o.Terms))
	w.word("f", timeInForce(&o.Terms))
	put(&w, "q", total(o))
	put(&w, "p", limitOf(o))
	w.word("P", zero)
	w.word("F", zero)
	w.number("g", -1)
	w.word("C", original)
	w.word("x", r.exec)
	w.word("X", r.status)
	w.word("r", "NONE")
	w.number("i", int64(o.ID))
	r.putFill(&w)
	put(&w, "z", r.executed)
	w.word("n", zero)
	w.number("T", millis(r.at))
	w.flag("w", r.status == "NEW" || r.status == "PARTIALLY_FILLED")
	w.flag("M", false)
	w.number("O", millis(o.Time))
	put(&w, "Z", r.notional)
	w.word("Q", zero)
	w.number("W", millis(o.Time))
	w.word("V", selfTrades[o.STP])
	return w.end()
}

// putFill writes the report's execution, or zeros if it has none.
func (r *report) putFill(w *object) {
	f := r.fill
	if f == nil {
		f = &exchange.AccountFill{}
	}
	put(w, "l", f.Shares)
	put(w, "L", f.Price)
	put(w, "Y", exchange.Notional(f.Shares, f.Price))
	w.flag("m", f.Maker)
	w.number("I", int64(f.N))
	if r.fill == nil {
		w.raw("N", "null")
		w.number("t", -1)
		return
	}
	w.word("N", received(f))
	w.number("t", int64(f.Trade))
}

// appendPosition appends an outboundAccountPosition: the account's amounts of all assets that a record changed.
func appendPosition(b []byte, e *exchange.AccountEvent) []byte {
	w := begin(b)
	w.word("e", "outboundAccountPosition")
	w.number("E", millis(e.Time))
	w.number("u", millis(e.Time))
	w.name("B")
	w.b = appendHolding(append(w.b, '['), quoteAsset, e.Balance, e.Held)
	for i := range e.Positions {
		if p := &e.Positions[i]; offered(p.Symbol) {
			w.b = appendHolding(append(w.b, ','), string(p.Symbol), p.Shares, p.Held)
		}
	}
	w.b = append(w.b, ']')
	return w.end()
}

// appendHolding appends an account's amounts of an asset, for events.
func appendHolding[D decimal](b []byte, asset string, free, locked D) []byte {
	w := begin(b)
	w.word("a", asset)
	put(&w, "f", free)
	put(&w, "l", locked)
	return w.end()
}
