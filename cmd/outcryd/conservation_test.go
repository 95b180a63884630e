package main

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/lab/model"
)

// TestRandomCommandsConserve executes 100,000 random commands of the whole protocol (1,000,000 with -tags slow),
// with operator actions between them. After each command, cash and shares are conserved, nothing is negative, and
// every hold matches the open orders. At the end the tables are checked in the same way.
func TestRandomCommandsConserve(t *testing.T) {
	raced(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	flags, database := dataFlags(t)
	s, _ := inProcess(t, flags...)
	g := model.NewGenerator(seed, instructedSymbols, instructedAccounts).Instruct()
	r := rand.New(rand.NewPCG(seed, 6))
	origin := s.engine.NewOrigin()
	for n := 1; g.Commands() < 1_000_000/raceFactor/shortFactor; n++ {
		frame := g.Frame()
		var request wire.Request
		request.Decode(frame, nil)
		results := make([]exchange.Result, len(request.Commands))
		for i, c := range request.Commands {
			ask := []engine.Request{{Command: c, Origin: origin}}
			_, err := s.engine.Execute(background, ask, results[i:i+1])
			require.NoError(t, err)
			require.NoError(t, s.engine.CheckLedger(), "seed %d, after %d commands: %s", seed, g.Commands(), frame)
		}
		g.Observe(request.AppendReply(nil, results))
		if n > instructedAccounts && n%40 == 0 {
			ruleBoth(t, r, s, nil)
			require.NoError(t, s.engine.CheckLedger(), "seed %d", seed)
		}
		if n%300 == 0 {
			s.engine.EndOrigin(origin)
			origin = s.engine.NewOrigin()
		}
	}
	require.NoError(t, s.projector.WaitApplied(background, s.journal.Appended()))
	conserved(t, text(t, database))
}

// gauges returns the values of the two conservation metrics.
func gauges(t *testing.T, m *metrics) (cash, symbols float64) {
	t.Helper()
	families, err := m.registry.Gather()
	require.NoError(t, err)
	found := 0
	for _, f := range families {
		switch f.GetName() {
		case "outcry_cash_imbalance_dollars":
			cash, found = f.GetMetric()[0].GetGauge().GetValue(), found+1
		case "outcry_share_imbalance_symbols":
			symbols, found = f.GetMetric()[0].GetGauge().GetValue(), found+1
		}
	}
	require.Equal(t, 2, found)
	return cash, symbols
}

// TestAnImbalanceShows plants an imbalance: account 1 becomes a copy of account 2, and a deposit of shares is missing
// from the symbol's total.
func TestAnImbalanceShows(t *testing.T) {
	flags, _ := dataFlags(t)
	s, addr := inProcess(t, flags...)
	c := dial(t, addr)
	c.must(t, opening)
	c.must(t, `<transactions id="2"><order sym="S" amount="-3" limit="3"/></transactions>`)
	c.must(t, `<transactions id="1"><order sym="S" amount="2.5" limit="3"/></transactions>`)
	cash, symbols := gauges(t, s.metrics)
	require.Zero(t, cash)
	require.Zero(t, symbols)

	ledger := s.engine.State().Ledger // safe without a lock because no one trades any more
	instrument := ledger.Instrument("S")
	before := *instrument
	ledger.Deposit(instrument, "1", exchange.Shares(1).Position())
	*instrument = before
	*ledger.Account("1") = *ledger.Account("2")
	fresh := newMetrics() // metrics with nothing cached
	fresh.watchConservation(&conservation{count: s.engine.Reconcile})
	cash, symbols = gauges(t, fresh)
	require.InDelta(t, 7.5+7.5-100000, cash, 0)
	require.InDelta(t, 1, symbols, 0)
}

func TestConservationIsNotCountedTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := 0
		c := &conservation{count: func() exchange.Imbalance { counts++; return exchange.Imbalance{Symbols: counts} }}
		for range 3 {
			require.Equal(t, 1, c.imbalance().Symbols)
		}
		time.Sleep(conservationEvery)
		require.Equal(t, 2, c.imbalance().Symbols)
		require.Equal(t, 2, c.imbalance().Symbols)
	})
}

func TestTheSmallestImbalanceIsNotZero(t *testing.T) {
	require.InDelta(t, 1e-16, dollars(exchange.Cash{Lo: 1}), 0)
	require.InDelta(t, -1e-16, dollars(exchange.Cash{}.Sub(exchange.Cash{Lo: 1})), 0)
	require.Zero(t, dollars(exchange.Cash{}))
}
