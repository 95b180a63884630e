package torture

import (
	"context"
	"fmt"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/audit"
)

// Attacks in which one client uses as much as it can of one resource: replies, open orders, accounts, symbols.

// Limits of the attacked exchange. Traders have fewer open orders than the small limit.
const (
	openSmall, openLarge         = 10_000, 100_000
	accountsSmall, accountsLarge = 1_000, 200_000
	symbolsSmall, symbolsLarge   = 2_000, 100_000

	// frameReplyMax is --max-reply. No reply may be larger, even if each of hundreds of errors would
	// repeat a value of a megabyte.
	frameReplyMax = 1 << 20
	frameAbusers  = 8

	overfill      = 2 * audit.BulkAtOnce // number of attempts beyond the limit
	symbolBytes   = 2 << 10              // memory for an idle symbol, half of it for the garbage collector
	orderBytes    = 1 << 10              // memory for an open order until it is in the tables
	goroutinesMax = 200                  // additional goroutines that are not for symbols
)

// dollarOrder is the smallest order: a dollar pays for 10^16 of them.
var dollarOrder = audit.BulkOrder{Account: abuserName, Sym: abuseSym, Amount: "0.00000001", Limit: "0.00000001"}

func (s *server) abuseFrames(ctx context.Context) error {
	frames := audit.LargeFrames(abuserName, s.size(64<<10, 1<<20), 400)
	sent, err := audit.LargeReplies(ctx, s.abuser, frames, s.size(2, 20), frameAbusers, frameReplyMax)
	s.summarize("%d frames of %d kinds", sent, len(frames))
	return err
}

func (s *server) abuseResting(ctx context.Context) error {
	bound := s.size(openSmall, openLarge)
	ids, refusal, err := s.PlaceMany(ctx, s.abuser, dollarOrder, bound+overfill)
	if err != nil {
		return err
	}
	s.summarize("%d orders of one account with a dollar", len(ids))
	return audit.Full("open orders of one account", len(ids), bound, refusal, "--max-open-orders-account")
}

// The accounts and symbols that exist before the attack, including the round's linear symbol.
const (
	accountsBefore = audit.AccountsOpened + 3
	symbolsBefore  = audit.SymbolsOpened + 2
)

func (s *server) abuseAccounts(ctx context.Context) error {
	id := func(i int) string { return fmt.Sprintf("7%09d", i) }
	return s.createMany(ctx, "accounts", accountsBefore, s.size(accountsSmall, accountsLarge),
		func(c *wire.Create, i int) { c.Account(wire.Account{ID: id(i), Balance: "1"}) },
		func(i int) { s.Opened(id(i), 1) })
}

// createMany tries to create more than bound accounts or symbols, of which before exist already.
func (s *server) createMany(ctx context.Context, what string, before, bound int, add func(c *wire.Create, i int),
	created func(i int)) error {
	n, refusal, err := audit.CreateMany(ctx, s.abuser, bound-before+overfill, add, created)
	if err != nil {
		return err
	}
	s.summarize("%d %s", n, what)
	return audit.Full(what, n+before, bound, refusal, "--max-"+what)
}

func (s *server) abuseSymbols(ctx context.Context) error {
	before, err := s.server.Metric(ctx, "go_goroutines")
	if err != nil {
		return err
	}
	bound := s.size(symbolsSmall, symbolsLarge)
	err = s.createMany(ctx, "symbols", symbolsBefore, bound,
		func(c *wire.Create, i int) { c.Symbol(fmt.Sprintf("Z%d", i)) }, func(int) {})
	if err != nil {
		return err
	}
	return s.await(ctx, "idle symbols have no goroutines", 0, func() (bool, error) {
		now, err := s.server.Metric(ctx, "go_goroutines")
		s.summarize("%d symbols, %.0f goroutines after %.0f", bound-symbolsBefore, now, before)
		return now <= before+goroutinesMax, err
	})
}
