package postgres

import (
	"cmp"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"outcry/internal/exchange"
)

// fill is an execution with its record and the account of the resting order, which is "" if there is no such
// order.
type fill struct {
	execution
	seq   uint64
	owner exchange.AccountID
}

// recordRows reads the rows of all tables that keep the journal's records. Each table has its own query, which
// is sorted by record.
type recordRows struct {
	records   []*source[record] // each row is a record, or one of its cancels
	cancels   *source[record]   // rows of cancels, which are also in records
	fills     *source[fill]     // executions of orders, without those of their further parts
	partFills *source[fill]
	refs      *source[record]

	amends, rules *source[record] // rows that are also in records; they may belong to a row of another table
	holds         *source[record]
}

// repeated has the order's columns that records of further parts and of cancels repeat.
var repeated = orderTerms("account", "sym")

// openRecordRows starts the queries, for rows whose seq satisfies condition.
func openRecordRows(ctx context.Context, tx pgx.Tx, condition string) (*recordRows, error) {
	where := func(seq string) string { return " WHERE " + strings.ReplaceAll(condition, "seq", seq) }
	bySeq := func(t *table[record]) string { return t.query(where("seq") + ` ORDER BY seq`) }
	// All rows of the cursors will be read, so the planner must optimize for the total.
	_, err := tx.Exec(ctx, `SET LOCAL cursor_tuple_fraction = 1`)
	opener := opener{ctx, tx, err}
	all := &recordRows{
		cancels: openRecords(&opener, exchange.OrderCanceled, `SELECT `+repeated.list("o")+`, `+cancelLog.list("c")+`
			FROM outcry.cancel_log c LEFT JOIN outcry.order_log o ON o.id = c.order_id`+where("c.seq")+`
			ORDER BY c.seq, c.n NULLS FIRST, c.order_id`, repeated, cancelLog),
		fills: openFills(&opener, "fills", `SELECT o.seq, r.account, `+executionLog.list("x")+`
			FROM outcry.execution_log x
			LEFT JOIN (SELECT order_id, min(first_n) AS first_n FROM outcry.part_log GROUP BY order_id) p
				ON p.order_id = x.order_id
			LEFT JOIN outcry.order_log o ON o.id = x.order_id
			LEFT JOIN outcry.order_log r ON r.id = x.resting_id`+where("o.seq")+` AND (p.first_n IS NULL OR x.n < p.first_n)
			ORDER BY o.seq, x.order_id, x.n`),
		// The OFFSET makes the planner read each part's executions by key, no matter how many an order has.
		partFills: openFills(&opener, "part_fills", `SELECT p.seq, r.account, `+executionLog.list("x")+`
			FROM outcry.part_log p
			CROSS JOIN LATERAL (SELECT * FROM outcry.execution_log x
				WHERE x.order_id = p.order_id AND x.n BETWEEN p.first_n AND p.last_n OFFSET 0) x
			LEFT JOIN outcry.order_log r ON r.id = x.resting_id`+where("p.seq")+`
			ORDER BY p.seq, x.n`),
		refs: openRecords(&opener, 0, bySeq(refTable), refTable),
		amends: openRecords(&opener, exchange.OrderReduced, `SELECT `+repeated.list("o")+`, `+amendLog.list("m")+`
			FROM outcry.amend_log m LEFT JOIN outcry.order_log o ON o.id = m.order_id`+where("m.seq")+`
			ORDER BY m.seq`, repeated, amendLog),
		rules: openRecords(&opener, exchange.SymbolRuled, bySeq(symbolLog), symbolLog),
		holds: openRecords(&opener, 0, bySeq(holdLog), holdLog),
	}
	all.records = []*source[record]{
		openAccounts(&opener, where("seq")),
		openSymbols(&opener, where("seq")),
		openRecords(&opener, exchange.SharesDeposited, bySeq(placementLog), placementLog),
		openRecords(&opener, exchange.OrderAccepted, orderLog.query(where("seq")+` ORDER BY seq, id`), orderLog),
		openRecords(&opener, exchange.OrderContinued, `SELECT `+repeated.list("o")+`, `+partLog.list("p")+`
			FROM outcry.part_log p LEFT JOIN outcry.order_log o ON o.id = p.order_id`+where("p.seq")+`
			ORDER BY p.seq`, repeated, partLog),
		openRecords(&opener, 0, bySeq(haltLog), haltLog), // the rows have the kind of record
		openRecords(&opener, exchange.OrdersCanceled, bySeq(causeLog), causeLog),
		openRecords(&opener, exchange.AccountRuled, bySeq(accountLog), accountLog),
		openRecords(&opener, exchange.SwitchSet, bySeq(switchLog), switchLog),
		all.cancels, all.amends, all.rules,
	}
	return all, opener.err
}

