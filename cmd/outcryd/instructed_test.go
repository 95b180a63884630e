package main

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/lab/model"
)

// instructedSymbols and instructedAccounts are small, so that orders often meet orders of their own account.
const instructedSymbols, instructedAccounts = 4, 12

// TestAnInstructedSessionAgreesWithTheModel is TestARandomSessionAgreesWithTheModel for the whole protocol: orders
// with instructions, amends, account queries, operators' settings, and connections that end with cancel-on-disconnect
// orders.
func TestAnInstructedSessionAgreesWithTheModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	flags, database := dataFlags(t)
	s, addr := inProcess(t, append(flags, "--closed-orders=100", "--refs=40")...)
	x, g := model.New(), model.NewGenerator(seed, instructedSymbols, instructedAccounts).Instruct()
	r := rand.New(rand.NewPCG(seed, 5))
	c, twin := dial(t, addr), x.Connect()
	for n := 1; g.Commands() < 100_000/raceFactor/shortFactor; n++ {
		frame := g.Frame()
		want := twin.Do(frame, 1)
		got := c.must(t, string(frame))
		require.Equal(t, model.Normalize(want), model.Normalize([]byte(got)), "seed %d, after %d commands: %s\n%s", seed,
			g.Commands(), frame, got)
		g.Observe([]byte(got))
		require.NoError(t, s.engine.CheckLedger())
		switch {
		case n <= instructedAccounts:
		case n%150 == 0:
			require.NoError(t, c.Close())
			twin.Close(1)
			c, twin = dial(t, addr), x.Connect()
			awaitCanceled(t, c, x, seed)
		case n%40 == 0:
			ruleBoth(t, r, s, x)
		case n%500 == 0:
			require.NoError(t, x.Check())
		}
	}
	require.NoError(t, x.Check())
	require.NoError(t, s.projector.WaitApplied(background, s.journal.Appended()))
	compareTables(t, database, x)
}

// awaitCanceled waits until the exchange has as many open orders as the model, in which the orders of an ended
// connection are already canceled, and requires that the open orders are the same.
func awaitCanceled(t *testing.T, c *conn, x *model.Exchange, seed uint64) {
	t.Helper()
	for id := 1; id <= instructedAccounts; id++ {
		ask := fmt.Sprintf(`<transactions id="%d"><orders/></transactions>`, id)
		want := model.Normalize(x.Do([]byte(ask), 1))
		var got string
		require.Eventually(t, func() bool {
			got = model.Normalize([]byte(c.must(t, ask)))
			return len(got) <= len(want)
		}, patience, time.Millisecond, "seed %d: account %d has open what ended with its connection", seed, id)
		require.Equal(t, want, got, "seed %d", seed)
	}
}

// ruleBoth does a random operator action on the exchange, and on its model unless x is nil.
func ruleBoth(t *testing.T, r *rand.Rand, s *server, x *model.Exchange) {
	t.Helper()
	if x == nil {
		x = model.New()
	}
	account, sym := fmt.Sprint(1+r.IntN(instructedAccounts)), fmt.Sprintf("SYM%d", r.IntN(instructedSymbols))
	switch r.IntN(8) {
	case 0:
		got, err := s.engine.Block(background, exchange.AccountID(account), "for a while")
		require.NoError(t, err)
		require.Equal(t, exchange.OK, got.Reason)
		x.Block(account, 1)
	case 1, 2:
		for id := 1; id <= instructedAccounts; id++ {
			_, err := s.engine.Unblock(background, exchange.AccountID(fmt.Sprint(id)))
			require.NoError(t, err)
			x.Unblock(fmt.Sprint(id))
		}
	case 3:
		_, err := s.engine.Halt(background, exchange.Symbol(sym), "news")
		require.NoError(t, err)
		x.Halt(sym)
	case 4:
		for n := range instructedSymbols {
			sym := fmt.Sprintf("SYM%d", n)
			_, err := s.engine.Resume(background, exchange.Symbol(sym))
			require.NoError(t, err)
			x.Resume(sym)
		}
	case 5:
		boundBoth(t, r, s, x, account)
	default:
		symbolBoth(t, r, s, x, sym)
	}
}

