package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// posted has the holdings of accounts according to Event.Postings.
type posted struct {
	cash   map[AccountID][2]Cash                // free and held
	shares map[Symbol]map[AccountID][2]Position // free and held
}

// add adds the postings of a record. Together they neither create nor destroy cash or shares, except for deposits.
func (p *posted) add(t require.TestingT, e *Event) {
	made, deposited := Cash{}, Position{}
	for one := range e.Postings() {
		had := p.cash[one.Account]
		p.cash[one.Account] = [2]Cash{had[0].Add(one.Cash), had[1].Add(one.HeldCash)}
		made = made.Add(one.Cash).Add(one.HeldCash)
		if one.Symbol == "" {
			require.Zero(t, [2]Position{one.Shares, one.HeldShares})
			continue
		}
		if p.shares[one.Symbol] == nil {
			p.shares[one.Symbol] = map[AccountID][2]Position{}
		}
		owned := p.shares[one.Symbol][one.Account]
		p.shares[one.Symbol][one.Account] = [2]Position{owned[0].Add(one.Shares), owned[1].Add(one.HeldShares)}
		deposited = deposited.Add(one.Shares).Add(one.HeldShares)
	}
	require.Equal(t, e.Balance, made, "cash made by a %s", e.Kind)
	require.Equal(t, e.Deposited, deposited, "shares made by a %s", e.Kind)
}

// same requires that the ledger has the same cash and shares, and that it adds up.
func (p *posted) same(t require.TestingT, s *State, e *Event) {
	for a := range s.Ledger.accounts.all() {
		require.Equal(t, [2]Cash{a.balance, a.held}, p.cash[a.ID], "cash of account %s after %+v", a.ID, *e)
	}
	for sym, in := range s.Ledger.instruments {
		for a := range s.Ledger.accounts.all() {
			free, held := in.Position(a)
			require.Equal(t, [2]Position{free, held}, p.shares[sym][a.ID], "%s of account %s after %+v", sym, a.ID, *e)
		}
	}
	require.Zero(t, s.Ledger.Reconcile(func() {}))
}

// met counts the records of random sessions by the kind of their postings.
type met struct {
	kinds                    map[EventKind]int
	rest, hold, own, further int
}

// add counts a record.
func (m *met) add(e *Event) {
	m.kinds[e.Kind]++
	m.rest, m.own = m.rest+int(e.Rest), m.own+len(e.Own)
	if e.Hold != (Cash{}) {
		m.hold++
	}
	if e.Kind == OrderContinued {
		m.further += int(e.Rest) + len(e.Own)
	}
}

// missing returns the first kind of record that did not occur, or "" if all occurred.
func (m *met) missing() string {
	for _, kind := range []EventKind{AccountOpened, SharesDeposited, OrderAccepted, OrderCanceled, OrdersCanceled,
		OrderContinued, OrderReduced, OrderReplaced} {
		if m.kinds[kind] == 0 {
			return kind.String()
		}
	}
	for name, n := range map[string]int{"rest": m.rest, "hold": m.hold, "own cancel": m.own,
		"cancel of a further part": m.further} {
		if n == 0 {
			return name
		}
	}
	return ""
}

// TestPostingsAreWhatTheLedgerSettles compares the postings of every record of random sessions with the ledger,
// which does not use them. The first kind of session has several symbols and cancels all orders, the second has all
// instructions. Sessions of the second kind are repeated until each kind of record was met: a cancel in a further
// part is rare.
func TestPostingsAreWhatTheLedgerSettles(t *testing.T) {
	r := testRand(t)
	seen := met{kinds: map[EventKind]int{}}
	follow := func(d *shard) {
		p := &posted{map[AccountID][2]Cash{}, map[Symbol]map[AccountID][2]Position{}}
		for i := range d.events {
			p.add(t, &d.events[i])
		}
		d.afterEvent = func() {
			e := d.events[len(d.events)-1]
			p.add(t, &e)
			p.same(t, d.State, &e)
			seen.add(&e)
		}
	}
	for range budget.Of(20) {
		s := newRandomSession(r)
		follow(s.shard)
		s.run(500)
	}
	sessions := budget.Of(200)
	for n := 0; n < sessions || n < 100*sessions && seen.missing() != ""; n++ {
		p := newPair(t, r)
		follow(p.shard)
		for range 40 {
			p.step(t)
		}
	}
	require.Empty(t, seen.missing())
}

// TestOnlySomeRecordsHavePostings checks the kinds that move neither cash nor shares.
func TestOnlySomeRecordsHavePostings(t *testing.T) {
	for _, e := range []Event{{Kind: SymbolMade, Symbol: "S"}, {Kind: SymbolHalted, Symbol: "S"},
		{Kind: SymbolResumed, Symbol: "S"}, {Kind: AccountRuled, Account: "1"}, {Kind: SymbolRuled, Symbol: "S"},
		{Kind: SwitchSet, Account: "1"}, {Kind: OrderReduced, Account: "1", Symbol: "S", Amend: new(Amendment)},
		{Kind: OrdersCanceled, Account: "1", Cause: BySwitch}} {
		for p := range e.Postings() {
			t.Errorf("%s: %+v", e.Kind, p)
		}
	}
}

// TestPostingsEndEarly: a caller that leaves the loop gets no further posting.
func TestPostingsEndEarly(t *testing.T) {
	e := Event{Kind: OrderAccepted, Account: "3", Symbol: "S", Order: 3, Shares: 4,
		Terms: Terms{Side: Buy, Limit: 7, STP: CancelOldest},
		Fills: []Fill{{Resting: 1, Account: "1", Shares: 1, Price: 5}},
		Own:   []Cancel{{Order: 2, Terms: Terms{Side: Sell, Limit: 6}, Shares: 1}, {Order: 1, Terms: Terms{Side: Sell}}}}
	for most := range 4 {
		n := 0
		for range e.Postings() {
			if n++; n > most {
				break
			}
		}
		require.Equal(t, most+1, n)
	}
}

// TestPostingsAllocateNothing: the projector and the view call Postings for every record.
func TestPostingsAllocateNothing(t *testing.T) {
	s := newRandomSession(testRand(t))
	s.run(2000)
	var total Cash
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for i := range s.events {
			for p := range s.events[i].Postings() {
				total = total.Add(p.Cash).Add(p.HeldCash)
			}
		}
	}))
	require.NotZero(t, total)
}
