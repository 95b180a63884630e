package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"outcry/internal/exchange"
)

// records is every journal record as the tables have it, in the journal's order:
// a row for each, a row for each execution of an order, and one for each order that
// is canceled with others. The numbers of the kinds are those of exchange.EventKind.
const records = `
	SELECT coalesce(seq, 0), kind, coalesce(id, 0), coalesce(account, ''), coalesce(sym, ''), coalesce(quantity, 0),
	       coalesce(amount, 0), coalesce(limit_price, 0), coalesce(time, 0), coalesce(n, 0), coalesce(resting_id, 0), coalesce(owner, ''),
	       coalesce(shares, 0), coalesce(price, 0), coalesce(fill_sym, ''), coalesce(buys, false), coalesce(fill_time, 0),
	       coalesce(reason, ''), coalesce(ref, ''), coalesce(open, 0)
	  FROM (SELECT seq, 1 AS kind, NULL::bigint AS id, id AS account, NULL::text AS sym, opened AS quantity,
	               NULL::bigint AS amount, NULL::bigint AS limit_price, NULL::bigint AS time,
	               NULL::int AS n, NULL::bigint AS resting_id, NULL::text AS owner, NULL::bigint AS shares,
	               NULL::bigint AS price, NULL::text AS fill_sym, NULL::bool AS buys, NULL::bigint AS fill_time,
	               NULL::text AS reason, NULL::bigint AS open
	          FROM accounts
	        UNION ALL
	        SELECT seq, 2, NULL, NULL, sym, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
	          FROM symbols
	        UNION ALL
	        SELECT seq, 3, NULL, account, sym, shares, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
	          FROM placement_log
	        UNION ALL
	        SELECT o.seq, 4, coalesce(o.id, e.order_id), o.account, o.sym, NULL, o.amount, o.limit_price, o.time,
	               e.n, e.resting_id, r.account, e.shares, e.price, e.sym, e.buys, e.time, NULL, NULL
	          FROM order_log o
	          FULL JOIN (SELECT x.*
	                       FROM execution_log x
	                       LEFT JOIN (SELECT order_id, min(first_n) AS first_n FROM part_log GROUP BY order_id) p USING (order_id)
	                      WHERE p.first_n IS NULL OR x.n < p.first_n) e ON e.order_id = o.id
	          LEFT JOIN order_log r ON r.id = e.resting_id
	        UNION ALL
	        SELECT p.seq, 9, p.order_id, o.account, o.sym, NULL, o.amount, o.limit_price, p.time,
	               e.n, e.resting_id, r.account, e.shares, e.price, e.sym, e.buys, e.time, NULL, p.open
	          FROM part_log p
	          LEFT JOIN order_log o ON o.id = p.order_id
	          LEFT JOIN LATERAL (SELECT * FROM execution_log x
	                              WHERE x.order_id = p.order_id AND x.n BETWEEN p.first_n AND p.last_n OFFSET 0) e ON true
	          LEFT JOIN order_log r ON r.id = e.resting_id
	        UNION ALL
	        SELECT c.seq, 5, c.order_id, o.account, o.sym, NULL, o.amount, o.limit_price, c.time,
	               NULL, NULL, NULL, c.shares, NULL, NULL, NULL, NULL, NULL, NULL
	          FROM cancel_log c
	          LEFT JOIN order_log o ON o.id = c.order_id
	         WHERE c.n IS NULL
	        UNION ALL
	        SELECT c.seq, 8, NULL, o.account, o.sym, NULL, o.amount, o.limit_price, c.time,
	               c.n, c.order_id, NULL, c.shares, NULL, NULL, NULL, NULL, NULL, NULL
	          FROM cancel_log c
	          LEFT JOIN order_log o ON o.id = c.order_id
	         WHERE c.n IS NOT NULL
	        UNION ALL
	        SELECT seq, CASE WHEN halted THEN 6 ELSE 7 END, NULL, NULL, sym, NULL, NULL, NULL, time,
	               NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, reason, NULL
	          FROM halt_log) AS record
	  LEFT JOIN (SELECT seq, ref FROM refs) AS used USING (seq)
	 WHERE %s
	 ORDER BY seq, kind, id, n`

// History calls f for every record from the one after HistoryAfter to the last
// applied one, in the journal's order, as the tables have it: an event without
// the time where its table keeps none. The event is valid until f returns. A
// *RowError names the first row that does not fit: one without a record or with
// another's, or a record without a row. Other errors are f's or the database's.
func (a *Archive) History(ctx context.Context, f func(seq uint64, e *exchange.Event) error) error {
	r := recordReader{next: a.after + 1, last: a.position.Applied, f: f}
	return r.read(ctx, a.tx, `seq IS NOT NULL OR $1 = 0`, a.after)
}