// opener starts queries until one of them fails.
type opener struct {
	ctx context.Context
	tx  pgx.Tx
	err error
}

// open starts the query of a source.
func open[E any](o *opener, s *source[E], sql string) *source[E] {
	s.tx = o.tx
	if o.err == nil {
		o.err = s.open(o.ctx, sql)
	}
	return s
}

// openRecords starts a query that selects the columns of several tables. If two tables set the same field, the later
// one wins.
func openRecords(o *opener, kind exchange.EventKind, sql string, tables ...*table[record]) *source[record] {
	row := new(record)
	s := &source[record]{made: func() record {
		if kind != 0 {
			row.Kind = kind
		}
		if row.n > 0 {
			row.Kind = exchange.OrdersCanceled
		}
		if row.Amend != nil && row.Amend.Old.Order != 0 {
			row.Kind = exchange.OrderReplaced
		}
		one := *row
		one.unshare()
		return one
	}}
	for _, t := range tables {
		s.cursor = t.name + "_rows"
		s.into = append(s.into, t.into(row)...)
	}
	return open(o, s, sql)
}

func openAccounts(o *opener, where string) *source[record] {
	opened := accountTable.pick("id", "seq", "opened")
	var a accountRow
	return open(o, &source[record]{cursor: "account_rows", into: opened.into(&a), made: func() record {
		return record{Event: exchange.Event{Kind: exchange.AccountOpened, Account: a.ID, Balance: a.Opened}, seq: a.seq}
	}}, opened.query(where+` ORDER BY seq, id`))
}

func openSymbols(o *opener, where string) *source[record] {
	made := symbolTable.pick("sym", "seq")
	var s symbolRow
	return open(o, &source[record]{cursor: "symbol_rows", into: made.into(&s), made: func() record {
		return record{Event: exchange.Event{Kind: exchange.SymbolMade, Symbol: s.Symbol}, seq: s.seq}
	}}, made.query(where+` ORDER BY seq, sym`))
}

func openFills(o *opener, cursor, sql string) *source[fill] {
	var f fill
	into := append([]any{
		intScan(func(v pgtype.Int8) { f.seq = uint64(v.Int64) }),
		textScan(func(v pgtype.Text) { f.owner = exchange.AccountID(v.String) }),
	}, executionLog.into(&f.execution)...)
	return open(o, &source[fill]{cursor: cursor, into: into, made: func() fill { return f }}, sql)
}

// close ends the queries.
func (t *recordRows) close(ctx context.Context) {
	for _, s := range t.records {
		s.close(ctx)
	}
	t.fills.close(ctx)
	t.partFills.close(ctx)
	t.refs.close(ctx)
	t.holds.close(ctx)
}

// next returns the row of the next record, from the table that has it, or nil at the end. wrong is an error in a value
// of that row.
func (t *recordRows) next(ctx context.Context) (next *record, wrong, err error) {
	var from *source[record]
	for _, s := range t.records {
		head, err := s.head(ctx)
		if err != nil {
			return nil, nil, err
		}
		if head != nil && (next == nil || head.compare(next) < 0) {
			next, from = head, s
		}
	}
	if next == nil {
		return nil, nil, nil
	}
	wrong = from.fault()
	from.consume()
	return next, wrong, nil
}

// compare orders rows by record, with rows without a record last. Among rows of the same record, the order
// decides which row an error names.
func (r *record) compare(s *record) int {
	return cmp.Or(cmp.Compare(r.seq-1, s.seq-1), cmp.Compare(r.place(), s.place()), cmp.Compare(r.Order, s.Order),
		cmp.Compare(r.n, s.n))
}

// place returns the rank of a row among the rows of its record. Cancels have the highest rank, because a
// cancel may be part of an order's record.
func (r *record) place() int {
	place := int(r.Kind)
	if r.Kind == exchange.OrderCanceled || r.Kind == exchange.OrdersCanceled {
		place += 1 << 8
	}
	return place
}

// attached returns and consumes the source's next row if it belongs to record seq or an earlier one; otherwise
// it returns nil.
func attached(ctx context.Context, from *source[record], seq uint64) (*record, error) {
	row, err := from.head(ctx)
	if err != nil || row == nil || row.seq > seq {
		return nil, err
	}
	if wrong := from.fault(); wrong != nil {
		return nil, row.error("%v", wrong)
	}
	from.consume()
	return row, nil
}
