package exchange

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// selfTradeTable has the result of a buy of 25 at 12 for each stp, position of the account's own order, and tif.
// Orders 1 to 4 sell 10 each at 10, 11, 12 and 13. The order whose number is the position belongs to the buyer's
// account, the others to another account.
const selfTradeTable = `
none   own 1 GTC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 1 IOC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 1 FOK: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 2 GTC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 2 IOC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 2 FOK: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 3 GTC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 3 IOC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 3 FOK: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 4 GTC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 4 IOC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
none   own 4 FOK: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
newest own 1 GTC: fills, rest 25, open 0
newest own 1 IOC: fills, rest 25, open 0
newest own 1 FOK: cannot_fill, 0 could
newest own 2 GTC: fills 10 of 1, rest 15, open 0
newest own 2 IOC: fills 10 of 1, rest 15, open 0
newest own 2 FOK: cannot_fill, 10 could
newest own 3 GTC: fills 10 of 1 10 of 2, rest 5, open 0
newest own 3 IOC: fills 10 of 1 10 of 2, rest 5, open 0
newest own 3 FOK: cannot_fill, 20 could
newest own 4 GTC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
newest own 4 IOC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
newest own 4 FOK: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
oldest own 1 GTC: fills 10 of 2 10 of 3, cancels 10 of 1, rest 0, open 5
oldest own 1 IOC: fills 10 of 2 10 of 3, cancels 10 of 1, rest 5, open 0
oldest own 1 FOK: cannot_fill, 20 could
oldest own 2 GTC: fills 10 of 1 10 of 3, cancels 10 of 2, rest 0, open 5
oldest own 2 IOC: fills 10 of 1 10 of 3, cancels 10 of 2, rest 5, open 0
oldest own 2 FOK: cannot_fill, 20 could
oldest own 3 GTC: fills 10 of 1 10 of 2, cancels 10 of 3, rest 0, open 5
oldest own 3 IOC: fills 10 of 1 10 of 2, cancels 10 of 3, rest 5, open 0
oldest own 3 FOK: cannot_fill, 20 could
oldest own 4 GTC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
oldest own 4 IOC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
oldest own 4 FOK: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
both   own 1 GTC: fills, cancels 10 of 1, rest 25, open 0
both   own 1 IOC: fills, cancels 10 of 1, rest 25, open 0
both   own 1 FOK: cannot_fill, 0 could
both   own 2 GTC: fills 10 of 1, cancels 10 of 2, rest 15, open 0
both   own 2 IOC: fills 10 of 1, cancels 10 of 2, rest 15, open 0
both   own 2 FOK: cannot_fill, 10 could
both   own 3 GTC: fills 10 of 1 10 of 2, cancels 10 of 3, rest 5, open 0
both   own 3 IOC: fills 10 of 1 10 of 2, cancels 10 of 3, rest 5, open 0
both   own 3 FOK: cannot_fill, 20 could
both   own 4 GTC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
both   own 4 IOC: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
both   own 4 FOK: fills 10 of 1 10 of 2 5 of 3, rest 0, open 0
`

// TestSelfTradeTable checks every row.
func TestSelfTradeTable(t *testing.T) {
	var got strings.Builder
	for stp := TradeWithSelf; stp <= CancelBoth; stp++ {
		for own := OrderID(1); own <= 4; own++ {
			for tif := GTC; tif <= FOK; tif++ {
				fmt.Fprintf(&got, "%-6s own %d %s: %s\n", stp, own, tif, selfTradeRow(t, stp, own, tif))
			}
		}
	}
	require.Equal(t, strings.TrimSpace(selfTradeTable), strings.TrimSpace(got.String()))
}

func selfTradeRow(t *testing.T, stp SelfTrade, own OrderID, tif TimeInForce) string {
	d := newDesk(t, []AccountID{"1", "2"}, 10_000, 100)
	d.Index.FillsMax = 0
	for id := OrderID(1); id <= 4; id++ {
		a := d.Ledger.Account("2")
		if id == own {
			a = d.Ledger.Account("1")
		}
		_, r := d.submit(&Order{Account: a, Terms: Terms{Side: Sell, Limit: Price(9 + id)}, Shares: 10, Open: 10})
		require.Equal(t, OK, r)
	}
	before := d.Digest()
	o := &Order{
		Account: d.Ledger.Account("1"),
		Terms:   Terms{Side: Buy, TIF: tif, STP: stp, Limit: 12},
		Shares:  25,
		Open:    25,
	}
	res, r := d.submit(o)
	require.NoError(t, d.Audit())
	if r != OK {
		require.Equal(t, before, d.Digest(), "a rejected order changes nothing")
		return fmt.Sprintf("%s, %d could", r, d.book.Quote(o).Shares)
	}
	text := "fills"
	for _, f := range res.fills {
		text += fmt.Sprintf(" %d of %d", int64(f.Shares), f.Resting)
	}
	for _, c := range res.own {
		text += fmt.Sprintf(", cancels %d of %d", int64(c.Shares), c.Order)
	}
	left, _ := d.book.Find(o.ID)
	return text + fmt.Sprintf(", rest %d, open %d", int64(res.rest), int64(left.Open))
}

