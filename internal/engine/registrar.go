package engine

import "outcry/internal/exchange"

// registrar makes accounts and symbols. It has at most one goroutine, so that each name has
// one creator; only that goroutine calls do. It never waits for a shard.
type registrar struct {
	engine  *Engine
	inbox   inbox
	symbols int // number of symbols
	event   exchange.Event
	record  []byte
}

// String returns the registrar's name for errors.
func (r *registrar) String() string { return "the registrar" }

func (r *registrar) begin() {}

func (r *registrar) afterTask() {}

func (r *registrar) freeMemory() { r.record = nil }

func (r *registrar) chore() (more bool, err error) { return false, nil }

// amendUse is never called: only shards amend orders.
func (r *registrar) amendUse(c *exchange.Command, _ *exchange.Result) (exchange.RefUse, bool) {
	panic("engine: the registrar cannot execute a command of kind " + c.Kind.String())
}

// reportAgain does nothing: a command that opened an account has no report.
func (r *registrar) reportAgain(*exchange.Result) error { return nil }

// do executes one command. An error is the journal's and final, or errAgain.
func (r *registrar) do(c *Request, result *exchange.Result, now int64) error {
	if c.Kind == exchange.SetSwitch {
		return r.setSwitch(&c.Command, result, now)
	}
	if result.Reason = r.engine.admit(); result.Reason != exchange.OK {
		return nil
	}
	if c.Kind == exchange.OpenAccount {
		return r.openAccount(&c.Command, result, now)
	}
	return r.makeSymbol(&c.Command, result, now)
}

// openAccount checks, claims room, appends, and only then makes the account visible.
// No other goroutine opens accounts, so the check still holds after the append.
func (r *registrar) openAccount(c *exchange.Command, result *exchange.Result, now int64) error {
	e := r.engine
	e.mu.Lock()
	result.Reason = e.ledger.MayOpen(c.Account, c.Balance)
	if most := e.limits.accounts.Load(); result.Reason == exchange.OK && int64(e.ledger.Accounts()) >= most {
		result.Reason, result.Most = exchange.AccountLimitExceeded, most
	}
	e.mu.Unlock()
	if result.Reason != exchange.OK {
		return nil
	}
	if ok, err := e.claim(exchange.EventBytesMax, result); !ok {
		return err
	}
	r.event = exchange.Event{Kind: exchange.AccountOpened, Time: now, Account: c.Account, Balance: c.Balance, Ref: c.Ref}
	if err := r.append(result); err != nil {
		return err
	}
	e.mu.Lock()
	e.ledger.Open(c.Account, c.Balance)
	if c.Ref != "" { // in the same critical section, so that no other command of the account can use the ref first
		e.refs.table.Add(e.ledger.Account(c.Account), c.Ref, c.Use())
	}
	e.mu.Unlock()
	e.counters.accounts.Add(1)
	return nil
}

// makeSymbol makes a symbol and starts its shard. It accepts a symbol that exists already.
func (r *registrar) makeSymbol(c *exchange.Command, result *exchange.Result, now int64) error {
	e := r.engine
	if _, there := e.shards.Load(c.Symbol); there { // the symbol was made while this command waited
		if sentRules(c) != (exchange.SymbolRules{}) {
			return errAgain // only the shard can compare the rules
		}
		return nil
	}
	if most := e.limits.symbols.Load(); int64(r.symbols) >= most {
		result.Reason, result.Most = exchange.SymbolLimitExceeded, most
		return nil
	}
	rules := sentRules(c)
	if rules != (exchange.SymbolRules{}) && e.refuseUnreadable(result) {
		return nil
	}
	if ok, err := e.claim(exchange.EventBytesMax, result); !ok {
		return err
	}
	r.event = exchange.Event{Kind: exchange.SymbolMade, Time: now, Symbol: c.Symbol}
	if rules != (exchange.SymbolRules{}) {
		r.event.SymbolRules = &rules
	}
	if err := r.append(result); err != nil {
		return err
	}
	r.symbols++
	e.mu.Lock()
	li := e.ledger.List(c.Symbol)
	e.mu.Unlock()
	book := e.index.NewBook()
	book.Moment(now)
	book.SetRules(rules)
	e.openShard(li, book)
	return nil
}

// sentRules returns the rules in a MakeSymbol, or in a DepositShares, which may also make the symbol.
func sentRules(c *exchange.Command) exchange.SymbolRules {
	if c.More == nil {
		return exchange.SymbolRules{}
	}
	return c.More.Rules
}

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
	// The record of a switch that fires must be before or after this one both in the journal and in memory.
	e.switchMu.Lock()
	defer e.switchMu.Unlock()
	old := e.dueOf(account)
	if due == 0 && old == 0 || e.refuseUnreadable(result) {
		return nil
	}
	if old != 0 && old <= now && e.unresumed.Load() {
		result.Reason = exchange.Unresumed // the switch fired while the exchange was down, which cannot be undone
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

// append appends r.event to the journal, where room was claimed for it, and sets result.Seq.
func (r *registrar) append(result *exchange.Result) (err error) {
	r.record = exchange.AppendEvent(r.record[:0], &r.event)
	r.inbox.appended = true
	r.inbox.work += r.event.Work()
	result.Seq, err = r.engine.append(&r.event, r.record, exchange.EventBytesMax)
	return err
}