// Records is History from record first on.
func (a *Archive) Records(ctx context.Context, first uint64, f func(seq uint64, e *exchange.Event) error) error {
	r := recordReader{next: first, last: a.position.Applied, f: f}
	return r.read(ctx, a.tx, `seq >= $1`, first)
}

// recordRow is a row of records. What its kind does not have is zero.
type recordRow struct {
	seq                 uint64
	kind                exchange.EventKind
	id                  int64
	account, symbol     string
	quantity            pgtype.Numeric
	amount, limit, time int64

	n             int32  // 0 where there is no execution, and no cancel of many
	resting       int64  // or the order that is canceled with others
	owner         string // of the resting order
	shares, price int64  // of the execution, or of a cancel
	fillSymbol    string
	buys          bool
	fillTime      int64
	ref           string
	reason        string
	open          int64 // of an order, before a further part of it
}

// recordReader puts events together from rows.
type recordReader struct {
	next, last uint64 // the record that comes next, and the last one
	f          func(seq uint64, e *exchange.Event) error

	row     recordRow
	event   exchange.Event // of record next-1, where pending
	pending bool
}

// read reads the records for which a condition holds.
func (r *recordReader) read(ctx context.Context, tx pgx.Tx, condition string, argument uint64) error {
	rows, err := tx.Query(ctx, fmt.Sprintf(records, condition), int64(argument))
	if err != nil {
		return fmt.Errorf("postgres: read records: %w", err)
	}
	w := &r.row
	_, err = pgx.ForEachRow(rows, []any{&w.seq, (*uint8)(&w.kind), &w.id, &w.account, &w.symbol, &w.quantity, &w.amount, &w.limit, &w.time,
		&w.n, &w.resting, &w.owner, &w.shares, &w.price, &w.fillSymbol, &w.buys, &w.fillTime, &w.reason, &w.ref, &w.open}, r.take)
	if err == nil {
		err = r.emit()
	}
	var wrong *RowError
	switch {
	case err != nil && !errors.As(err, &wrong):
		return fmt.Errorf("postgres: read records: %w", err)
	case err == nil && r.next <= r.last:
		return &RowError{"exchange_state", "applied_seq", fmt.Sprintf("it is %d, and no table has a row of record %d or of a later one", r.last, r.next)}
	}
	return err
}

// take takes in a row: an execution of the pending order, or the next record.
func (r *recordReader) take() error {
	w := &r.row
	w.time, w.fillTime = w.time*exchange.Second, w.fillTime*exchange.Second
	switch {
	case w.kind == exchange.OrderContinued && w.account == "":
		return r.rowError("there is no order %d", w.id)
	case w.kind == exchange.OrderAccepted && w.account == "":
		return r.executionError("there is no order %d", w.id)
	case w.kind == exchange.OrderCanceled && w.account == "":
		return r.rowError("there is no order %d", w.id)
	case w.kind == exchange.OrdersCanceled && w.account == "":
		return r.rowError("there is no order %d", w.resting)
	case w.seq == 0:
		return r.rowError("it has no record")
	case r.pending && w.seq == r.next-1 && (w.kind == exchange.OrderAccepted || w.kind == exchange.OrderContinued) && r.event.Kind == w.kind &&
		w.id == int64(r.event.Order) && w.n > 0:
		return r.addFill()
	case r.pending && w.seq == r.next-1 && w.kind == exchange.OrdersCanceled && r.event.Kind == w.kind:
		return r.addCancel()
	case w.seq < r.next:
		return r.rowError("it is of record %d, which another row is of too, or which is older than the history", w.seq)
	case w.seq > r.last:
		return r.rowError("it is of record %d, and the tables include only those up to %d", w.seq, r.last)
	}
	if err := r.emit(); err != nil {
		return err
	}
	if w.seq > r.next {
		return r.rowError("it is of record %d, and no row is of record %d", w.seq, r.next)
	}
	return r.begin()
}

// emit hands out the pending event.
func (r *recordReader) emit() error {
	if !r.pending {
		return nil
	}
	r.pending = false
	if err := r.event.Check(); err != nil {
		table, key := RecordRow(&r.event, r.next-1)
		return &RowError{table, key, err.Error()}
	}
	return r.f(r.next-1, &r.event)
}

