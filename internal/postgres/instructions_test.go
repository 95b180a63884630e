package postgres

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// instruct gives every other order instructions.
func (h *history) instruct(e *exchange.Event, o *exchange.Order) {
	if h.old || h.plain || h.r.IntN(2) == 0 {
		return
	}
	o.STP = exchange.SelfTrade(h.r.IntN(4))
	if h.r.IntN(2) == 0 { // the order executes in several parts
		o.Shares *= 4
		o.Open = o.Shares
	}
	if o.STP != exchange.TradeWithSelf && h.r.IntN(2) == 0 {
		e.Unsent |= exchange.UnsentSTP
	}
	o.OnDisconnect = h.r.IntN(3) == 0
	switch h.r.IntN(4) {
	case 0:
		o.TIF = exchange.TimeInForce(h.r.IntN(3))
	case 1:
		o.TIF, o.Type, o.Limit = exchange.TimeInForce(1+h.r.IntN(2)), exchange.Market, 90
		if o.Side == exchange.Buy {
			o.Limit = 110
		}
		if h.r.IntN(2) == 0 {
			e.Unsent |= exchange.UnsentLimit
		}
	case 2:
		if _, meets := h.state.Books[e.Symbol].Meets(o.Side, o.Limit); !meets {
			o.Post = true
		}
	}
}

// reserve holds the cost of an order on its account. It reports whether the account has enough.
func (h *history) reserve(sym exchange.Symbol, o *exchange.Order) bool {
	li, book := h.state.Ledger.Instrument(sym), h.state.Books[sym]
	if o.Type == exchange.Market && o.Side == exchange.Buy {
		return h.state.Ledger.ReserveMarket(li, o, book.Quote(o).Cost) == exchange.OK
	}
	return h.state.Ledger.Reserve(li, o) == exchange.OK
}

// amend makes e an amend of an open order and applies it. It returns false if there is no open order.
func (h *history) amend(e *exchange.Event) bool {
	c := *e
	book := h.state.Books[e.Symbol]
	if !h.cancel(&c) || book.Halted() != nil {
		return false
	}
	old, _ := book.Find(c.Order)
	executed := old.ChainExecuted()
	if h.r.IntN(3) == 0 && old.Open > 1 {
		h.reduce(e, old, exchange.Shares(h.r.Int64N(int64(old.Open))))
		return true
	}
	amount, limit := exchange.Shares(1+h.r.IntN(100)), old.Limit
	o := old.Replacement(executed+amount, limit)
	if h.r.IntN(2) == 0 {
		o.Limit = exchange.Price(90 + h.r.IntN(20))
	}
	if o.Limit != limit && h.r.IntN(2) == 0 { // the amount stays the same
		o.Shares, o.Open = old.Open, old.Open
	}
	if o.ID = h.state.OrderID + 1; o.Post {
		if _, meets := book.Meets(o.Side, o.Limit); meets {
			return false
		}
	}
	li := h.state.Ledger.Instrument(e.Symbol)
	if h.state.Ledger.ReserveInstead(li, &old, &o) != exchange.OK {
		return false
	}
	sent := [2]int64{int64(executed + o.Shares), int64(o.Limit)}
	if o.Shares == old.Open {
		sent[0] = 0
	}
	if o.Limit == old.Limit {
		sent[1] = 0
	}
	e.Amend = old.Amendment(exchange.OrderReplaced, exchange.Shares(sent[0]), exchange.Price(sent[1]), 0)
	fills := book.Replace(&o, e.Time, nil)
	h.state.Ledger.SettleInstead(li, &old, &o, fills)
	*e = h.accepted(*e, exchange.OrderReplaced, &o, fills)
	return true
}

// reduce makes e an amend that reduces an order in place by shares. shares is 0 for an amend that only sets a ref.
func (h *history) reduce(e *exchange.Event, o exchange.Order, shares exchange.Shares) {
	amount := o.ChainExecuted() + o.Open - shares
	amend := o.Amendment(exchange.OrderReduced, amount, 0, shares)
	e.Note(exchange.OrderReduced, &o, e.Symbol, shares, e.Time)
	e.Amend = amend
	h.name(e)
	*e = plain(*e)
	if err := h.state.Apply(e); err != nil {
		panic(err)
	}
}

