package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/model"
)

const (
	// disconnectTimeout is how long orders may stay open after their connection has ended, since the server may
	// notice the end late.
	disconnectTimeout = 30 * time.Second
	disconnectPoll    = 10 * time.Millisecond
)

// Settle disarms every dead man's switch, and waits until all orders that end with their connection are canceled.
// The exchange must be up, and all client connections must have ended.
func (s *Session) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, disconnectTimeout)
	defer cancel()
	for _, account := range slices.Concat(s.accounts, s.poor) {
		disarm := wire.NewTransactions(account).Element("cancel-after", wire.Attr{Name: "seconds", Value: "0"})
		if err := Expect(ctx, s.At, "cancel-after", disarm.Append(nil)); err != nil {
			return fmt.Errorf("check: %w", err)
		}
		for {
			open, err := s.openOrders(ctx, account)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(open, func(o wire.Part) bool { return o.Get("cod") == "yes" })
			if at < 0 {
				break
			}
			select {
			case <-time.After(disconnectPoll):
			case <-ctx.Done():
				return fmt.Errorf("order %s is still open, but its connection ended long ago", open[at].Get("id"))
			}
		}
	}
	return nil
}

// openOrders lists all open orders of an account.
func (s *Session) openOrders(ctx context.Context, account string) (all []wire.Part, err error) {
	for after := ""; ; {
		ask := wire.NewTransactions(account).Element("orders", wire.Attr{Name: "after", Value: after})
		answers, err := Ask(ctx, s.At, ask.Append(nil))
		switch {
		case err != nil:
			return nil, err
		case len(answers) != 1 || answers[0].Kind != "orders":
			return nil, fmt.Errorf("check: the open orders of account %s are %+v", account, answers)
		}
		all, after = append(all, answers[0].Parts...), answers[0].After
		if !answers[0].More {
			return all, nil
		}
	}
}

// CheckViews checks that every account's own view equals the tables. CheckTables must be called before.
func (s *Session) CheckViews(ctx context.Context) error {
	open := map[string]map[string]*order{}
	for _, account := range slices.Concat(s.accounts, s.poor) {
		open[account] = map[string]*order{}
	}
	for _, o := range s.truth.orders {
		if o.open > 0 && open[o.account] != nil {
			open[o.account][fmt.Sprint(o.id)] = o
		}
	}
	for account, orders := range open {
		if err := s.checkHoldings(ctx, account); err != nil {
			return err
		}
		seen, err := s.openOrders(ctx, account)
		if err != nil {
			return err
		}
		for _, p := range seen {
			o := orders[p.Get("id")]
			if o == nil {
				return fmt.Errorf("account %s sees order %s as open, but it is not", account, p.Get("id"))
			}
			total := o.before + o.done + o.open
			if !o.buys() {
				total = -total
			}
			if p.Get("open") != decimal(o.open) || p.Get("amount") != decimal(total) || p.Get("limit") != decimal(o.limit) ||
				p.Get("sym") != o.sym || p.Get("stp") != o.stp || p.Get("post") != o.post || p.Get("cod") != o.cod {
				return fmt.Errorf("account %s sees %+v, but the tables have %+v", account, p, *o)
			}
		}
		if len(seen) != len(orders) {
			return fmt.Errorf("account %s sees %d open orders, but has %d", account, len(seen), len(orders))
		}
		s.checked.Answers += int64(len(seen)) + 1
	}
	return nil
}

// checkHoldings compares an account's view of its cash and shares with the tables.
func (s *Session) checkHoldings(ctx context.Context, account string) error {
	answers, err := Ask(ctx, s.At, wire.NewTransactions(account).Element("account").Append(nil))
	if err != nil {
		return err
	}
	cash := s.truth.cash[account]
	free, held := model.Decimal(cash.free, 16), model.Decimal(cash.held, 16)
	if len(answers) != 1 || answers[0].Balance != free || answers[0].Held != held {
		return fmt.Errorf("account %s sees %+v, but has %s free and %s held", account, answers, free, held)
	}
	seen := map[string]bool{}
	for _, p := range answers[0].Parts {
		sym := p.Get("sym")
		seen[sym] = true
		h := s.truth.shares[[2]string{sym, account}]
		if h == nil || p.Get("shares") != model.Decimal(h.free, 8) || p.Get("held") != model.Decimal(h.held, 8) {
			return fmt.Errorf("account %s sees %+v, but has %+v", account, p, h)
		}
	}
	for key, h := range s.truth.shares {
		if key[1] == account && (h.free.Sign() != 0 || h.held.Sign() != 0) && !seen[key[0]] {
			return fmt.Errorf("account %s does not see its position of %s", account, key[0])
		}
	}
	return nil
}
