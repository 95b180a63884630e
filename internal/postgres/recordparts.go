package postgres

import (
	"context"
	"fmt"

	"outcry/internal/exchange"
)

// This file reads the parts of an order's record other than its fills: rows of other tables with the same seq.

// beginOrder completes the pending event, which comes from a row of order_log, with the values that other
// tables have for its record.
func (r *recordReader) beginOrder(ctx context.Context, row *record) error {
	amend, err := r.rows.amends.head(ctx)
	if err != nil {
		return err
	}
	if amend != nil && amend.seq == row.seq && amend.Kind == exchange.OrderReplaced && amend.Order == row.Order {
		if amend, err = attached(ctx, r.rows.amends, row.seq); err != nil {
			return err
		}
		if amend.Time != row.Time || amend.Shares != 0 || amend.Amend.Open != 0 {
			return amend.error("its time is %s, but that of order %d is %s; %s are reduced, %s open", TimeText(amend.Time),
				row.Order, TimeText(row.Time), amend.Shares, amend.Amend.Open)
		}
		if row.called != "" {
			return row.error("its ref is %q, but an amend made it", row.called)
		}
		r.event.Kind, r.event.Amend, r.called = exchange.OrderReplaced, amend.Amend, amend.called
	}
	hold, err := attached(ctx, r.rows.holds, row.seq)
	switch {
	case err != nil:
		return err
	case hold != nil && hold.seq < row.seq:
		return holdError(hold)
	case hold != nil:
		r.event.Hold = hold.Hold
	}
	if err := r.addFills(ctx, row, r.rows.fills); err != nil {
		return err
	}
	return r.addOwn(ctx, row)
}

// holdError returns a *RowError for a row of hold_log whose record accepted no order.
func holdError(hold *record) error {
	return &RowError{"hold_log", fmt.Sprintf("seq %d", hold.seq), "it is of a record that accepted no order"}
}

// addOwn adds to the pending event, an order or a part of one, the cancels in its record.
func (r *recordReader) addOwn(ctx context.Context, row *record) error {
	e := &r.event
	for {
		c, err := r.rows.cancels.head(ctx)
		if err != nil || c == nil || c.seq != row.seq {
			return err
		}
		wrong := r.rows.cancels.fault()
		r.rows.cancels.consume()
		switch {
		case c.lacksOrder():
			return c.error("there is no order %d", c.Order)
		case wrong != nil:
			return c.error("%v", wrong)
		case c.whole && r.next-1 > r.exactAfter:
			return c.error(noNanos)
		case c.Time != e.Time:
			return c.error("order %d is canceled at %s, but its record is of %s", c.Order, TimeText(c.Time), TimeText(e.Time))
		case c.Account != e.Account || c.Symbol != e.Symbol:
			return c.error("order %d is of account %s and %s, but that of its record is of account %s and %s", c.Order,
				c.Account, c.Symbol, e.Account, e.Symbol)
		case c.n > 0 && int(c.n) != len(e.Own)+1:
			return c.error("its cancel %d is missing, or another one is duplicated", len(e.Own)+1)
		case c.n > 0:
			e.Own = append(e.Own, exchange.Cancel{Order: c.Order, Terms: c.Terms, Shares: c.Shares})
			err = r.checkWhy(c, exchange.CanceledSTP)
		case c.Order == e.Order && e.Rest == 0:
			e.Rest, r.rest = c.Shares, c.why
		case e.Kind == exchange.OrderReplaced && c.Order == e.Amend.Old.Order && e.Amend.Old.Shares == 0:
			e.Amend.Old = exchange.Cancel{Order: c.Order, Terms: c.Terms, Shares: c.Shares}
			err = r.checkWhy(c, exchange.NotCanceled)
		default:
			return c.error(sharedRecord, c.seq)
		}
		if err != nil {
			return err
		}
	}
}
