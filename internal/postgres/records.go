package postgres

import (
	"context"
	"errors"
	"fmt"

	"outcry/internal/exchange"
)

// History calls f for every record after HistoryAfter up to the last applied one, in the journal's order, as the
// tables have it. An event has no time if its table has no time column. The event is valid until f returns. A
// *RowError names the first row that is wrong: a row without a record, a row that conflicts with its record, or a
// missing row. Other errors are f's or the database's.
func (a *Archive) History(ctx context.Context, f func(seq uint64, e *exchange.Event) error) error {
	after := a.state.historyAfter
	condition := "seq IS NOT NULL"
	if after == 0 { // then every row must have a record
		condition = "true"
	}
	return a.readRecords(ctx, after+1, condition, f)
}

// Records calls f as History does, but begins with record first.
func (a *Archive) Records(ctx context.Context, first uint64, f func(seq uint64, e *exchange.Event) error) error {
	return a.readRecords(ctx, first, fmt.Sprintf("seq >= %d", first), f)
}

// readRecords calls f for the records from first on. condition selects their rows by seq.
func (a *Archive) readRecords(
	ctx context.Context, first uint64, condition string, f func(seq uint64, e *exchange.Event) error,
) error {
	rows, err := openRecordRows(ctx, a.tx, condition)
	if err == nil {
		defer rows.close(ctx)
		r := &recordReader{rows: rows, next: first, last: a.state.Applied, newest: a.state.time,
			exactAfter: a.state.exactAfter, numberedAfter: a.state.numberedAfter, f: f, handedOut: &a.numbers}
		err = r.read(ctx)
	}
	if _, ok := errors.AsType[*RowError](err); err != nil && !ok {
		return fmt.Errorf("postgres: read records: %w", err)
	}
	return err
}

// recordReader assembles the journal's records from their rows.
type recordReader struct {
	rows       *recordRows
	next, last uint64 // the next record to read, and the last one
	newest     int64  // no record may have a later time
	exactAfter uint64 // later records have times in nanoseconds
	// numberedAfter is the last record from before schema 10: rows up to it have no ref, and no reason of a
	// cancel.
	numberedAfter uint64
	f             func(seq uint64, e *exchange.Event) error

	event     exchange.Event // record next-1, if pending
	pending   bool
	called    exchange.Ref         // ref in the row of the order or of the amend
	rest      exchange.WhyCanceled // why the order's rest was canceled, from cancel_log
	numbers   []numbers            // numbers of the event's fills
	handedOut *[]numbers           // the Archive's numbers, which f may read
}

// read reads all rows and calls f for each record.
func (r *recordReader) read(ctx context.Context) error {
	for {
		row, wrong, err := r.rows.next(ctx)
		switch {
		case err != nil:
			return err
		case row == nil:
			return r.end(ctx)
		}
		if err := r.accept(ctx, row, wrong); err != nil {
			return err
		}
	}
}

// end passes on the last event, and checks that no executions or records are left over or missing.
func (r *recordReader) end(ctx context.Context) error {
	x, err := r.rows.fills.head(ctx)
	if err != nil {
		return err
	}
	if x != nil {
		return executionError(x, "there is no order %d", x.order)
	}
	if err := r.emit(); err != nil {
		return err
	}
	if r.next <= r.last {
		return &RowError{"exchange_state", "applied_seq",
			fmt.Sprintf("it is %d, but no table has a row of record %d or of a later one", r.last, r.next)}
	}
	return nil
}

// accept begins the record of row. First it passes the pending event to f, since all of that event's rows have
// been read.
func (r *recordReader) accept(ctx context.Context, row *record, wrong error) error {
	switch {
	case row.lacksOrder():
		return row.error("there is no order %d", row.Order)
	case row.seq == 0:
		return row.error("it has no record")
	case row.seq < r.next:
		return row.error(sharedRecord, row.seq)
	case row.seq > r.last:
		return row.error("it is of record %d, but the tables include only those up to %d", row.seq, r.last)
	}
	if err := r.emit(); err != nil {
		return err
	}
	switch {
	case row.seq > r.next:
		return row.error("it is of record %d, but no row is of record %d", row.seq, r.next)
	case wrong != nil:
		return row.error("%v", wrong)
	case row.whole && r.exact():
		return row.error(noNanos)
	}
	return r.begin(ctx, row)
}

// exact reports whether the next record's rows have nanoseconds.
func (r *recordReader) exact() bool { return r.next > r.exactAfter }

// noNanos is the error for a row whose time is only in whole seconds.
const noNanos = "it has no nanos"

// sharedRecord is the error for a row whose record was already read.
const sharedRecord = "it is of record %d, which another row has too, or which is older than the history"