// TestAMarketOrderIsAnIOCAtItsProtectionPrice compares fills, cancels and balances; only the cash needed differs.
func TestAMarketOrderIsAnIOCAtItsProtectionPrice(t *testing.T) {
	r := testRand(t)
	compared := 0
	for range budget.Of(2000) {
		p := newPair(t, r)
		for range 15 {
			p.submit(p.draw(false))
		}
		market := p.draw(false)
		market.Type, market.TIF, market.STP = Market, IOC, SelfTrade(r.IntN(4))
		best := p.book.Best(market.Side.opposite())
		if best == 0 {
			continue
		}
		market.Limit = SymbolRules{Protect: Fraction(r.Uint32N(3e7))}.Protection(market.Side, best, 0)
		limited := *market
		limited.Type = Limited
		other := &desk{shard: newShard()}
		replay(t, other.State, p.events)
		other.book, other.in = other.Books[deskSymbol], other.Ledger.Instrument(deskSymbol)
		limited.Account = other.Ledger.Account(market.Account.ID)
		want, reason := other.submit(&limited)
		q := p.book.Quote(market)
		free, _ := market.Account.Balance()
		got, r := p.submit(market)
		if reason == InsufficientFunds {
			require.Equal(t, free.Cmp(q.Cost) >= 0, r == OK, "it needs what its fills cost, and no more")
			continue
		}
		require.Equal(t, reason, r)
		require.Equal(t, want, got)
		require.NoError(t, p.Audit())
		a, b := dump(p.State), dump(other.State)
		require.Equal(t, b, a)
		compared++
	}
	require.Positive(t, compared)
}

// TestAReplacementIsACancelAndANewOrder compares fills, priority and accounts in random books.
func TestAReplacementIsACancelAndANewOrder(t *testing.T) {
	r := testRand(t)
	replaced := 0
	for range budget.Of(10_000) {
		p := newPair(t, r)
		for range 12 {
			o := p.draw(true)
			o.TIF, o.Type, o.Post = GTC, Limited, false
			p.submit(o)
		}
		old, found := p.open()
		if !found {
			continue
		}
		total, limit := old.ChainExecuted()+1+Shares(r.IntN(25)), Price(10+r.IntN(6))
		two := &desk{shard: newShard()}
		replay(t, two.State, p.events)
		two.book, two.in = two.Books[deskSymbol], two.Ledger.Instrument(deskSymbol)
		got, by, reason := p.amend(old.ID, total, limit)
		if reason != OK || !by {
			continue
		}
		replaced++
		_, cancel := two.deskCancel(old.Account.ID, old.ID)
		require.Equal(t, OK, cancel)
		want, place := two.submit(&Order{Account: two.Ledger.Account(old.Account.ID), OnDisconnect: old.OnDisconnect,
			Terms:  Terms{Side: old.Side, STP: old.STP, Limit: limit},
			Shares: total - old.ChainExecuted(), Open: total - old.ChainExecuted()})
		require.Equal(t, OK, place)
		require.Equal(t, want, got)
		require.NoError(t, p.Audit())
		for _, o := range []OrderID{old.ID, p.OrderID} { // the lineage is the only difference
			n := p.book.node(o)
			n.flags &^= amended
		}
		require.Equal(t, dump(two.State), dump(p.State))
	}
	require.Positive(t, replaced)
}

// open returns a random open order.
func (p *pair) open() (Order, bool) {
	var open []Order
	for o := range p.book.Orders() {
		if o.Open > 0 {
			open = append(open, o)
		}
	}
	if len(open) == 0 {
		return Order{}, false
	}
	return open[p.r.IntN(len(open))], true
}

// TestLongOrdersStopWhereTheyStopped replays orders with parts of the real size that end by a stop, by canceling an
// own order, or at a limit, and with one fill more or less than a part has.
func TestLongOrdersStopWhereTheyStopped(t *testing.T) {
	for _, fillsMax := range []int{PartFillsMin, PartFillsMin + 2} {
		for n := PartFillsMin - 1; n <= PartFillsMin+3; n++ {
			for stp := TradeWithSelf; stp <= CancelBoth; stp++ {
				for tif := GTC; tif <= IOC; tif++ {
					longOrder(t, fillsMax, n, Terms{Side: Buy, TIF: tif, STP: stp, Limit: 10})
				}
			}
		}
	}
}

func longOrder(t *testing.T, fillsMax, n int, terms Terms) {
	d := newDesk(t, []AccountID{"1", "2"}, 1_000_000, 100_000)
	d.Index.FillsMax = fillsMax
	sell := func(a AccountID, limit Price) {
		_, r := d.submit(&Order{Account: d.Ledger.Account(a), Terms: Terms{Side: Sell, Limit: limit}, Shares: 1, Open: 1})
		require.Equal(t, OK, r)
	}
	for i := range n {
		if i%50 == 7 && terms.STP == CancelOldest {
			sell("1", 10)
		}
		sell("2", 10)
	}
	sell("1", 10)
	sell("2", 10)
	sell("2", 11)
	_, r := d.submit(&Order{Account: d.Ledger.Account("1"), Terms: terms, Shares: 1000, Open: 1000})
	require.Equal(t, OK, r)
	require.Zero(t, d.book.Unfinished())
	for cut := len(d.events) - 4; cut <= len(d.events); cut++ {
		again := NewState()
		for i := range d.events {
			e := decoded(t, AppendEvent(nil, &d.events[i]))
			require.NoError(t, again.Apply(&e), "%s of %d fills, FillsMax %d", e.Kind, n, fillsMax)
			require.NoError(t, again.Audit())
			if i+1 == cut {
				var err error
				again, err = snapshotOf(again, d.events[:cut]).Restore()
				require.NoError(t, err)
			}
		}
		require.Equal(t, d.Digest(), again.Digest())
	}
}
