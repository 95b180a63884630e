package accounts

import (
	"cmp"
	"context"
	"time"

	"outcry/internal/exchange"
)

// waitTimeout bounds how long a reply waits until the view has a record.
const waitTimeout = 5 * time.Second

// ordersLookedAt is the maximum number of orders that are searched for a page of orders for one symbol. The page may
// then have fewer orders than fit, and says after which order the next page begins.
const ordersLookedAt = 20_000

// Show completes the result of a ShowAccount, a ListOrders or a ListFills that is pending as InView. Any other result
// stays unchanged. Show waits until the view has all records up to r.AsOf, so that clients read what they have
// written. If the view has failed, does not have them in time, or ctx ends, the result is ViewUnavailable. If older
// fills are requested and history is false or the database does not answer, the result is HistoryUnavailable.
func (v *View) Show(ctx context.Context, c *exchange.Command, r *exchange.Result, history bool) {
	if r.Pending != exchange.InView {
		return
	}
	seq := r.AsOf
	r.Pending, r.AsOf = exchange.Nowhere, 0
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if err := v.wait(ctx, seq); err != nil {
		r.Reason = exchange.ViewUnavailable
		return
	}
	missing := v.read(c, r)
	if missing == 0 {
		return
	}
	if r.Reason = exchange.HistoryUnavailable; history {
		r.Reason = v.recall(ctx, c.Account, r.Answer.Fills, missing, c.More == nil || !c.More.HasAfter)
	}
	if r.Reason != exchange.OK {
		r.Answer.Fills = nil
	}
}

// read completes a result from memory. missing is how many of the requested fills are not in memory.
func (v *View) read(c *exchange.Command, r *exchange.Result) (missing int) {
	missing = v.readLocked(c, r)
	if r.Answer == nil {
		return 0
	}
	if view := r.Answer.Account; view != nil {
		sortPositions(view.Positions)
	}
	return missing
}

// readLocked does the part of read that needs mu. It leaves the positions unsorted.
func (v *View) readLocked(c *exchange.Command, r *exchange.Result) (missing int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.Err() != nil { // it has failed meanwhile
		r.Reason = exchange.ViewUnavailable
		return 0
	}
	r.Answer = new(exchange.Answer)
	a := v.accounts[c.Account]
	if r.Reason = exchange.UnknownAccount; a == nil {
		return 0
	}
	r.Reason = exchange.OK
	more := c.More
	if more == nil {
		more = new(exchange.CommandMore)
	}
	switch {
	case c.Kind == exchange.ListOrders:
		r.Answer.Orders = v.showOrders(a, c.Symbol, exchange.OrderID(more.After))
	case c.Kind == exchange.ListFills:
		r.Answer.Fills, missing = v.showFills(a, more.After, more.HasAfter)
	default:
		r.Answer.Account = v.showAccount(a)
	}
	return missing
}

// wait waits until the view has a record. The error is ctx's, or says why the view has ended.
func (v *View) wait(ctx context.Context, seq uint64) error {
	if err := v.Err(); err != nil {
		return err
	}
	if v.Seq() >= seq {
		return nil
	}
	if err := v.records.Await(ctx, seq); err != nil {
		return err
	}
	if v.Seq() < seq {
		return cmp.Or(v.Err(), errEnded)
	}
	return nil
}

// showAccount returns an account with unsorted positions. Its caller holds mu.
func (v *View) showAccount(a *account) *exchange.AccountView {
	return &exchange.AccountView{ID: a.id, Balance: a.balance, Held: a.held, Positions: v.showPositions(a), N: a.n,
		LastFill: a.fills.count}
}

// showOrders returns a page of an account's open orders with ids above after, for one symbol, or for all if s is
// empty. Its caller holds mu.
func (v *View) showOrders(a *account, s exchange.Symbol, after exchange.OrderID) *exchange.OrdersView {
	view := new(exchange.OrdersView)
	wanted, made := v.symbols[s]
	if s != "" && !made {
		return view
	}
	last, left := after, ordersLookedAt
	a.orders.after(after, func(o *order) bool {
		if len(view.Orders) == exchange.ViewPageMax || left == 0 {
			view.More = last
			return false
		}
		left--
		if last = o.id; s == "" || o.symbol == wanted {
			view.Orders = append(view.Orders, v.detail(o))
		}
		return true
	})
	return view
}

// showFills returns a page of an account's fills above number after, or of the newest ones. missing is how many fills
// at the beginning of the page are no longer kept; these have only their numbers. Its caller holds mu.
func (v *View) showFills(a *account, after uint64, hasAfter bool) (view *exchange.FillsView, missing int) {
	count := a.fills.count
	if !hasAfter {
		after = count - min(count, exchange.ViewPageMax)
	}
	view = &exchange.FillsView{Last: count}
	if after >= count {
		return view, 0
	}
	most := int(min(count-after, exchange.ViewPageMax))
	view.Fills = make([]exchange.AccountFill, most)
	if after+uint64(most) < count {
		view.More = after + uint64(most)
	}
	if first := a.fills.first(); after+1 < first {
		missing = int(min(first-after-1, uint64(most)))
	}
	for i := range missing {
		view.Fills[i].N = after + 1 + uint64(i)
	}
	if most == missing {
		return view, missing
	}
	place := missing
	v.fills.each(&a.fills, after+1+uint64(missing), most-missing, func(n uint64, f *fill) {
		view.Fills[place] = v.showFill(n, f)
		place++
	})
	return view, missing
}

// recall fills in the first fills of a page, which are no longer in memory and have only their numbers. A page of the
// newest fills is shortened by those that the database does not have either.
func (v *View) recall(
	ctx context.Context, id exchange.AccountID, view *exchange.FillsView, missing int, newest bool,
) exchange.RejectReason {
	if v.options.Fills == nil {
		return exchange.FillsForgotten
	}
	begin := view.Fills[0].N
	found, first, err := v.options.Fills(ctx, id, begin-1, missing)
	if err != nil {
		return exchange.HistoryUnavailable
	}
	if first > begin {
		if !newest {
			return exchange.FillsForgotten
		}
		forgotten := int(min(first-begin, uint64(missing)))
		view.Fills, missing = view.Fills[forgotten:], missing-forgotten
	}
	if len(found) < missing {
		return exchange.HistoryUnavailable
	}
	for i := range missing {
		if found[i].N != view.Fills[i].N {
			return exchange.HistoryUnavailable
		}
	}
	copy(view.Fills, found[:missing])
	return exchange.OK
}
