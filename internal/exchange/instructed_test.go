package exchange

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// desk executes orders of every kind in a shard with one symbol, like an engine, and records the results.
type desk struct {
	*shard
	book *Book
	in   *Instrument
}

const deskSymbol = "SPY"

// newDesk returns a desk whose accounts each have the given cash and shares.
func newDesk(t require.TestingT, accounts []AccountID, cash, shares int64) *desk {
	d := &desk{shard: newShard()}
	d.list(deskSymbol)
	d.book, d.in = d.Books[deskSymbol], d.Ledger.Instrument(deskSymbol)
	for _, a := range accounts {
		require.Equal(t, OK, d.open(a, Cash{Lo: uint64(cash)}))
		require.Equal(t, OK, d.place(deskSymbol, a, Position{Lo: uint64(shares)}))
	}
	return d
}

// submit checks an order as an engine does, and places it.
func (d *desk) submit(o *Order) (twinResult, RejectReason) {
	q := d.book.Quote(o)
	if _, meets := d.book.Meets(o.Side, o.Limit); o.Post && meets {
		return twinResult{}, WouldExecute
	}
	if o.TIF == FOK && q.Shares < o.Shares {
		return twinResult{}, CannotFill
	}
	var r RejectReason
	if o.Type == Market && o.Side == Buy {
		r = d.Ledger.ReserveMarket(d.in, o, q.Cost)
	} else {
		r = d.Ledger.Reserve(d.in, o)
	}
	if r != OK {
		return twinResult{}, r
	}
	bytes, whole := d.book.FillBytesMax(o)
	parts, each := d.book.PartsMax(o, 1)
	d.OrderID++
	o.ID = d.OrderID
	e := Event{Shares: o.Shares}
	fills := d.book.Submit(o, d.now, nil)
	d.recordResult(&e, OrderAccepted, o, fills)
	e.Hold = d.book.HoldOf(o)
	d.Ledger.Settle(d.in, o, fills)
	d.Ledger.ReleaseOwn(d.in, o.Account, d.book.Own())
	d.record(e)
	return d.further(o, twinResult{fills: e.Fills, own: e.Own, rest: e.Rest}, e, bytes, whole, parts, each), OK
}

// recordResult sets e to the record of what o has just done.
func (d *desk) recordResult(e *Event, kind EventKind, o *Order, fills []Fill) {
	shares := e.Shares
	before := e.Before
	e.Note(kind, o, deskSymbol, shares, d.now)
	e.NoteMore(o, slices.Clone(d.book.Own()))
	e.Fills, e.Before = asDecoded(fills), before
	if len(e.Fills) == 0 {
		e.Fills = nil
	}
}

// further executes the further parts of o, whose first record is e, and checks the bounds computed earlier.
func (d *desk) further(o *Order, r twinResult, e Event, bytes int, whole bool, parts, each int) twinResult {
	size := len(AppendEvent(nil, &e))
	if whole != (d.book.Unfinished() == 0) || size > bytes+EventBytesMax {
		panic("the first part is not what FillBytesMax said")
	}
	for n := 1; ; n++ {
		if size > each || n > max(parts, 1) {
			panic("more than PartsMax said")
		}
		if d.book.Unfinished() == 0 {
			return r
		}
		next := Event{Shares: o.Open, Before: len(o.Executions)}
		fills := d.book.Continue(o, d.now, nil)
		d.recordResult(&next, OrderContinued, o, fills)
		d.Ledger.SettleMore(d.in, o, fills)
		d.Ledger.ReleaseOwn(d.in, o.Account, d.book.Own())
		d.record(next)
		size = len(AppendEvent(nil, &next))
		r.fills, r.own, r.rest = append(r.fills, next.Fills...), append(r.own, next.Own...), next.Rest
	}
}

