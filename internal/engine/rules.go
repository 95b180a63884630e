package engine

import (
	"context"
	"fmt"

	"outcry/internal/exchange"
)

// Block makes an account place and amend no orders from now on, until Unblock, and then cancels
// all that it has open. An account that is blocked stays so as it is, without another record. The
// result is durable. Its Reason is OK, UnknownAccount, NoRoomToCancel or NotReadYet;
// what became of the cancel is in Canceled: if there is no room for it, it is tried again until there
// is. reason has passed exchange.ParseHaltReason. The error is that of Halt; the account may be blocked then, and
// the cancel is done without the caller.
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
	// Whatever was reserved before the block is open now, or soon: the cancel waits for it.
	c, err := e.cancelAll(ctx, canceling{account: id, cause: exchange.ByBlock})
	if err != nil || c.result.Reason != exchange.OK {
		e.keeper.laterBlocked(c.owner) // the account is blocked, also if the caller has left
	}
	if err != nil {
		return exchange.BlockResult{}, err
	}
	r.Canceled = c.result
	return r, e.told(ctx)
}

// Unblock ends a block. It is otherwise as Block; the result has the block that it ended.
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
	return r, e.told(ctx)
}

// SetAccountRules changes the rules of an account: change, which is called while nobody else changes them,
// gets those that hold. A nil change only asks for them. A block is for Block and Unblock. The
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
	return r, e.told(ctx)
}

// told waits until what its caller has done and read may be told.
func (e *Engine) told(ctx context.Context) error {
	if e.failed.Load() {
		return fmt.Errorf("engine: %w", e.log.Err())
	}
	return e.Durable(ctx, e.mark(false))
}

// rule changes the rules of an account. The result is not durable yet.
func (e *Engine) rule(
	ctx context.Context, id exchange.AccountID, change func(*exchange.AccountRules),
) (exchange.AccountRulesResult, error) {
	r := new(exchange.AccountRulesResult)
	err := e.call(ctx, &e.registrar.inbox, func() error { return e.registrar.ruleAccount(id, change, r) })
	if err != nil {
		return exchange.AccountRulesResult{}, err // nothing was done, or the engine has failed
	}
	return *r, nil
}

// ruleAccount is rule, by the only goroutine that changes rules of accounts. An error is the
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
		*r = exchange.AccountRulesResult{Reason: refused.Reason, Text: textOf(&refused)}
		return err
	}
	e.mu.Lock()
	e.ledger.SetRules(account, &rules)
	e.ruled.Store(true)
	e.mu.Unlock()
	r.Changed = true
	return nil
}

// appendRuled appends g.event, in the journal's reserve, or says in refused why not.
func (g *registrar) appendRuled(refused *exchange.Result) (ok bool, err error) {
	e := g.engine
	if e.unreadable(refused) {
		return false, nil
	}
	g.record = exchange.AppendEvent(g.record[:0], &g.event)
	if ok, err = e.claimToCancel(len(g.record), refused); !ok {
		return false, err
	}
	_, err = e.append(g.record, len(g.record))
	return err == nil, err
}

// unreadable refuses what would write a record that not every node of the cluster reads.
func (e *Engine) unreadable(r *exchange.Result) bool {
	if e.options.Readers == nil {
		return false
	}
	err := e.options.Readers()
	if err == nil {
		return false
	}
	r.Reason, r.More = exchange.NotReadYet, &exchange.ResultMore{Reason: err.Error()}
	return true
}

// isBlocked reports whether an account is blocked.
func (e *Engine) isBlocked(a *exchange.Account) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return a.Rules() != nil && a.Rules().Block != nil
}

// SetSymbolRules changes the rules of a symbol, as SetAccountRules does those of an account. Its Reason
// is OK, UnknownSymbol, NoRoomToCancel, NotReadYet, or OffTick if a resting limit does not fit the new tick.
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
	return *r, e.told(ctx)
}

// rule is SetSymbolRules. An error is the journal's and final.
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
		*r = exchange.SymbolRulesResult{Reason: ofCancel(reason)}
		return err
	}
	if rules.Tick != before.Tick {
		if o, found := d.book.OffTick(rules.Tick); found {
			*r = exchange.SymbolRulesResult{Reason: exchange.OffTick, Misfit: o.ID, MisfitLimit: o.Limit}
			return nil
		}
	}
	var refused exchange.Result
	if d.engine.unreadable(&refused) {
		*r = exchange.SymbolRulesResult{Reason: refused.Reason, Text: refused.More.Reason}
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

// textOf returns what a refusal says beyond its reason.
func textOf(r *exchange.Result) string {
	if r.More == nil {
		return ""
	}
	return r.More.Reason
}

// sentRules returns the rules that a MakeSymbol, or a DepositShares in the same <symbol>, asks for.
func sentRules(c *exchange.Command) exchange.SymbolRules {
	if c.More == nil {
		return exchange.SymbolRules{}
	}
	return c.More.Rules
}

// sameRules refuses a MakeSymbol, and a DepositShares in the same <symbol>, of a symbol that is there with another
// tick or lot. What it does not send stays as it is.
func (d *shard) sameRules(c *exchange.Command, r *exchange.Result) {
	sent, rules := sentRules(c), d.book.Rules()
	if sent.Tick != 0 && sent.Tick != max(rules.Tick, 1) || sent.Lot != 0 && sent.Lot != max(rules.Lot, 1) {
		r.Reason, r.More = exchange.RulesDiffer, &exchange.ResultMore{Rules: rules}
	}
}