// lacksOrder reports whether the row refers to an order that does not exist.
func (r *record) lacksOrder() bool {
	switch r.Kind {
	case exchange.OrderContinued, exchange.OrderCanceled, exchange.OrdersCanceled, exchange.OrderReduced,
		exchange.OrderReplaced:
		return r.Account == ""
	case exchange.AccountOpened, exchange.SymbolMade, exchange.SharesDeposited, exchange.OrderAccepted,
		exchange.SymbolHalted, exchange.SymbolResumed, exchange.AccountRuled, exchange.SymbolRuled, exchange.SwitchSet:
	}
	return false
}

// emit passes the pending event to f.
func (r *recordReader) emit() error {
	if !r.pending {
		return nil
	}
	r.pending = false
	if r.event.Time > r.newest {
		return &RowError{"exchange_state", "time_ns",
			fmt.Sprintf("it is %d, but record %d has the time %d", r.newest, r.next-1, r.event.Time)}
	}
	err := r.event.Check()
	if err == nil && r.next-1 > r.numberedAfter {
		err = r.checkMore()
	}
	if err != nil {
		table, key := RecordRow(&r.event, r.next-1)
		return &RowError{table, key, err.Error()}
	}
	*r.handedOut = r.numbers
	return r.f(r.next-1, &r.event)
}

// checkMore compares values that several rows have for the pending event.
func (r *recordReader) checkMore() error {
	e := &r.event
	switch e.Kind {
	case exchange.OrderAccepted, exchange.OrderReduced, exchange.OrderReplaced:
		if r.called != e.Ref {
			return fmt.Errorf("its ref is %q, but that of its record is %q", r.called, e.Ref)
		}
	case exchange.OrderContinued, exchange.AccountOpened, exchange.SymbolMade, exchange.SharesDeposited,
		exchange.OrderCanceled, exchange.OrdersCanceled, exchange.SymbolHalted, exchange.SymbolResumed,
		exchange.AccountRuled, exchange.SymbolRuled, exchange.SwitchSet:
	}
	want := e.RestWhy()
	if e.Kind == exchange.OrderCanceled {
		want = exchange.CanceledByOwner
	}
	if r.rest != want {
		return fmt.Errorf("order %d is canceled for reason %d, in cancel_log %d", e.Order, want, r.rest)
	}
	return nil
}

// checkWhy compares a cancel's reason in cancel_log with the one that its record implies.
func (r *recordReader) checkWhy(c *record, want exchange.WhyCanceled) error {
	if c.why != want && c.seq > r.numberedAfter {
		return c.error("order %d is canceled for reason %d, of its record it is %d", c.Order, c.why, want)
	}
	return nil
}

// begin makes the row's record the pending event, and adds what other tables have for it.
func (r *recordReader) begin(ctx context.Context, row *record) error {
	fills := r.event.Fills[:0]
	r.event, r.pending, r.next = row.Event, true, row.seq+1
	r.called, r.rest, r.numbers = row.called, exchange.NotCanceled, r.numbers[:0]
	r.event.Fills = fills
	if err := r.addRef(ctx, row); err != nil {
		return err
	}
	switch row.Kind {
	case exchange.OrderAccepted:
		return r.beginOrder(ctx, row)
	case exchange.OrderContinued:
		if err := r.addFills(ctx, row, r.rows.partFills); err != nil {
			return err
		}
		return r.addOwn(ctx, row)
	case exchange.OrdersCanceled:
		r.event = exchange.Event{Kind: row.Kind, Time: row.Time, Account: row.Account, Cause: row.Cause, Fills: fills}
		return r.addCancels(ctx, row)
	case exchange.OrderReplaced:
		return row.error("there is no order %d of its record", row.Order)
	case exchange.SymbolMade:
		rules, err := attached(ctx, r.rows.rules, row.seq)
		if rules != nil {
			r.event.SymbolRules = rules.SymbolRules
		}
		return err
	case exchange.OrderCanceled:
		r.rest = row.why
	case exchange.AccountOpened, exchange.SharesDeposited, exchange.SymbolHalted, exchange.SymbolResumed,
		exchange.OrderReduced, exchange.AccountRuled, exchange.SymbolRuled, exchange.SwitchSet:
	}
	return nil
}

// addRef sets the pending event's ref. It skips refs whose record does not exist; Archive.CheckRefs reports
// those.
func (r *recordReader) addRef(ctx context.Context, row *record) error {
	for {
		ref, err := r.rows.refs.head(ctx)
		switch {
		case err != nil:
			return err
		case ref == nil || ref.seq > row.seq:
			return nil
		case ref.seq == row.seq && r.event.Ref != "":
			return row.error(sharedRecord, row.seq)
		case ref.seq == row.seq:
			r.event.Ref = ref.Ref
		}
		r.rows.refs.consume()
	}
}

// addFills adds to the pending event the executions of its order, or of a part of it.
func (r *recordReader) addFills(ctx context.Context, row *record, from *source[fill]) error {
	for {
		x, err := from.head(ctx)
		switch {
		case err != nil:
			return err
		case x == nil || x.seq != row.seq || x.order != row.Order:
			return nil
		}
		from.consume()
		if err := r.addFill(x); err != nil {
			return err
		}
	}
}