// amend amends an open order.
func (d *desk) amend(id OrderID, total Shares, limit Price) (r twinResult, replaced bool, reason RejectReason) {
	o, _ := d.book.Find(id)
	open := total - o.ChainExecuted()
	if open <= 0 {
		return r, false, AmountExecuted
	}
	if limit == o.Limit && open <= o.Open {
		if open == o.Open {
			return r, false, OK
		}
		e := Event{Amend: o.Amendment(OrderReduced, total, 0, o.Open-open)}
		e.Note(OrderReduced, &o, deskSymbol, o.Open-open, d.now)
		e.Amend = o.Amendment(OrderReduced, total, 0, o.Open-open)
		o, _ = d.book.Reduce(id, o.Account.ID, o.Open-open, d.now)
		d.Ledger.ReleaseReduced(d.in, &o, e.Shares)
		d.record(e)
		return r, false, OK
	}
	n := o.Replacement(total, limit)
	if _, meets := d.book.Meets(n.Side, n.Limit); n.Post && meets {
		return r, false, WouldExecute
	}
	if reason = d.Ledger.ReserveInstead(d.in, &o, &n); reason != OK {
		return r, false, reason
	}
	bytes, whole := d.book.FillBytesMax(&n)
	parts, each := d.book.PartsMax(&n, 1)
	d.OrderID++
	n.ID = d.OrderID
	fills := d.book.Replace(&n, d.now, nil)
	e := Event{Shares: n.Shares}
	d.recordResult(&e, OrderReplaced, &n, fills)
	e.Amend = o.Amendment(OrderReplaced, total, limit, 0)
	d.Ledger.SettleInstead(d.in, &o, &n, fills)
	d.Ledger.ReleaseOwn(d.in, n.Account, d.book.Own())
	d.record(e)
	return d.further(&n, twinResult{fills: e.Fills, own: e.Own, rest: e.Rest}, e, bytes, whole, parts, each), true, OK
}

// pair runs the same commands on a desk and its twin.
type pair struct {
	*desk
	twin     *twin
	r        *rand.Rand
	accounts []AccountID
}

func newPair(t require.TestingT, r *rand.Rand) *pair {
	p := &pair{twin: newTwin(), r: r, accounts: []AccountID{"1", "2", "3"}}
	p.desk = newDesk(t, p.accounts, 3000, 150)
	for _, a := range p.accounts {
		p.twin.cash[a], p.twin.shares[a] = 3000, 150
	}
	return p
}

// draw returns a random order, with random instructions if instructed is set.
func (p *pair) draw(instructed bool) *Order {
	a := p.Ledger.Account(p.accounts[p.r.IntN(len(p.accounts))])
	o := &Order{Account: a, Terms: Terms{Side: Buy + Side(p.r.IntN(2)), Limit: Price(10 + p.r.IntN(6))}}
	if o.Shares = Shares(1 + p.r.IntN(12)); p.r.IntN(6) == 0 {
		o.Shares *= 6 // large enough to meet many orders
	}
	o.Open = o.Shares
	if !instructed {
		return o
	}
	o.TIF, o.STP = TimeInForce(p.r.IntN(3)), SelfTrade(p.r.IntN(4))
	o.OnDisconnect = p.r.IntN(4) == 0
	if o.TIF == GTC {
		o.Post = p.r.IntN(4) == 0
	} else if p.r.IntN(3) == 0 {
		o.Type = Market
	}
	if p.r.IntN(10) == 0 { // large enough for the whole book
		o.Terms = Terms{Side: o.Side, TIF: IOC, Type: Market, STP: o.STP, Limit: 15}
		if o.Shares, o.Open = 60, 60; o.Side == Sell {
			o.Limit = 10
		}
	}
	return o
}

// step executes one random command on both, and compares the results.
func (p *pair) step(t require.TestingT) {
	p.now += p.r.Int64N(3)
	p.twin.now = p.now
	n := p.r.IntN(10)
	if n < 3 && len(p.twin.orders) > 0 {
		if w := p.twin.orders[p.r.IntN(len(p.twin.orders))]; w.open > 0 {
			p.change(t, w, n == 0)
			return
		}
	}
	o := p.draw(n < 8)
	w := &twinOrder{Terms: o.Terms, id: p.OrderID + 1, account: o.Account.ID, shares: int64(o.Shares),
		open: int64(o.Shares), cod: o.OnDisconnect}
	want, reason := p.twin.place(w)
	got, r := p.submit(o)
	require.Equal(t, reason, r, "%s", o.words())
	require.Equal(t, want, got)
	p.compareAll(t)
}

// change cancels or amends an open order.
func (p *pair) change(t require.TestingT, w *twinOrder, cancel bool) {
	if cancel {
		w.cancel(p.now)
		_, r := p.deskCancel(w.account, w.id)
		require.Equal(t, OK, r)
		p.compareAll(t)
		return
	}
	total, limit := w.before+w.executed()+w.open+p.r.Int64N(9)-5, w.Limit
	if p.r.IntN(2) == 0 {
		limit = Price(10 + p.r.IntN(6))
	}
	if total <= 0 {
		return
	}
	id := w.id
	want, replaced, reason := p.twin.amend(w, total, limit, p.OrderID+1)
	got, by, r := p.amend(id, Shares(total), limit)
	require.Equal(t, reason, r)
	require.Equal(t, replaced, by)
	require.Equal(t, want, got)
	p.compareAll(t)
}