// begin makes the row's record the pending one.
func (r *recordReader) begin() (err error) {
	w, e := &r.row, &r.event
	*e = exchange.Event{Kind: w.kind, Time: w.time, Account: exchange.AccountID(w.account), Symbol: exchange.Symbol(w.symbol), Ref: exchange.Ref(w.ref), Fills: e.Fills[:0]}
	switch w.kind {
	case exchange.SymbolHalted:
		e.Reason = w.reason
	case exchange.AccountOpened:
		err = (*cashColumn)(&e.Balance).ScanNumeric(w.quantity)
	case exchange.SharesDeposited:
		err = (*sharesColumn)(&e.Deposited).ScanNumeric(w.quantity)
	case exchange.OrderAccepted:
		r.beginOrder()
	case exchange.OrderCanceled:
		r.beginOrder()
		e.Shares = exchange.Shares(w.shares)
	case exchange.OrderContinued:
		r.beginOrder()
		e.Shares, e.Before = exchange.Shares(w.open), int(w.n)-1
	case exchange.SymbolMade, exchange.SymbolResumed, exchange.OrdersCanceled:
	default:
		return r.rowError("it is of unknown kind %s", w.kind)
	}
	if err != nil {
		return r.rowError("%v", err)
	}
	r.pending, r.next = true, w.seq+1
	if w.kind == exchange.OrdersCanceled {
		e.Symbol = ""
		return r.addCancel()
	}
	if w.n > 0 {
		return r.addFill()
	}
	return nil
}

// beginOrder takes what the row says of its order.
func (r *recordReader) beginOrder() {
	w, e := &r.row, &r.event
	e.Order, e.Limit = exchange.OrderID(w.id), exchange.Price(w.limit)
	e.Side, e.Shares = sideOf(w.amount)
}

// addFill adds the row's execution to the pending order.
func (r *recordReader) addFill() error {
	w, e := &r.row, &r.event
	switch want := e.Before + len(e.Fills) + 1; {
	case int(w.n) != want:
		return r.executionError("the order's execution %d is missing, or this one is there twice", want)
	case w.owner == "":
		return r.executionError("there is no resting order %d", w.resting)
	case w.fillSymbol != string(e.Symbol):
		return r.executionError("sym is %s, the order's is %s", w.fillSymbol, e.Symbol)
	case w.buys != (e.Side == exchange.Buy):
		return r.executionError("buys is %t, the order %ss", w.buys, e.Side)
	case w.fillTime != e.Time:
		return r.executionError("time is %d, the order's is %d", exchange.Seconds(w.fillTime), exchange.Seconds(e.Time))
	}
	e.Fills = append(e.Fills, exchange.Fill{Resting: exchange.OrderID(w.resting), Account: exchange.AccountID(w.owner),
		Shares: exchange.Shares(w.shares), Price: exchange.Price(w.price)})
	return nil
}

// addCancel adds the row's cancel to the pending ones of an account.
func (r *recordReader) addCancel() error {
	w, e := &r.row, &r.event
	switch want := len(e.Cancels) + 1; {
	case int(w.n) != want:
		return r.rowError("its cancel %d is missing, or another one is there twice", want)
	case w.account != string(e.Account):
		return r.rowError("order %d is of account %s, the others are of account %s", w.resting, w.account, e.Account)
	case w.time != e.Time:
		return r.rowError("order %d is canceled at %d, the others at %d", w.resting, exchange.Seconds(w.time), exchange.Seconds(e.Time))
	}
	side, _ := sideOf(w.amount)
	e.Cancels = append(e.Cancels, exchange.Cancel{Order: exchange.OrderID(w.resting), Symbol: exchange.Symbol(w.symbol),
		Side: side, Shares: exchange.Shares(w.shares), Limit: exchange.Price(w.limit)})
	return nil
}

// rowError names the row's record.
func (r *recordReader) rowError(format string, args ...any) error {
	w := &r.row
	table, key := RecordRow(&exchange.Event{Kind: w.kind, Account: exchange.AccountID(w.account), Symbol: exchange.Symbol(w.symbol), Order: exchange.OrderID(w.id)}, w.seq)
	return &RowError{table, key, fmt.Sprintf(format, args...)}
}

// executionError names the row's execution.
func (r *recordReader) executionError(format string, args ...any) error {
	return &RowError{"execution_log", fmt.Sprintf("order_id %d, n %d", r.row.id, r.row.n), fmt.Sprintf(format, args...)}
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
	case exchange.OrderAccepted:
		return "order_log", fmt.Sprintf("id %d", e.Order)
	case exchange.SymbolHalted, exchange.SymbolResumed:
		return "halt_log", fmt.Sprintf("seq %d", seq)
	case exchange.OrdersCanceled:
		return "cancel_log", fmt.Sprintf("seq %d", seq)
	case exchange.OrderContinued:
		return "part_log", fmt.Sprintf("seq %d", seq)
	case exchange.OrderCanceled:
		return "cancel_log", fmt.Sprintf("order_id %d", e.Order)
	}
	panic(fmt.Sprintf("postgres: no table has rows of kind %s", e.Kind))
}
