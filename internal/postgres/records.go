package postgres

import (
	"context"
	"errors"
	"fmt"

	"outcry/internal/exchange"
)

// History calls f for every record from the one after HistoryAfter to the last
// applied one, in the journal's order, as the tables have it: an event without
// the time if its table keeps none. The event is valid until f returns. A
// *RowError names the first row that does not fit: one without a record or with
// another's, or a record without a row. Other errors are f's or the database's.
func (a *Archive) History(ctx context.Context, f func(seq uint64, e *exchange.Event) error) error {
	after := a.state.historyAfter
	condition := "seq IS NOT NULL"
	if after == 0 { // then a row without a record is wrong
		condition = "true"
	}
	return a.readRecords(ctx, after+1, condition, f)
}

// Records is History from record first on.
func (a *Archive) Records(ctx context.Context, first uint64, f func(seq uint64, e *exchange.Event) error) error {
	return a.readRecords(ctx, first, fmt.Sprintf("seq >= %d", first), f)
}

// readRecords calls f for the records from the first one on, by the rows for whose seq a
// condition holds.
func (a *Archive) readRecords(
	ctx context.Context, first uint64, condition string, f func(seq uint64, e *exchange.Event) error,
) error {
	rows, err := openRecordRows(ctx, a.tx, condition)
	if err == nil {
		defer rows.close(ctx)
		r := &recordReader{rows: rows, next: first, last: a.state.Applied, newest: a.state.time,
			exactAfter: a.state.exactAfter, numberedAfter: a.state.numberedAfter, f: f, told: &a.numbers}
		err = r.read(ctx)
	}
	if _, ok := errors.AsType[*RowError](err); err != nil && !ok {
		return fmt.Errorf("postgres: read records: %w", err)
	}
	return err
}

// recordReader puts the journal's records together from their rows.
type recordReader struct {
	rows       *recordRows
	next, last uint64 // the record that comes next, and the last one
	newest     int64  // no record has a later time
	exactAfter uint64 // rows of later records have times in nanoseconds
	// numberedAfter is the last record whose rows have no reason of a cancel, and no ref.
	numberedAfter uint64
	f             func(seq uint64, e *exchange.Event) error

	event   exchange.Event // of record next-1, if pending
	pending bool
	called  exchange.Ref         // what the row of the order, or of the amend, says of it
	rest    exchange.WhyCanceled // likewise why the order, or its rest, was canceled
	numbers []numbers            // of its fills
	told    *[]numbers           // where f finds them
}

// read reads all rows.
func (r *recordReader) read(ctx context.Context) error {
	for {
		row, wrong, err := r.rows.next(ctx)
		switch {
		case err != nil:
			return err
		case row == nil:
			return r.end(ctx)
		}
		if err := r.take(ctx, row, wrong); err != nil {
			return err
		}
	}
}

// end finds what is left of executions, and of records, when there are no more rows.
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
			fmt.Sprintf("it is %d, and no table has a row of record %d or of a later one", r.last, r.next)}
	}
	return nil
}

// take takes in the row of the next record. It hands out the one before, of which there
// can be no further row then.
func (r *recordReader) take(ctx context.Context, row *record, wrong error) error {
	switch {
	case row.lacksOrder():
		return row.error("there is no order %d", row.Order)
	case row.seq == 0:
		return row.error("it has no record")
	case row.seq < r.next:
		return row.error(sharedRecord, row.seq)
	case row.seq > r.last:
		return row.error("it is of record %d, and the tables include only those up to %d", row.seq, r.last)
	}
	if err := r.emit(); err != nil {
		return err
	}
	switch {
	case row.seq > r.next:
		return row.error("it is of record %d, and no row is of record %d", row.seq, r.next)
	case wrong != nil:
		return row.error("%v", wrong)
	case row.whole && r.exact():
		return row.error(noNanos)
	}
	return r.begin(ctx, row)
}

// exact reports whether the rows of the record that comes next have nanoseconds.
func (r *recordReader) exact() bool { return r.next > r.exactAfter }

