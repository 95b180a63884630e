package engine

import (
	"context"

	"outcry/internal/exchange"
)

// Block rejects an account's orders and amends until Unblock, and then cancels all its open orders. If the account
// is blocked already, the block stays unchanged and there is no new record for it. The result is durable. Its
// Reason is OK, UnknownAccount, NoRoomToCancel or NotReadYet. Canceled has the result of the cancel; if the journal
// has no room for that, it is retried until there is. reason has passed exchange.ParseHaltReason. The error is that
// of Halt; the account may be blocked even then, and the cancel is then completed in the background.
func (e *Engine) Block(ctx context.Context, id exchange.AccountID, reason string) (r exchange.BlockResult, err error) {
	now := e.options.Now()
	set, err := e.rule(ctx, id, func(rules *exchange.AccountRules) {
		if rules.Block == nil {
			rules.Block = &exchange.Halt{Since: now, Reason: reason}
		}
	})
	if err != nil || set.Reason != exchange.OK {
		return exchange.BlockResult{Reason: set.Reason, Text: set.Text}, err
	}
	r.Changed, r.Block = set.Changed, *set.Rules.Block
	// Holds reserved before the block belong to orders that are open or soon will be: the cancel waits for these orders.
	c, err := e.cancelAll(ctx, canceling{account: id, cause: exchange.ByBlock})
	if err != nil || c.result.Reason != exchange.OK {
		e.keeper.retryBlocked(c.owner) // also if ctx has ended, because the account is blocked
	}
	if err != nil {
		return exchange.BlockResult{}, err
	}
	r.Canceled = c.result
	return r, e.waitVisible(ctx)
}

// Unblock ends a block. The result has the block that it ended. Otherwise it is like Block.
func (e *Engine) Unblock(ctx context.Context, id exchange.AccountID) (r exchange.BlockResult, err error) {
	set, err := e.rule(ctx, id, func(rules *exchange.AccountRules) {
		if rules.Block != nil {
			r.Block = *rules.Block
		}
		rules.Block = nil
	})
	if err != nil || set.Reason != exchange.OK {
		return exchange.BlockResult{Reason: set.Reason, Text: set.Text}, err
	}
	r.Changed = set.Changed
	return r, e.waitVisible(ctx)
}

// SetAccountRules changes the rules of an account. It calls change with the present rules; no other change runs
// at the same time. With a nil change it only returns the rules. Only Block and Unblock change the block. The
// result is durable. Its Reason is OK, UnknownAccount, NoRoomToCancel or NotReadYet. The error is that of Halt.
func (e *Engine) SetAccountRules(
	ctx context.Context, id exchange.AccountID, change func(*exchange.AccountRules),
) (exchange.AccountRulesResult, error) {
	r, err := e.rule(ctx, id, func(rules *exchange.AccountRules) {
		if block := rules.Block; change != nil {
			change(rules)
			rules.Block = block
		}
	})
	if err != nil {
		return exchange.AccountRulesResult{}, err
	}
	return r, e.waitVisible(ctx)
}

// rule changes the rules of an account through the registrar. The result is not durable yet.
func (e *Engine) rule(
	ctx context.Context, id exchange.AccountID, change func(*exchange.AccountRules),
) (exchange.AccountRulesResult, error) {
	r := new(exchange.AccountRulesResult)
	err := e.call(ctx, &e.registrar.inbox, func() error { return e.registrar.ruleAccount(id, change, r) })
	if err != nil {
		return exchange.AccountRulesResult{}, err // nothing was changed, or the engine has failed
	}
	return *r, nil
}

