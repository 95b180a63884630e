package engine

import "outcry/internal/exchange"

// setSwitch arms or disarms the dead man's switch of an account. Like a cancel it may use the journal's
// reserve (claimToArm): otherwise a full disk would keep clients from renewing the switch, and they would lose their
// orders. An error is the journal's and final.
func (r *registrar) setSwitch(c *exchange.Command, result *exchange.Result, now int64) error {
	e := r.engine
	account := e.account(c.Account)
	if account == nil {
		result.Reason = exchange.UnknownAccount
		return nil
	}
	due := int64(0)
	if c.More != nil && c.More.Seconds > 0 {
		due = now + int64(c.More.Seconds)*exchange.Second
	}
	// The record of a switch that passes must be before or after this one both in the journal and in memory.
	e.switchMu.Lock()
	defer e.switchMu.Unlock()
	old := e.dueOf(account)
	if due == 0 && old == 0 || e.refuseUnreadable(result) {
		return nil
	}
	if old != 0 && old <= now && e.unresumed.Load() {
		result.Reason = exchange.Unresumed // it passed while the exchange was down, which cannot be undone
		return nil
	}
	ok, err := e.claimToArm(account, result)
	if !ok {
		return err
	}
	r.event = exchange.Event{Kind: exchange.SwitchSet, Time: now, Account: c.Account, Due: due}
	if err := r.append(result); err != nil {
		return err
	}
	e.mu.Lock()
	e.ledger.SetSwitch(account, due)
	e.mu.Unlock()
	e.keeper.arm(account, due)
	return nil
}

// claimToArm claims room for the record of a switch. While the exchange accepts nothing new, an account may use the
// reserve only as often as it may cancel all. Without that limit, one account could use up the reserve for cancels.
func (e *Engine) claimToArm(a *exchange.Account, r *exchange.Result) (ok bool, err error) {
	if r.Reason = e.admit(); r.Reason == exchange.OK {
		if ok, err = e.claim(exchange.EventBytesMax, r); r.Reason != exchange.NoRoom {
			return ok, err
		}
	}
	if !e.arms.allow(a, e.keeper.clock.now()) {
		return false, nil
	}
	r.Reason = exchange.OK
	return claimed(e.log.ClaimReserve(exchange.EventBytesMax), exchange.NoRoom, exchange.TooManyFills, r)
}

// dueOf returns when the switch of an account passes, 0 if it is not armed.
func (e *Engine) dueOf(a *exchange.Account) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return a.Due()
}

// restoreSwitches arms the switches of a restored state, and sets e.ruled if an account has rules.
func (e *Engine) restoreSwitches() {
	for a := range e.ledger.Ruled() {
		if a.Rules() != nil {
			e.ruled.Store(true)
		}
		e.keeper.arm(a, a.Due())
	}
}
