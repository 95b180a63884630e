package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"outcry/internal/exchange"
)

// asOf selects the moment at which orders are shown. Each field is an SQL condition on rows related to order
// o; $2 is a record.
type asOf struct {
	taken  string // condition on an execution x in which o was the resting order
	amend  string // condition on an amend m of o that did not replace it
	cancel string // condition on the cancel c of o
	next   string // condition on the amend that replaced o
}

var (
	asNow = asOf{"true", "true", "true", "true"}
	// ownRecords shows the order right after its own records. Its further parts are no amends, and all
	// executions that it had as taker are in these records.
	ownRecords = asOf{"false", "m.seq = o.seq", "(" + inOwnRecord + ")", "false"}
	oneRecord  = asOf{"(SELECT t.seq FROM outcry.order_log t WHERE t.id = x.order_id) <= $2", "m.seq <= $2", "c.seq <= $2",
		"seq <= $2"}
)

// inOwnRecord is true if cancel c was in a record of its order o.
const inOwnRecord = `c.seq = o.seq OR EXISTS (SELECT FROM outcry.part_log p WHERE p.seq = c.seq AND p.order_id = o.id)`

// asOfMoment returns the conditions of a moment.
func asOfMoment(at exchange.Moment) asOf {
	switch {
	case at.Own:
		return ownRecords
	case at.Seq != 0:
		return oneRecord
	}
	return asNow
}

// details returns a statement that selects the orders in the array $1, sorted by id.
func (m asOf) details() string {
	return `SELECT ` + orderLog.list("o") + `, coalesce(b.old_id, 0), coalesce(b.executed, 0),
	       coalesce(d.reduced, 0), coalesce(d.at, 0), coalesce(d.ref, ''),
	       coalesce(c.shares, 0), coalesce(c.time * 1000000000 + coalesce(c.nanos, 0), 0),
	       coalesce(c.why, CASE WHEN (` + inOwnRecord + `) IS NOT TRUE THEN 6
	                        WHEN o.instructions & 3 = 0 THEN 2 ELSE 1 END),
	       coalesce((SELECT order_id FROM outcry.amend_log WHERE first_id = coalesce(b.first_id, o.id) AND order_id > o.id
	                    AND ` + m.next + ` ORDER BY order_id LIMIT 1), 0),
	       e.executed, e.notional, e.at
	  FROM outcry.order_log o
	  LEFT JOIN outcry.cancel_log c ON c.order_id = o.id AND ` + m.cancel + `
	  LEFT JOIN outcry.amend_log b ON b.seq = o.seq
	 CROSS JOIN LATERAL (SELECT sum(reduced)::bigint AS reduced, max(time_ns) FILTER (WHERE reduced > 0) AS at,
	                            (array_agg(ref ORDER BY seq DESC))[1] AS ref
	                       FROM outcry.amend_log m WHERE m.order_id = o.id AND ` + m.amend + `) d
	 CROSS JOIN LATERAL (SELECT coalesce(sum(shares), 0)::bigint AS executed,
	                            trim_scale(coalesce(sum(shares::numeric * price), 0) * 0.0000000000000001) AS notional,
	                            coalesce(max(time * 1000000000 + coalesce(nanos, 0)), 0) AS at
	                       FROM (SELECT shares, price, time, nanos FROM outcry.execution_log WHERE order_id = o.id
	                             UNION ALL
	                             SELECT shares, price, time, nanos FROM outcry.execution_log x
	                              WHERE x.resting_id = o.id AND ` + m.taken + `) x) e
	 WHERE o.id = ANY ($1::bigint[]) AND $2::bigint IS NOT NULL ORDER BY o.id`
}

// detailRow is a row that details selects.
type detailRow struct {
	record
	d                           exchange.OrderDetail
	why                         int16
	reducedAt, canceledAt, fill int64
	cut                         exchange.Shares // shares that the order's cancel removed
}

func (r *detailRow) into() []any {
	return append(orderLog.into(&r.record), &r.d.Replaces, &r.d.Before, &r.d.Reduced, &r.reducedAt, &r.d.NewRef, &r.cut,
		&r.canceledAt, &r.why, &r.d.By, &r.d.Executed, (*cashColumn)(&r.d.Notional), &r.fill)
}

