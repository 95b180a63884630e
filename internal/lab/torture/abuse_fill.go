package torture

import (
	"context"
	"fmt"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/audit"
)

// What one account may use without limit: replies, open orders, accounts, symbols.

// Limits of an exchange that is filled. Traders have fewer open orders than the small limit.
const (
	openSmall, openLarge         = 10_000, 100_000
	accountsSmall, accountsLarge = 1_000, 200_000
	symbolsSmall, symbolsLarge   = 2_000, 100_000

	// frameReplyMax is --max-reply. No reply may be larger, even if each of hundreds of errors would
	// repeat a value of a megabyte.
	frameReplyMax = 1 << 20
	frameAbusers  = 8

	overfill      = 2 * audit.BulkAtOnce // how many beyond the limit are tried
	symbolBytes   = 2 << 10              // memory for an idle symbol, half of it for the garbage collector
	orderBytes    = 1 << 10              // memory for an open order until it is in the tables
	goroutinesMax = 200                  // additional goroutines that are not for symbols
)

// dollarOrder is the smallest order: a dollar pays for 10^16 of them.
var dollarOrder = audit.BulkOrder{Account: abuserName, Sym: abuseSym, Amount: "0.00000001", Limit: "0.00000001"}

func (r *runner) abuseFrames(ctx context.Context) error {
	frames := audit.LargeFrames(abuserName, r.size(64<<10, 1<<20), 400)
	sent, err := audit.LargeReplies(ctx, r.abuser, frames, r.size(2, 20), frameAbusers, frameReplyMax)
	r.abuseNote("%d frames of %d kinds", sent, len(frames))
	return err
}

func (r *runner) abuseResting(ctx context.Context) error {
	bound := r.size(openSmall, openLarge)
	ids, refusal, err := r.PlaceMany(ctx, r.abuser, dollarOrder, bound+overfill)
	if err != nil {
		return err
	}
	r.abuseNote("%d orders of one account with a dollar", len(ids))
	return audit.Full("open orders of one account", len(ids), bound, refusal, "--max-open-orders-account")
}

// The accounts and symbols that exist before the attack; a round's linear symbol is one.
const (
	accountsBefore = audit.AccountsOpened + 3
	symbolsBefore  = audit.SymbolsOpened + 2
)

func (r *runner) abuseAccounts(ctx context.Context) error {
	id := func(i int) string { return fmt.Sprintf("7%09d", i) }
	return r.createMany(ctx, "accounts", accountsBefore, r.size(accountsSmall, accountsLarge),
		func(c *wire.Create, i int) { c.Account(wire.Account{ID: id(i), Balance: "1"}) },
		func(i int) { r.Opened(id(i), 1) })
}

// createMany tries to create more than a bound allows. before of them exist already.
func (r *runner) createMany(ctx context.Context, what string, before, bound int, add func(c *wire.Create, i int),
	created func(i int)) error {
	n, refusal, err := audit.CreateMany(ctx, r.abuser, bound-before+overfill, add, created)
	if err != nil {
		return err
	}
	r.abuseNote("%d %s", n, what)
	return audit.Full(what, n+before, bound, refusal, "--max-"+what)
}

func (r *runner) abuseSymbols(ctx context.Context) error {
	before, err := r.server.Metric(ctx, "go_goroutines")
	if err != nil {
		return err
	}
	bound := r.size(symbolsSmall, symbolsLarge)
	err = r.createMany(ctx, "symbols", symbolsBefore, bound,
		func(c *wire.Create, i int) { c.Symbol(fmt.Sprintf("Z%d", i)) }, func(int) {})
	if err != nil {
		return err
	}
	return r.await(ctx, "idle symbols have no goroutines", 0, func() (bool, error) {
		now, err := r.server.Metric(ctx, "go_goroutines")
		r.abuseNote("%d symbols, %.0f goroutines after %.0f", bound-symbolsBefore, now, before)
		return now <= before+goroutinesMax, err
	})
}