// noNanos is what is wrong with a row whose time is in whole seconds.
const noNanos = "it has no nanos"

// sharedRecord is what is wrong with a row whose record has come already.
const sharedRecord = "it is of record %d, which another row is of too, or which is older than the history"

// lacksOrder reports whether the row is of an order, and there is none of its id.
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

// emit hands out the pending event.
func (r *recordReader) emit() error {
	if !r.pending {
		return nil
	}
	r.pending = false
	if r.event.Time > r.newest {
		return &RowError{"exchange_state", "time_ns",
			fmt.Sprintf("it is %d, and record %d has the time %d", r.newest, r.next-1, r.event.Time)}
	}
	err := r.event.Check()
	if err == nil && r.next-1 > r.numberedAfter {
		err = r.checkMore()
	}
	if err != nil {
		table, key := RecordRow(&r.event, r.next-1)
		return &RowError{table, key, err.Error()}
	}
	*r.told = r.numbers
	return r.f(r.next-1, &r.event)
}

// checkMore compares what else the rows say of the pending event.
func (r *recordReader) checkMore() error {
	e := &r.event
	switch e.Kind {
	case exchange.OrderAccepted, exchange.OrderReduced, exchange.OrderReplaced:
		if r.called != e.Ref {
			return fmt.Errorf("its ref is %q, and that of its record %q", r.called, e.Ref)
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

// checkWhy compares the reason of a cancel.
func (r *recordReader) checkWhy(c *record, want exchange.WhyCanceled) error {
	if c.why != want && c.seq > r.numberedAfter {
		return c.error("order %d is canceled for reason %d, of its record it is %d", c.Order, c.why, want)
	}
	return nil
}

// begin makes the row's record the pending one, with what other rows have of it.
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

// addRef gives the pending event its ref. Refs of no record are none of the reader's:
// Archive.CheckRefs names them.
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
		r.rows.refs.take()
	}
}

// addFills gives the pending event the executions of its order, or of a part of it.
func (r *recordReader) addFills(ctx context.Context, row *record, from *source[fill]) error {
	for {
		x, err := from.head(ctx)
		switch {
		case err != nil:
			return err
		case x == nil || x.seq != row.seq || x.order != row.Order:
			return nil
		}
		from.take()
		if err := r.addFill(x); err != nil {
			return err
		}
	}
}

// addFill adds an execution.
func (r *recordReader) addFill(x *fill) error {
	e := &r.event
	switch want := e.Before + len(e.Fills) + 1; {
	case x.n != want:
		return executionError(x, "the order's execution %d is missing, or this one is there twice", want)
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

// addCancels gives the pending event the cancels of all its rows, of which row is the
// first one.
func (r *recordReader) addCancels(ctx context.Context, row *record) error {
	for {
		if row.n > 0 { // else it is the row of the cause
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
		r.rows.cancels.take()
	}
}

// addCancel adds the cancel of a row.
func (r *recordReader) addCancel(row *record) error {
	e := &r.event
	switch want := len(e.Cancels) + 1; {
	case int(row.n) != want:
		return row.error("its cancel %d is missing, or another one is there twice", want)
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

// error names the row.
func (r *record) error(format string, args ...any) error {
	table, key := RecordRow(&r.Event, r.seq)
	return &RowError{table, key, fmt.Sprintf(format, args...)}
}

// executionError names the row of an execution.
func executionError(x *fill, format string, args ...any) error {
	return &RowError{"execution_log", fmt.Sprintf("order_id %d, n %d", x.order, x.n), fmt.Sprintf(format, args...)}
}

// TimeText shows a time, in nanoseconds since the Unix epoch, as tables have it: in seconds, with all their digits.
func TimeText(at int64) string {
	if nanos := nanosOf(at); nanos != 0 {
		return fmt.Sprintf("%d.%09d", exchange.Seconds(at), nanos)
	}
	return fmt.Sprint(exchange.Seconds(at))
}

// RecordRow names the table and the key of the row that a record makes.
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
