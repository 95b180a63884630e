package engine

import "outcry/internal/exchange"

// setSwitch arms the dead man's switch of an account, or disarms it. It goes on in the journal's
// reserve, as a cancel (claimToArm): who cannot say that he is there would lose his orders. An error is the journal's
// and final.
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
	// What a switch that passes appends has to come before, or after, in the journal and in memory.
	e.switchMu.Lock()
	defer e.switchMu.Unlock()
	old := e.dueOf(account)
	if due == 0 && old == 0 || e.unreadable(result) {
		return nil
	}
	if old != 0 && old <= now && e.unresumed.Load() {
		result.Reason = exchange.Unresumed // it passed while the exchange was down: nothing takes that back
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

// claimToArm claims room for a switch. While the exchange takes nothing new, that is no more often than an
// account may cancel all: otherwise the reserve for cancels would be anybody's who sends it again and again.
func (e *Engine) claimToArm(a *exchange.Account, r *exchange.Result) (ok bool, err error) {
	if r.Reason = e.admit(); r.Reason == exchange.OK {
		if ok, err = e.claim(exchange.EventBytesMax, r); r.Reason != exchange.NoRoom {
			return ok, err
		}
	}
	if !e.arms.take(a, e.keeper.clock.now()) {
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

// adoptRuled arms the switches of a state that was restored, and finds out whether accounts have rules.
func (e *Engine) adoptRuled() {
	for a := range e.ledger.Ruled() {
		if a.Rules() != nil {
			e.ruled.Store(true)
		}
		e.keeper.arm(a, a.Due())
	}
}