// rule makes e a setting that an operator or a client makes for an account or a symbol.
func (h *history) rule(e *exchange.Event) bool {
	switch h.r.IntN(4) {
	case 0:
		e.Kind, e.Account = exchange.SymbolRuled, ""
		e.SymbolRules = &exchange.SymbolRules{Tick: exchange.Price(h.r.IntN(3)), Lot: exchange.Shares(h.r.IntN(3)),
			Protect: exchange.Fraction(h.r.IntN(3) * 1e6), Band: exchange.Fraction(h.r.IntN(2) * 5e7)}
	case 1:
		e.Kind, e.Symbol, e.Due = exchange.SwitchSet, "", h.r.Int64N(3)*(e.Time+7)
	case 2:
		e.Kind, e.Symbol, e.Cause = exchange.OrdersCanceled, "", exchange.BySwitch // the account has no open orders
	default:
		e.Kind, e.Symbol = exchange.AccountRuled, ""
		e.AccountRules = &exchange.AccountRules{STP: exchange.SelfTrade(h.r.IntN(4)),
			SharesMax: exchange.Shares(h.r.IntN(2) * 1000),
			OpenMax:   h.r.Int64N(2) * 50, NotionalMax: exchange.Notional(exchange.Shares(h.r.IntN(2)), 12345)}
		if h.r.IntN(2) == 0 {
			e.AccountRules.Block = &exchange.Halt{Since: e.Time, Reason: fmt.Sprint("reason ", h.seq)}
		}
		if h.r.IntN(5) == 0 {
			e.AccountRules = new(exchange.AccountRules)
		}
	}
	return true
}

// missing returns the kinds of events and values that occur in no record of events.
func missing(events []exchange.Event) (what []string) {
	seen := map[string]bool{}
	for kind := range exchange.EventKinds() {
		seen[kind.String()] = false
	}
	see := func(what string, there bool) { seen[what] = seen[what] || there }
	for i := range events {
		e := &events[i]
		see(e.Kind.String(), true)
		see("a rest", e.Rest > 0)
		see("own orders", len(e.Own) > 1)
		see("a hold", e.Hold != exchange.Cash{})
		see("a rest of a further part", e.Rest > 0 && e.Kind == exchange.OrderContinued)
		see("an own order of a further part", len(e.Own) > 0 && e.Kind == exchange.OrderContinued)
		see("what was not sent", e.Unsent == exchange.UnsentLimit|exchange.UnsentSTP)
		see("an order of its connection", e.OnDisconnect)
		see("a switch that passed", e.Cause == exchange.BySwitch)
		see("a FOK", e.TIF == exchange.FOK)
		see("a post that was replaced", e.Post && e.Kind == exchange.OrderReplaced)
		see("a ref of an amend", e.Ref != "" && e.Amend != nil)
	}
	for name, there := range seen {
		if !there {
			what = append(what, name)
		}
	}
	return what
}

// requireAtFirst compares an order as of its own record, as History returns it, with the one in memory.
func requireAtFirst(t *testing.T, past *History, o *exchange.Order, now exchange.ClosedOrder) {
	t.Helper()
	want, known := o.AtFirst()
	require.True(t, known)
	got, found, err := past.OrderAtFirst(background, o.ID, 1000)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, append([]exchange.Execution{}, want.Executions...),
		append([]exchange.Execution{}, got.Status.Executions...))
	want.Executions, got.Status.Executions = nil, nil
	now.Status = want
	require.Equal(t, now, got, "order %d", o.ID)
}

// requireFills compares pages of each account's executions with the records.
func requireFills(t *testing.T, past *History, events []exchange.Event) {
	t.Helper()
	want := map[exchange.AccountID][]exchange.AccountFill{}
	trades := map[exchange.Symbol]uint64{}
	for i := range events {
		e := &events[i]
		for _, f := range e.Fills {
			trades[e.Symbol]++
			add := func(id exchange.AccountID, order exchange.OrderID, side exchange.Side) {
				want[id] = append(want[id], exchange.AccountFill{N: uint64(len(want[id]) + 1), Order: order, Symbol: e.Symbol,
					Side: side, Shares: f.Shares, Price: f.Price, Time: e.Time, Trade: trades[e.Symbol], Maker: order != e.Order})
			}
			add(f.Account, f.Resting, exchange.Buy+exchange.Sell-e.Side)
			add(e.Account, e.Order, e.Side)
		}
	}
	require.NotEmpty(t, want)
	for id, all := range want {
		for after := 0; after <= len(all); after += 71 {
			page, first, err := past.Fills(background, id, uint64(after), 100)
			require.NoError(t, err)
			require.EqualValues(t, after+1, first)
			require.Equal(t, append([]exchange.AccountFill{}, all[after:min(after+100, len(all))]...),
				append([]exchange.AccountFill{}, page...), "account %s, after %d", id, after)
		}
	}
}
