package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/budget"
)

// TestPartsAndForgettingDoNotChangeOrdersWithInstructions sends orders and amends of all kinds to
// a market with parts that forgets closed orders, and to a market without either. Both must answer the same.
// Commands that are repeated much later must get the first answer, also from an engine that replayed the journal
// or was a standby.
func TestPartsAndForgettingDoNotChangeOrdersWithInstructions(t *testing.T) {
	for range budget.Of(3) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		p := newInstructedPair(t, seed)
		for n := range 1500 {
			p.step(n)
		}
		p.m.agrees()
		p.whole.agrees()
		records := p.m.records(p.m.journal.Appended())
		p.db.project(t, records, p.m.index.FillsMax)
		limits := Options{Projection: p.db, History: p.db, ClosedOrdersMax: 20, RefsMax: 40, Now: p.m.options.Now}
		p.demand(p.m.takeOver(p.m.journal.Appended(), limits))
		p.demand(p.m.after(p.m.journal.Appended(), false))
		p.m.Close()
		p.whole.Close()
		require.Equal(t, p.whole.State().Digest(), p.m.State().Digest())
		require.NoError(t, p.m.State().Audit())
		for _, m := range []*market{p.m, p.whole} {
			m.Engine = New(Options{Journal: m.journal, State: exchange.NewState()}) // the cleanup closes it
		}
	}
}

// instructedPair is a market with parts that forgets closed orders, and one without either, which get the same
// commands.
type instructedPair struct {
	t               *testing.T
	random          *rand.Rand
	seed            uint64
	m, whole        *market
	db              *database
	origin, origin2 *Origin
	asked           []Request
	answered        []exchange.Result
}

func newInstructedPair(t *testing.T, seed uint64) *instructedPair {
	p := &instructedPair{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), db: &database{}}
	p.m = openWith(t, Options{Projection: p.db, History: p.db, ClosedOrdersMax: 20, RefsMax: 40, BacklogMax: 1 << 20},
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 16})
	p.m.index.FillsMax = 2
	p.whole = open(t, Options{})
	p.origin, p.origin2 = p.m.NewOrigin(), p.whole.NewOrigin()
	lot := exchange.Position{Lo: 200}
	for _, c := range []exchange.Command{
		{Kind: exchange.DepositShares, Symbol: "A", Account: "1", Deposited: lot},
		{Kind: exchange.DepositShares, Symbol: "B", Account: "1", Deposited: lot},
		{Kind: exchange.OpenAccount, Account: "3", Balance: exchange.Notional(100, 50)},
	} {
		require.Equal(t, p.whole.do(c), p.m.do(c))
	}
	return p
}

// step executes one command in both markets, and sometimes repeats an earlier one.
func (p *instructedPair) step(n int) {
	switch {
	case p.random.IntN(100) == 0:
		p.rule()
	case n%100 == 99:
		p.db.project(p.t, p.m.records(p.m.journal.Appended()), p.m.index.FillsMax)
	}
	r := Request{Command: p.m.draw(p.random)}
	if r.Ref != "" {
		r.Ref = exchange.Ref(fmt.Sprint("r", n))
	}
	if r.Kind == exchange.AmendOrder {
		r.Report = p.random.IntN(2) == 0
		if r.More != nil {
			r.More = &exchange.CommandMore{NewRef: exchange.Ref(fmt.Sprint("r", n))}
		}
		if len(p.asked) > 0 && p.random.IntN(3) == 0 { // name the order by a ref of its chain
			of := p.asked[p.random.IntN(len(p.asked))]
			r.Order, r.Ref, r.Account = 0, newRef(&of.Command), of.Account
		}
	}
	got := p.both(r, n)
	if got.Reason == exchange.OK && newRef(&r.Command) != "" {
		p.asked, p.answered = append(p.asked, r), append(p.answered, got)
	}
	if len(p.asked) > 0 && p.random.IntN(3) == 0 {
		k := p.random.IntN(len(p.asked))
		require.Equal(p.t, p.answered[k], p.both(p.asked[k], n), "seed %d, command %d, again", p.seed, n)
		of := p.asked[p.random.IntN(len(p.asked))]
		p.both(Request{Command: queryRef(of.Account, newRef(&of.Command))}, n)
	}
	p.both(Request{Command: queryOf(1 + exchange.OrderID(p.random.IntN(int(p.m.lastOrder.Load())+1)))}, n)
}

// both executes a command in both markets and requires the same result.
func (p *instructedPair) both(r Request, n int) exchange.Result {
	p.t.Helper()
	appended := p.m.journal.Appended()
	r.Origin = p.origin
	got := p.m.ask(r)
	p.m.Engine.Recall(background, &r, &got, 1000)
	r.Origin = p.origin2
	want := p.whole.ask(r)
	for _, res := range []*exchange.Result{&got, &want} {
		if len(res.Status.Executions) == 0 {
			res.Status.Executions = nil
		}
		if res.Reason != exchange.OK {
			require.NotEmpty(p.t, res.Text(&r.Command))
		}
		res.AsOf = 0
	}
	require.Equal(p.t, want, got, "seed %d, command %d: %+v", p.seed, n, r.Command)
	if got.Reason != exchange.OK {
		require.Equal(p.t, appended, p.m.journal.Appended(), "seed %d, command %d: %s", p.seed, n, got.Reason)
	}
	return got
}

// rule makes the same change of rules in both markets, as an operator.
func (p *instructedPair) rule() {
	id, sym := exchange.AccountID(rune('1'+p.random.IntN(3))), []exchange.Symbol{"A", "B"}[p.random.IntN(2)]
	kind, a, b := p.random.IntN(4), p.random.IntN(4), p.random.IntN(3)
	for _, m := range []*market{p.m, p.whole} {
		var err error
		switch kind {
		case 0:
			m.halted(sym, a > 1)
		case 1:
			_, err = m.SetSymbolRules(background, sym, func(r *exchange.SymbolRules) {
				r.Band, r.Lot = exchange.Fraction(a*10_000_000), exchange.Shares(b)
			})
		case 2:
			_, err = m.SetAccountRules(background, id, func(r *exchange.AccountRules) {
				r.STP, r.OpenMax = exchange.SelfTrade(a), int64(b*30)
			})
		case 3:
			m.halted("A", false)
			m.halted("B", false)
		}
		require.NoError(p.t, err)
	}
}

// demand requires that another engine answers repeated commands as they were answered first.
func (p *instructedPair) demand(again *market) {
	appended := again.journal.Appended()
	for k := range p.asked {
		got := again.ask(p.asked[k])
		again.Engine.Recall(background, &p.asked[k], &got, 1000)
		got.AsOf = 0
		require.Equal(p.t, p.answered[k], got, "seed %d: %+v", p.seed, p.asked[k].Command)
	}
	require.Equal(p.t, appended, again.journal.Appended())
}