// boundBoth sets an account's rules: its default self-trade prevention, and at most one random bound, chosen so that
// many orders reach it.
func boundBoth(t *testing.T, r *rand.Rand, s *server, x *model.Exchange, account string) {
	t.Helper()
	mode := exchange.SelfTrade(r.IntN(4))
	var bounds model.AccountRules
	if mode != exchange.TradeWithSelf {
		bounds.STP = mode.String()
	}
	rules := exchange.AccountRules{STP: mode}
	switch r.IntN(6) {
	case 0:
		rules.SharesMax = exchange.Shares(20e8)
		bounds.SharesMax = big.NewInt(20e8)
	case 1:
		rules.NotionalMax = exchange.Notional(7005e7, 1e8)
		bounds.NotionalMax = new(big.Int).Mul(big.NewInt(7005), big.NewInt(1e15))
	case 2:
		rules.OpenMax, bounds.OpenMax = 5, 5
	}
	got, err := s.engine.SetAccountRules(background, exchange.AccountID(account),
		func(have *exchange.AccountRules) { *have = rules })
	require.NoError(t, err)
	require.Equal(t, exchange.OK, got.Reason)
	x.SetAccountRules(account, bounds)
}

// symbolBoth sets random rules of a symbol. The exchange may refuse them because of open orders.
func symbolBoth(t *testing.T, r *rand.Rand, s *server, x *model.Exchange, sym string) {
	t.Helper()
	pick := func(units ...int64) (n int64, v *big.Int) {
		if n = units[r.IntN(len(units))]; n != 0 {
			v = big.NewInt(n)
		}
		return n, v
	}
	tick, modelTick := pick(0, 0, 1e6, 5e6)
	lot, modelLot := pick(0, 0, 5e7)
	protect, modelProtect := pick(0, 1e5, 1e7, 2e8)
	band, modelBand := pick(0, 0, 0, 1e6, 1e7)
	got, err := s.engine.SetSymbolRules(background, exchange.Symbol(sym), func(have *exchange.SymbolRules) {
		*have = exchange.SymbolRules{Tick: exchange.Price(tick), Lot: exchange.Shares(lot),
			Protect: exchange.Fraction(protect), Band: exchange.Fraction(band)}
	})
	require.NoError(t, err)
	err = x.SetSymbolRules(sym, model.SymbolRules{Tick: modelTick, Lot: modelLot, Protect: modelProtect, Band: modelBand})
	if len(x.Orders()) > 0 {
		require.Equal(t, err == nil, got.Reason == exchange.OK, "%v: %s", err, got.Reason)
	}
}

// TestAViewIsWhatTheTablesSay: once the tables are up to date, they agree with account queries.
func TestAViewIsWhatTheTablesSay(t *testing.T) {
	flags, database := dataFlags(t)
	s, addr := inProcess(t, flags...)
	c, g := dial(t, addr), model.NewGenerator(1, instructedSymbols, instructedAccounts).Instruct()
	for g.Commands() < 2000 {
		g.Observe([]byte(c.must(t, string(g.Frame()))))
	}
	require.NoError(t, s.projector.WaitApplied(background, s.journal.Appended()))
	for _, row := range query(t, text(t, database), `SELECT id, balance, held FROM accounts WHERE id IN ('1', '2', '3')`) {
		want := fmt.Sprintf(`<account id="%s" balance="%s" held="%s"`, row[0], row[1], row[2])
		got := c.must(t, fmt.Sprintf(`<transactions id="%s"><account/></transactions>`, row[0]))
		require.True(t, strings.HasPrefix(strings.TrimPrefix(got, "<results>"), want), got)
	}
}