// detail returns the row as an OrderDetail.
func (r *detailRow) detail() exchange.OrderDetail {
	d := r.d
	d.ID, d.Symbol, d.Ref, d.Terms, d.Unsent, d.OnDisconnect = r.Order, r.Symbol, r.called, r.Terms, r.Unsent,
		r.OnDisconnect
	d.Canceled = r.cut
	d.Open = r.Shares - d.Executed - d.Reduced - d.Canceled
	d.Time, d.Changed = r.Time, max(r.Time, r.reducedAt, r.canceledAt, r.fill)
	if d.By != 0 {
		d.State, d.Why = exchange.StatusReplaced, exchange.NotCanceled
	} else {
		d.Settle(exchange.WhyCanceled(r.why))
	}
	return d
}

// eachDetail calls f for each of the orders, sorted by id, as of a moment. seq is the record that m refers to.
func eachDetail(ctx context.Context, tx pgx.Tx, m asOf, seq uint64, ids []int64, f func(*detailRow)) error {
	rows, err := tx.Query(ctx, m.details(), ids, int64(seq))
	if err != nil {
		return err
	}
	var r detailRow
	_, err = pgx.ForEachRow(rows, r.into(), func() error {
		f(&r)
		return nil
	})
	return err
}

// OrderAt returns an order, open or closed, as of a moment, with the newest ViewPageMax of its executions. found is
// false if the tables have no order of that id; they lag behind the journal (Projector.WaitApplied). For rows from
// before schema 10, Ref is "", and Trade and N of executions are 0. The error says why the tables could not be read.
// RefRecord returns the record of a ref.
func (h *History) OrderAt(ctx context.Context, id exchange.OrderID, at exchange.Moment) (
	o exchange.OrderWithFills, found bool, err error,
) {
	m := asOfMoment(at)
	err = h.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		o, found = exchange.OrderWithFills{}, false
		err := eachDetail(ctx, tx, m, at.Seq, []int64{int64(id)}, func(r *detailRow) {
			o.OrderDetail, o.Account, found = r.detail(), r.Account, true
		})
		if err == nil && found {
			o.Fills, err = newestExecutions(ctx, tx, m, id, at.Seq)
		}
		return err
	})
	if err != nil {
		return exchange.OrderWithFills{}, false, fmt.Errorf("postgres: detail of order %d: %w", id, err)
	}
	return o, found, nil
}

// newestExecutions reads up to ViewPageMax executions of an order as of a moment, oldest first. Those in which
// it was the taker came first.
func newestExecutions(ctx context.Context, tx pgx.Tx, m asOf, id exchange.OrderID, seq uint64) (
	fills []exchange.AccountFill, err error,
) {
	for _, part := range []struct {
		where   string
		isTaker bool
	}{
		{`x.resting_id = $1 AND ` + m.taken + ` ORDER BY x.order_id DESC`, false},
		{`x.order_id = $1 ORDER BY x.n DESC`, true},
	} {
		rows, err := tx.Query(ctx, `SELECT `+executionLog.list("x")+` FROM outcry.execution_log x
			WHERE $2::bigint IS NOT NULL AND `+part.where+` LIMIT $3`, int64(id), int64(seq), exchange.ViewPageMax-len(fills))
		if err != nil {
			return nil, err
		}
		var x execution
		_, err = pgx.ForEachRow(rows, executionLog.into(&x), func() error {
			fills = append(fills, x.fill(x.number(part.isTaker), part.isTaker))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Reverse(fills)
	return fills, nil
}

// number returns the execution's number for the taker's account, or for the account of the resting order.
func (x *execution) number(isTaker bool) uint64 {
	if isTaker {
		return x.taker
	}
	return x.maker
}

// RefRecord returns the record that used an account's ref, and the id of the order that it created or amended, or
// 0. found is false if the tables do not have the ref. The error says why they could not be read.
func (h *History) RefRecord(ctx context.Context, account exchange.AccountID, ref exchange.Ref) (
	seq uint64, order exchange.OrderID, found bool, err error,
) {
	err = h.ask(ctx, func(ctx context.Context) error {
		err := h.pool.QueryRow(ctx, `SELECT seq, coalesce(order_id, 0) FROM outcry.refs
			WHERE account = $1 COLLATE "C" AND ref = $2 COLLATE "C"`, account, ref).Scan(&seq, &order)
		if found = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, 0, false, fmt.Errorf("postgres: record of ref %s of account %s: %w", ref, account, err)
	}
	return seq, order, found, nil
}

// look calls read in a transaction that sees one moment.
func (h *History) look(ctx context.Context, read func(context.Context, pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return h.ask(ctx, func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, h.pool, options, func(tx pgx.Tx) error { return read(ctx, tx) })
	})
}