// ruleAccount changes the rules of an account. Only the registrar's goroutine calls it. An error is the
// journal's and final.
func (g *registrar) ruleAccount(
	id exchange.AccountID, change func(*exchange.AccountRules), r *exchange.AccountRulesResult,
) error {
	e := g.engine
	e.mu.Lock()
	account := e.ledger.Account(id)
	if account != nil && account.Rules() != nil {
		r.Rules = *account.Rules()
	}
	e.mu.Unlock()
	if account == nil {
		r.Reason = exchange.UnknownAccount
		return nil
	}
	before := r.Rules
	if change(&r.Rules); r.Rules == before {
		return nil
	}
	rules := r.Rules
	var refused exchange.Result
	g.event = exchange.Event{Kind: exchange.AccountRuled, Time: e.options.Now(), Account: id, AccountRules: &rules}
	if ok, err := g.appendRuled(&refused); !ok {
		*r = exchange.AccountRulesResult{Reason: refused.Reason, Text: rejectionText(&refused)}
		return err
	}
	e.mu.Lock()
	e.ledger.SetRules(account, &rules)
	e.ruled.Store(true)
	e.mu.Unlock()
	r.Changed = true
	return nil
}

// appendRuled appends g.event. It may use the journal's reserve. If ok is false and there is no error, refused
// holds the reason.
func (g *registrar) appendRuled(refused *exchange.Result) (ok bool, err error) {
	e := g.engine
	if e.refuseUnreadable(refused) {
		return false, nil
	}
	g.record = exchange.AppendEvent(g.record[:0], &g.event)
	if ok, err = e.claimToCancel(len(g.record), refused); !ok {
		return false, err
	}
	_, err = e.append(&g.event, g.record, len(g.record))
	return err == nil, err
}

// rejectionText returns the details of a rejection, or "" if it has none.
func rejectionText(r *exchange.Result) string {
	if r.Details == nil {
		return ""
	}
	return r.Details.Reason
}

// SetSymbolRules changes the rules of a symbol. It is like SetAccountRules, but its Reason is OK, UnknownSymbol,
// NoRoomToCancel, TooManyFills, NotReadYet, or OffTick if the limit of a resting order does not fit the new tick.
func (e *Engine) SetSymbolRules(
	ctx context.Context, sym exchange.Symbol, change func(*exchange.SymbolRules),
) (exchange.SymbolRulesResult, error) {
	found, ok := e.shards.Load(sym)
	if !ok {
		return exchange.SymbolRulesResult{Reason: exchange.UnknownSymbol}, e.Confirm(ctx)
	}
	d, r := found.(*shard), new(exchange.SymbolRulesResult)
	if err := e.call(ctx, &d.inbox, func() error { return d.rule(change, r) }); err != nil {
		return exchange.SymbolRulesResult{}, err // the shard may still write to r
	}
	return *r, e.waitVisible(ctx)
}

// rule changes the rules of the symbol, see Engine.SetSymbolRules. An error is the journal's and final, or ErrStopped.
func (d *shard) rule(change func(*exchange.SymbolRules), r *exchange.SymbolRulesResult) error {
	before := d.book.Rules()
	if r.Rules = before; change == nil {
		return nil
	}
	if change(&r.Rules); r.Rules == before {
		return nil
	}
	rules := r.Rules
	if reason, err := d.finish(); err != nil || reason != exchange.OK {
		*r = exchange.SymbolRulesResult{Reason: reasonForCancel(reason)}
		return err
	}
	if rules.Tick != before.Tick {
		if o, found := d.book.OffTick(rules.Tick); found {
			*r = exchange.SymbolRulesResult{Reason: exchange.OffTick, Misfit: o.ID, MisfitLimit: o.Limit}
			return nil
		}
	}
	var refused exchange.Result
	if d.engine.refuseUnreadable(&refused) {
		*r = exchange.SymbolRulesResult{Reason: refused.Reason, Text: refused.Details.Reason}
		return nil
	}
	now := d.book.Moment(d.engine.options.Now())
	d.event = exchange.Event{Kind: exchange.SymbolRuled, Time: now, Symbol: d.symbol, SymbolRules: &rules}
	var logged exchange.HaltResult
	seq, err := d.log(&logged)
	if seq == 0 {
		*r = exchange.SymbolRulesResult{Reason: logged.Reason}
		return err
	}
	d.book.SetRules(rules)
	r.Changed = true
	return nil
}
