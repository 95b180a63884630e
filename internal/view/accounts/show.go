package accounts

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"outcry/internal/exchange"
)

// waitTimeout bounds how long a reply waits until the view has a record.
const waitTimeout = 5 * time.Second

// ordersLookedAt is how many orders are looked at for a page of those for one symbol. A page may
// have fewer than it could, and says after which order to go on.
const ordersLookedAt = 20_000

// errEnded says that no record comes any more.
var errEnded = errors.New("accounts: the view has ended")

// Show completes the result of a ShowAccount, a ListOrders or a ListFills that is InView; every other
// result stays as it is. It waits until the view has all records up to r.More.View, so that clients read what they
// have written. If the view has failed, or does not have them in time, or ctx ends, the result is
// ViewUnavailable; if older fills are asked for and the database does not answer, or is not to be asked,
// HistoryUnavailable.
func (v *View) Show(ctx context.Context, c *exchange.Command, r *exchange.Result, history bool) {
	if r.Reason != exchange.InView {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if err := v.wait(ctx, r.More.View); err != nil {
		r.Reason = exchange.ViewUnavailable
		return
	}
	missing := v.read(c, r)
	if missing == 0 {
		return
	}
	if r.Reason = exchange.HistoryUnavailable; history {
		r.Reason = v.recall(ctx, c.Account, r.More.FillsView, missing, c.More == nil || !c.More.HasAfter)
	}
	if r.Reason != exchange.OK {
		r.More.FillsView = nil
	}
}

// read completes a result as far as memory has what it asks for: so many fills are missing.
func (v *View) read(c *exchange.Command, r *exchange.Result) (missing int) {
	missing = v.readLocked(c, r)
	if view := r.More.AccountView; view != nil {
		sortPositions(view.Positions)
	}
	return missing
}

// readLocked is read, except that positions are in no order.
func (v *View) readLocked(c *exchange.Command, r *exchange.Result) (missing int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	r.More = new(exchange.ResultMore)
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
		r.More.OrdersView = v.showOrders(a, c.Symbol, exchange.OrderID(more.After))
	case c.Kind == exchange.ListFills:
		r.More.FillsView, missing = v.showFills(a, more.After, more.HasAfter)
	default:
		r.More.AccountView = v.showAccount(a)
	}
	return missing
}

// wait waits until the view has a record. The error is ctx's, or says why there is no view.
func (v *View) wait(ctx context.Context, seq uint64) error {
	if err := v.Err(); err != nil {
		return err
	}
	if v.Seq() >= seq {
		return nil
	}
	if err := v.pace.Await(ctx, seq); err != nil {
		return err
	}
	if v.Seq() < seq {
		return cmp.Or(v.Err(), errEnded)
	}
	return nil
}

// showAccount returns an account, its positions in no order. Its caller holds mu.
func (v *View) showAccount(a *account) *exchange.AccountView {
	return &exchange.AccountView{ID: a.id, Balance: a.balance, Held: a.held, Positions: v.showPositions(a), N: a.n,
		LastFill: a.fills.count}
}

// showPositions returns an account's positions in no order. Its caller holds mu, and sorts them without it: nobody may
// hold back the view by asking for an account of very many.
func (v *View) showPositions(a *account) []exchange.PositionView {
	all := make([]exchange.PositionView, len(a.positions))
	for i := range a.positions {
		p := &a.positions[i]
		all[i] = exchange.PositionView{Symbol: v.markets[p.symbol].name, Shares: p.shares, Held: p.held}
	}
	return all
}

// sortPositions puts positions in the order in which readers see them: by symbol.
func sortPositions(all []exchange.PositionView) {
	slices.SortFunc(all, func(p, q exchange.PositionView) int { return cmp.Compare(p.Symbol, q.Symbol) })
}

// showOrders returns the page of an account's orders after an id, of a symbol or of all. Its caller
// holds mu.
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
			view.Orders = append(view.Orders, exchange.OpenOrder{ID: o.id, Symbol: v.markets[o.symbol].name, Terms: o.terms(),
				OnDisconnect: o.onDisconnect, Total: o.total(), Open: o.open, Time: o.time})
		}
		return true
	})
	return view
}

// showFills returns the page of an account's fills after a number, or of the newest, as far as they are kept:
// so many before them are missing, and are places at its begin. Its caller holds mu.
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

// showFill returns the fill of a number as its account sees it. Its caller holds mu.
func (v *View) showFill(n uint64, f *fill) exchange.AccountFill {
	one := exchange.AccountFill{N: n, Order: f.order, Symbol: v.markets[f.symbol].name, Side: exchange.Buy,
		Shares: f.shares, Price: f.price, Time: f.time, Trade: f.trade &^ makerBit, Maker: f.trade&makerBit != 0}
	if f.shares < 0 {
		one.Side, one.Shares = exchange.Sell, -f.shares
	}
	return one
}

// recall fills in the first fills of a view, which are not kept, and have their numbers only. The page of the newest
// goes without those that the database has not kept either.
func (v *View) recall(
	ctx context.Context, id exchange.AccountID, view *exchange.FillsView, missing int, newest bool,
) exchange.RejectReason {
	if v.options.History == nil {
		return exchange.FillsForgotten
	}
	begin := view.Fills[0].N
	found, first, err := v.options.History.Fills(ctx, id, begin-1, missing)
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
