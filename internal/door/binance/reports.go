package binance

import (
	"outcry/internal/door/jsontext"
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

// eachReport calls emit for each report about what a record did to an account's orders: first replaced orders, then new
// ones, then executions in their order, then orders that ended or were reduced.
func eachReport(e *exchange.AccountEvent, emit func(r *report)) {
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
	add := func(o *exchange.OrderChange, exec, status string, f *exchange.AccountFill) {
		if s := sums[o.ID]; offered(o.Symbol) {
			emit(&report{order: &o.OrderDetail, exec: exec, status: status, at: e.Time, executed: s.executed,
				notional: s.notional, fill: f})
		}
	}
	for i := range e.Orders {
		if o := &e.Orders[i]; o.State == exchange.StatusReplaced {
			add(o, execCanceled, status(&o.OrderDetail), nil)
		}
	}
	for i := range e.Orders {
		if o := &e.Orders[i]; o.New {
			add(o, execNew, "NEW", nil)
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
		add(o, execTrade, state, f)
	}
	for i := range e.Orders {
		o := &e.Orders[i]
		switch {
		case o.State == exchange.StatusReplaced:
		case o.State == exchange.StatusCanceled:
			add(o, execOf(o.Why), status(&o.OrderDetail), nil)
		case o.Less > 0:
			add(o, execReplaced, status(&o.OrderDetail), nil)
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
	b = beginEvent(b, "executionReport", millis(r.at), o.Symbol)
	own, original := clientID(o), ""
	if r.exec == execCanceled { // other reports leave it empty: some clients use C as the order's id if it is not empty
		own, original = cancelID(o.ID, r.canceledBy), own
	}
	b = jsontext.Word(b, "c", own)
	b = jsontext.Word(b, "S", side(o.Side))
	b = jsontext.Word(b, "o", orderType(&o.Terms))
	b = jsontext.Word(b, "f", timeInForce(&o.Terms))
	b = decimal(b, "q", total(o))
	b = decimal(b, "p", limitOf(o))
	b = jsontext.Word(b, "P", zero)
	b = jsontext.Word(b, "F", zero)
	b = jsontext.Number(b, "g", -1)
	b = jsontext.Word(b, "C", original)
	b = jsontext.Word(b, "x", r.exec)
	b = jsontext.Word(b, "X", r.status)
	b = jsontext.Word(b, "r", "NONE")
	b = jsontext.Number(b, "i", o.ID)
	b = r.membersOfFill(b)
	b = decimal(b, "z", r.executed)
	b = jsontext.Word(b, "n", zero)
	b = jsontext.Number(b, "T", millis(r.at))
	b = jsontext.Bool(b, "w", r.status == "NEW" || r.status == "PARTIALLY_FILLED")
	b = jsontext.Bool(b, "M", false)
	b = jsontext.Number(b, "O", millis(o.Time))
	b = decimal(b, "Z", r.notional)
	b = jsontext.Word(b, "Q", zero)
	b = jsontext.Number(b, "W", millis(o.Time))
	b = jsontext.Word(b, "V", selfTrades[o.STP])
	return append(b, '}')
}

// membersOfFill appends the report's execution, or zeros if it has none.
func (r *report) membersOfFill(b []byte) []byte {
	f := r.fill
	if f == nil {
		f = &exchange.AccountFill{}
	}
	b = decimal(b, "l", f.Shares)
	b = decimal(b, "L", f.Price)
	b = decimal(b, "Y", exchange.Notional(f.Shares, f.Price))
	b = jsontext.Bool(b, "m", f.Maker)
	b = jsontext.Number(b, "I", f.N)
	if r.fill == nil {
		return jsontext.Number(jsontext.Raw(b, "N", "null"), "t", -1)
	}
	return jsontext.Number(jsontext.Word(b, "N", received(f)), "t", f.Trade)
}

// appendPosition appends an outboundAccountPosition: the account's amounts of all assets that a record changed.
func appendPosition(b []byte, e *exchange.AccountEvent) []byte {
	b = append(b, '{')
	b = jsontext.Word(b, "e", "outboundAccountPosition")
	b = jsontext.Number(b, "E", millis(e.Time))
	b = jsontext.Number(b, "u", millis(e.Time))
	b = append(jsontext.Name(b, "B"), '[')
	b = appendHolding(b, quoteAsset, e.Balance, e.Held)
	for i := range e.Positions {
		if p := &e.Positions[i]; offered(p.Symbol) {
			b = appendHolding(append(b, ','), string(p.Symbol), p.Shares, p.Held)
		}
	}
	return append(b, ']', '}')
}

// appendHolding appends an account's amounts of an asset, for events.
func appendHolding[D jsontext.Exact](b []byte, asset string, free, locked D) []byte {
	b = append(b, '{')
	b = jsontext.Word(b, "a", asset)
	b = decimal(b, "f", free)
	b = decimal(b, "l", locked)
	return append(b, '}')
}