// addFill adds an execution to the pending event.
func (r *recordReader) addFill(x *fill) error {
	e := &r.event
	switch want := e.Before + len(e.Fills) + 1; {
	case x.n != want:
		return executionError(x, "the order's execution %d is missing, or this one is duplicated", want)
	case x.owner == "":
		return executionError(x, "there is no resting order %d", x.resting)
	case x.symbol != e.Symbol:
		return executionError(x, "sym is %s, the order's is %s", x.symbol, e.Symbol)
	case x.buys != (e.Side == exchange.Buy):
		return executionError(x, "buys is %t, the order %ss", x.buys, e.Side)
	case x.Time != e.Time:
		return executionError(x, "time is %s, the order's is %s", TimeText(x.Time), TimeText(e.Time))
	case x.whole && r.next-1 > r.exactAfter:
		return executionError(x, noNanos)
	}
	r.numbers = append(r.numbers, x.numbers)
	e.Fills = append(e.Fills, exchange.Fill{Resting: x.resting, Account: x.owner, Shares: x.Shares, Price: x.Price})
	return nil
}

// addCancels adds to the pending event the cancels of all its rows; row is the first one.
func (r *recordReader) addCancels(ctx context.Context, row *record) error {
	for {
		if row.n > 0 { // 0 marks the row with the cause
			if err := r.addCancel(row); err != nil {
				return err
			}
		}
		next, err := r.rows.cancels.head(ctx)
		if err != nil || next == nil || next.seq != row.seq || next.Kind != row.Kind {
			return err
		}
		if row = next; row.lacksOrder() {
			return row.error("there is no order %d", row.Order)
		}
		r.rows.cancels.consume()
	}
}

// addCancel adds a cancel to the pending event.
func (r *recordReader) addCancel(row *record) error {
	e := &r.event
	switch want := len(e.Cancels) + 1; {
	case int(row.n) != want:
		return row.error("its cancel %d is missing, or another one is duplicated", want)
	case row.Account != e.Account:
		return row.error("order %d is of account %s, the others are of account %s", row.Order, row.Account, e.Account)
	case row.Time != e.Time:
		return row.error("order %d is canceled at %s, the others at %s", row.Order, TimeText(row.Time), TimeText(e.Time))
	case row.whole && r.next-1 > r.exactAfter:
		return row.error(noNanos)
	}
	e.Cancels = append(e.Cancels, exchange.Cancel{
		Order: row.Order, Symbol: row.Symbol, Terms: row.Terms, Shares: row.Shares})
	return r.checkWhy(row, e.Cause.Why())
}

// error returns a *RowError for the row.
func (r *record) error(format string, args ...any) error {
	table, key := RecordRow(&r.Event, r.seq)
	return &RowError{table, key, fmt.Sprintf(format, args...)}
}

// executionError returns a *RowError for the row of an execution.
func executionError(x *fill, format string, args ...any) error {
	return &RowError{"execution_log", fmt.Sprintf("order_id %d, n %d", x.order, x.n), fmt.Sprintf(format, args...)}
}

// TimeText formats a time, in nanoseconds since the Unix epoch, as seconds with all their digits.
func TimeText(at int64) string {
	if nanos := nanosOf(at); nanos != 0 {
		return fmt.Sprintf("%d.%09d", exchange.Seconds(at), nanos)
	}
	return fmt.Sprint(exchange.Seconds(at))
}

// RecordRow returns the table and the key of the row that a record makes.
func RecordRow(e *exchange.Event, seq uint64) (table, key string) {
	switch e.Kind {
	case exchange.AccountOpened:
		return "accounts", "id " + string(e.Account)
	case exchange.SymbolMade:
		return "symbols", "sym " + string(e.Symbol)
	case exchange.SharesDeposited:
		return "placement_log", fmt.Sprintf("seq %d", seq)
	case exchange.OrderAccepted, exchange.OrderReplaced:
		return "order_log", fmt.Sprintf("id %d", e.Order)
	case exchange.OrderReduced:
		return "amend_log", fmt.Sprintf("seq %d", seq)
	case exchange.AccountRuled:
		return "account_log", fmt.Sprintf("seq %d", seq)
	case exchange.SymbolRuled:
		return "symbol_log", fmt.Sprintf("seq %d", seq)
	case exchange.SwitchSet:
		return "switch_log", fmt.Sprintf("seq %d", seq)
	case exchange.SymbolHalted, exchange.SymbolResumed:
		return "halt_log", fmt.Sprintf("seq %d", seq)
	case exchange.OrdersCanceled:
		if e.Cause != exchange.ByOperator {
			return "cause_log", fmt.Sprintf("seq %d", seq)
		}
		return "cancel_log", fmt.Sprintf("seq %d", seq)
	case exchange.OrderContinued:
		return "part_log", fmt.Sprintf("seq %d", seq)
	case exchange.OrderCanceled:
		return "cancel_log", fmt.Sprintf("order_id %d", e.Order)
	}
	panic(fmt.Sprintf("postgres: no table has rows of kind %s", e.Kind))
}
