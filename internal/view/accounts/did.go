package accounts

import (
	"context"
	"fmt"
	"slices"

	"outcry/internal/exchange"
)

// Await waits until the view has a record, for at most waitTimeout. The error wraps ErrUnavailable, or is ctx's.
func (v *View) Await(ctx context.Context, seq uint64) error {
	if v.Seq() >= seq && v.Err() == nil {
		return nil // the usual case for callers that waited for the journal's sync first
	}
	within, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	err := v.wait(within, seq)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Did waits until the view has record seq, and returns the events up to it that changed an order of an account, oldest
// first. The list begins with the order's acceptance. If the account was not watched then, or if older events have
// been dropped, it has only the newest ones, perhaps none; the first of them is then not New.
// The error is that of Await, or ErrUnknownAccount.
func (v *View) Did(
	ctx context.Context, id exchange.AccountID, order exchange.OrderID, seq uint64,
) (did []*exchange.AccountEvent, err error) {
	if err := v.Await(ctx, seq); err != nil {
		return nil, err
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if err := v.Err(); err != nil { // it has failed meanwhile
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	a := v.accounts[id]
	if a == nil {
		return nil, ErrUnknownAccount
	}
	if a.watch == nil {
		return nil, nil
	}
	did = a.watch.changed(order, seq)
	slices.Reverse(did)
	return did, nil
}

// Order returns an open order of an account and its newest fills, at most exchange.ReportExecutionsMax. missing is
// how many of these fills the view no longer keeps. seq is the last record that the view has applied. found is
// false if the account has no such open order.
func (v *View) Order(id exchange.AccountID, order exchange.OrderID) (
	o exchange.OrderWithFills, missing int, seq uint64, found bool,
) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	seq = v.Seq()
	a := v.accounts[id]
	if a == nil {
		return o, 0, seq, false
	}
	open := a.orders.find(order)
	if open == nil {
		return o, 0, seq, false
	}
	more := v.open.moreOf(open)
	o.OrderDetail, o.Account = open.detail(v.markets[open.symbol].name, more), id
	if more == nil {
		return o, 0, seq, true
	}
	missing = min(more.fills, exchange.ReportExecutionsMax)
	v.fills.newest(&a.fills, func(n uint64, f *fill) bool {
		if missing > 0 && f.order == order {
			o.Fills = append(o.Fills, v.showFill(n, f))
			missing--
		}
		return missing > 0
	})
	slices.Reverse(o.Fills)
	return o, missing, seq, true
}
