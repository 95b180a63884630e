package torture

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"outcry/internal/check"
	"outcry/internal/wire"
)

// Open orders, accounts and symbols have bounds: the abuser makes them until it is
// refused. Judged are how many there were, what the refusal says, and what a symbol at
// rest costs.

// Bounds of an exchange that is filled. Traders have fewer open orders than the small one.
const (
	openSmall, openLarge         = 10_000, 100_000
	accountsSmall, accountsLarge = 1_000, 200_000
	symbolsSmall, symbolsLarge   = 2_000, 100_000

	overfill      = 2 * check.BulkAtOnce // so many more are tried
	symbolBytes   = 2 << 10              // of memory, that a symbol at rest may take; half of it is for the collector
	orderBytes    = 1 << 10              // of memory, that an open order may take until it is in the tables
	goroutinesMax = 200                  // that may be there in addition, for whatever is no symbol
)

// dollarOrder is one of the 10^16 that a dollar pays for.
var dollarOrder = check.BulkOrder{Account: abuserName, Sym: abuseSym, Amount: "0.00000001", Limit: "0.00000001"}

func (r *runner) abuseResting(ctx context.Context) error {
	bound := r.size(openSmall, openLarge)
	ids, refusal, err := r.PlaceMany(ctx, r.abuser, dollarOrder, bound+overfill)
	if err != nil {
		return err
	}
	r.abuseNote("%d orders of one account with a dollar", len(ids))
	return judgeFull("open orders of one account", len(ids), bound, refusal, "--max-open-orders-account")
}

// judgeFull demands that so many were accepted as a flag says, and that the refusal names it.
func judgeFull(what string, accepted, bound int, refusal, flag string) error {
	switch {
	case accepted != bound:
		return fmt.Errorf("the exchange took %d %s, of %d; the first refusal: %q", accepted, what, bound, refusal)
	case !strings.Contains(refusal, flag) || !strings.Contains(refusal, strconv.Itoa(bound)):
		return fmt.Errorf("the refusal of more than %d %s does not name it and %s: %q", bound, what, flag, refusal)
	}
	return nil
}

// There are accounts and symbols before the abuser comes: a round's linear symbol is one.
const (
	accountsBefore = check.AccountsOpened + 3
	symbolsBefore  = check.SymbolsOpened + 2
)

func (r *runner) abuseAccounts(ctx context.Context) error {
	bound := r.size(accountsSmall, accountsLarge)
	id := func(i int) string { return fmt.Sprintf("7%09d", i) }
	n, refusal, err := check.CreateMany(ctx, r.abuser, bound-accountsBefore+overfill,
		func(c *wire.Create, i int) { c.Account(wire.Account{ID: id(i), Balance: "1"}) },
		func(i int) { r.Opened(id(i), 1) })
	if err != nil {
		return err
	}
	r.abuseNote("%d accounts", n)
	return judgeFull("accounts", n+accountsBefore, bound, refusal, "--max-accounts")
}

func (r *runner) abuseSymbols(ctx context.Context) error {
	before, err := r.server.Metric(ctx, "go_goroutines")
	if err != nil {
		return err
	}
	bound := r.size(symbolsSmall, symbolsLarge)
	n, refusal, err := check.CreateMany(ctx, r.abuser, bound-symbolsBefore+overfill,
		func(c *wire.Create, i int) { c.Symbol(fmt.Sprintf("Z%d", i)) }, func(int) {})
	if err != nil {
		return err
	}
	r.abuseNote("%d symbols", n)
	if err := judgeFull("symbols", n+symbolsBefore, bound, refusal, "--max-symbols"); err != nil {
		return err
	}
	return r.await(ctx, "no symbol at rest has a goroutine", func() (bool, error) {
		now, err := r.server.Metric(ctx, "go_goroutines")
		r.abuseNote("%d symbols, %.0f goroutines after %.0f", n, now, before)
		return now <= before+goroutinesMax, err
	})
}