func (d *desk) deskCancel(a AccountID, id OrderID) (Order, RejectReason) {
	o, r := d.book.Cancel(id, a, d.now)
	if r == OK {
		d.Ledger.Release(d.in, &o)
		var e Event
		e.Note(OrderCanceled, &o, deskSymbol, o.Canceled, d.now)
		d.record(e)
	}
	return o, r
}

// compareAll compares every order and every account, and audits the state.
func (p *pair) compareAll(t require.TestingT) {
	require.NoError(t, p.Audit())
	require.Equal(t, p.twin.last, p.book.Last())
	newest := map[OrderID]OrderID{}
	for _, w := range p.twin.orders {
		o, found := p.book.Find(w.id)
		require.True(t, found)
		s := Status{Open: Shares(w.open), Canceled: Shares(w.canceled), CanceledAt: w.canceledAt, Executions: w.done}
		if w.reduced > 0 || w.replaced > 0 {
			s.Changes = &Changes{Replaced: w.replaced, Reduced: Shares(w.reduced), ReducedAt: w.reducedAt}
		}
		got := o.Status()
		if len(got.Executions) == 0 {
			got.Executions = nil
		}
		require.Equal(t, s, got, "order %d", w.id)
		require.Equal(t, w.first, o.First())
		require.Equal(t, w.cod, o.OnDisconnect)
		require.Equal(t, Shares(w.before+w.executed()), o.ChainExecuted())
		at, known := o.AtFirst()
		require.True(t, known)
		open := w.shares - w.atOnce
		for _, e := range w.done[:w.taken] {
			open -= int64(e.Shares)
		}
		require.Equal(t, append([]Execution{}, w.done[:w.taken]...), append([]Execution{}, at.Executions...))
		require.Equal(t, [2]Shares{Shares(open), Shares(w.atOnce)}, [2]Shares{at.Open, at.Canceled})
		newest[w.first] = max(newest[w.first], w.id)
	}
	for first, id := range newest {
		require.Equal(t, id, p.book.Newest(first))
	}
	for _, a := range p.accounts {
		cash, shares := p.twin.free(a, nil)
		free, held := p.Ledger.Account(a).Balance()
		require.Equal(t, [2]int64{cash, p.twin.cash[a] - cash}, [2]int64{int64(free.Lo), int64(held.Lo)}, "account %s", a)
		owns, heldShares := p.in.Position(p.Ledger.Account(a))
		require.Equal(t, [2]int64{shares, p.twin.shares[a] - shares}, [2]int64{int64(owns.Lo), int64(heldShares.Lo)})
	}
}

// TestOrdersWithInstructionsEqualTheirTwin runs random sessions of orders, cancels and amends of all kinds. Each
// session is replayed, and continued from a snapshot after each of its events.
func TestOrdersWithInstructionsEqualTheirTwin(t *testing.T) {
	r := testRand(t)
	for range budget.Of(200) {
		p := newPair(t, r)
		var digests [][32]byte
		p.afterEvent = func() { digests = append(digests, p.Digest()) }
		for range 40 {
			p.step(t)
		}
		again := NewState()
		again.Index.FillsMax = fewFills
		snapAt := r.IntN(len(p.events) + 1)
		skip := len(p.events) - len(digests)
		for i := range p.events {
			if i == snapAt && i > 0 {
				again = p.restored(t, again, p.events[:i])
			}
			b := AppendEvent(nil, &p.events[i])
			e := decoded(t, b)
			require.Equal(t, p.events[i], e)
			require.NoError(t, again.Apply(&e), "event %d of %s", i, e.Kind)
			if i >= skip {
				require.Equal(t, digests[i-skip], again.Digest())
			}
			require.NoError(t, again.Audit())
		}
		require.Equal(t, p.book.Last(), again.Books[deskSymbol].Last())
		snap := snapshotOf(p.State, p.events)
		require.NoError(t, again.SameOrders(snap))
		require.NoError(t, again.SameHoldings(snap))
	}
}

// restored returns the state restored from a snapshot of s.
func (p *pair) restored(t require.TestingT, s *State, events []Event) *State {
	restored, err := snapshotOf(s, events).Restore()
	require.NoError(t, err)
	restored.Index.FillsMax = fewFills
	require.Equal(t, s.Digest(), restored.Digest())
	return restored
}
