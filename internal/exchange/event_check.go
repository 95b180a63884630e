package exchange

import (
	"fmt"
	"math"
)

// Check returns an error, which wraps ErrEvent, if e has a value that no
// command can lead to. State.Apply may panic on such an event.
func (e *Event) Check() error {
	err := error(nil)
	if e.Kind.ofAccount() {
		_, err = ParseAccountID(string(e.Account))
	}
	if err == nil && e.Kind.ofSymbol() {
		_, err = ParseSymbol(string(e.Symbol))
	}
	if err == nil && e.Ref != "" {
		err = e.checkRef()
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrEvent, e.Kind, err)
	}
	switch e.Kind {
	case SymbolResumed:
		return nil
	case SymbolMade, SymbolRuled, AccountRuled, SwitchSet:
		return e.checkRuled()
	case AccountOpened:
		if e.Balance.Sign() < 0 || e.Balance.Cmp(balanceMax) >= 0 {
			return fmt.Errorf("%w: account %s with a balance of %s", ErrEvent, e.Account, e.Balance)
		}
	case SharesDeposited:
		if e.Deposited.Sign() <= 0 || e.Deposited.Cmp(depositMax) >= 0 {
			return fmt.Errorf("%w: %s of %s deposited with account %s", ErrEvent, e.Deposited, e.Symbol, e.Account)
		}
	case OrderAccepted, OrderCanceled, OrderContinued, OrderReplaced:
		return e.checkOrder()
	case OrderReduced:
		return e.checkReduced()
	case SymbolHalted:
		if _, err := ParseHaltReason(e.Reason); err != nil {
			return fmt.Errorf("%w: %s of %s: %w", ErrEvent, e.Kind, e.Symbol, err)
		}
	case OrdersCanceled:
		return e.checkCancels()
	default:
		return fmt.Errorf("%w: unknown kind %d", ErrEvent, e.Kind)
	}
	return nil
}

// ofAccount reports whether an event of this kind has an account.
func (k EventKind) ofAccount() bool {
	return k != SymbolMade && k != SymbolHalted && k != SymbolResumed && k != SymbolRuled
}

// ofSymbol reports whether an event of this kind has a symbol.
func (k EventKind) ofSymbol() bool {
	return k != AccountOpened && k != OrdersCanceled && k != AccountRuled && k != SwitchSet
}

// mayRef reports whether an event of this kind may have a ref.
func (k EventKind) mayRef() bool {
	return k == AccountOpened || k == SharesDeposited || k == OrderAccepted || k == OrderReduced || k == OrderReplaced
}

// checkRef returns an error if e's ref is invalid, or its kind cannot have one.
func (e *Event) checkRef() error {
	if !e.Kind.mayRef() {
		return fmt.Errorf("it has the ref %s, but its kind cannot have one", quote(string(e.Ref)))
	}
	_, err := ParseRef(string(e.Ref))
	return err
}

// checkOrder is Check for events of orders, except the account and the symbol of the event.
func (e *Event) checkOrder() error {
	for _, f := range e.Fills {
		if _, err := ParseAccountID(string(f.Account)); err != nil {
			return fmt.Errorf("%w: order %d: fill with order %d: %w", ErrEvent, e.Order, f.Resting, err)
		}
	}
	return e.checkNumbers()
}

// checkNumbers is checkOrder without the accounts of the fills.
func (e *Event) checkNumbers() error {
	if e.Order == 0 || e.Order > orderIDMax || !e.Terms.check() || !validOrderUnits(int64(e.Shares)) {
		return fmt.Errorf("%w: order %d: %s %s at %s", ErrEvent, e.Order, e.Side, e.Shares, e.Limit)
	}
	if e.Kind == OrderContinued && !e.checkContinued() {
		return fmt.Errorf("%w: order %d: a part with %d fills after %d executions", ErrEvent, e.Order, len(e.Fills), e.Before)
	}
	left := e.Shares
	for i := range e.Fills {
		f := &e.Fills[i]
		if f.Resting == 0 || f.Resting >= e.Order || f.Shares <= 0 || f.Shares > left || !validOrderUnits(int64(f.Price)) {
			return fmt.Errorf("%w: order %d: fill of %s at %s with order %d", ErrEvent, e.Order, f.Shares, f.Price, f.Resting)
		}
		left -= f.Shares
	}
	if e.Kind == OrderCanceled {
		return nil
	}
	return e.checkMore(left)
}

// checkContinued reports whether e is valid as a further part of an order: it fills or cancels something, and
// follows a part that did.
func (e *Event) checkContinued() bool {
	begun := e.Before > 0 || e.Before == 0 && e.STP == CancelOldest // a first part may only have canceled own orders
	return begun && e.Before < math.MaxInt32 && (len(e.Fills) > 0 || len(e.Own) > 0 || e.Rest > 0)
}

// checkMore is checkNumbers for the fields of order instructions. left is how many of the order's shares the fills
// leave.
func (e *Event) checkMore(left Shares) error {
	if e.Rest != 0 && (e.Rest != left || e.mayRest() && e.STP != CancelNewest && e.STP != CancelBoth) {
		return fmt.Errorf("%w: order %d: %s of %s canceled at once, %s", ErrEvent, e.Order, e.Rest, left, e.words())
	}
	if len(e.Own) > 1 && e.STP != CancelOldest || len(e.Own) > 0 && e.STP < CancelOldest ||
		len(e.Own) > 0 && e.STP == CancelBoth && e.Rest == 0 {
		return fmt.Errorf("%w: order %d: %d own orders canceled, %s", ErrEvent, e.Order, len(e.Own), e.words())
	}
	for i := range e.Own {
		c := &e.Own[i]
		if !c.checkOwn(e) || c.Side == e.Side {
			return fmt.Errorf("%w: order %d: %s canceled of order %d, %s", ErrEvent, e.Order, c.Shares, c.Order, c.words())
		}
	}
	if e.Hold != (Cash{}) && (e.Hold.Sign() < 0 || e.Hold.Cmp(CashTotalMax) >= 0 || !e.marketBuy() || e.Open() == 0) {
		return fmt.Errorf("%w: order %d: it must not hold %s for further parts, %s", ErrEvent, e.Order, e.Hold, e.words())
	}
	if e.Unsent&UnsentLimit != 0 && e.Type != Market || e.Unsent&UnsentSTP != 0 && e.STP == TradeWithSelf {
		return fmt.Errorf("%w: order %d: unsent %d of %s", ErrEvent, e.Order, e.Unsent, e.words())
	}
	if e.Kind == OrderReplaced {
		return e.checkReplaced()
	}
	return nil
}

// checkOwn reports whether c is valid as a resting order of e's account that e canceled.
func (c *Cancel) checkOwn(e *Event) bool {
	return c.Order != 0 && c.Order < e.Order && c.Symbol == "" && c.Terms.check() && c.mayRest() &&
		validOrderUnits(int64(c.Shares))
}

// checkAmend is the part of Check common to OrderReduced and OrderReplaced. open is how many shares of the order are
// open after the amend, before it matches.
func (e *Event) checkAmend(open Shares) bool {
	a := e.Amend
	return a != nil && a.First != 0 && a.First <= e.Order && 0 <= a.Executed && validOrderUnits(int64(open)) &&
		a.Executed < orderUnitsMax-open && (a.Amount == 0 || a.Amount == a.Executed+open) &&
		(a.Limit == 0 || a.Limit == e.Limit) && e.mayRest() && e.Type == Limited
}

func (e *Event) checkReplaced() error {
	if !e.checkAmend(e.Shares) {
		return fmt.Errorf("%w: order %d: amended to %s, %+v", ErrEvent, e.Order, e.Shares, e.Amend)
	}
	a, old := e.Amend, e.Amend.Old
	inherited := old.Terms
	inherited.Limit = e.Limit
	if !old.checkOwn(e) || a.First > old.Order || inherited != e.Terms ||
		a.Amount == 0 && e.Shares != old.Shares || a.Limit == 0 && e.Limit != old.Limit {
		return fmt.Errorf(
			"%w: order %d: replaces order %d, %s of %s",
			ErrEvent,
			e.Order,
			old.Order,
			old.Shares,
			old.words(),
		)
	}
	return nil
}

// checkReduced is Check for an OrderReduced.
func (e *Event) checkReduced() error {
	if e.Order == 0 || e.Order > orderIDMax || !e.Terms.check() || e.Shares < 0 || e.Shares >= orderUnitsMax ||
		e.Shares == 0 && e.Ref == "" || e.Amend == nil || !e.checkAmend(e.Amend.Open) ||
		e.Shares > math.MaxInt64-e.Amend.Open || e.Amend.Amount == 0 && e.Shares != 0 {
		return fmt.Errorf("%w: order %d: reduced by %s, %+v", ErrEvent, e.Order, e.Shares, e.Amend)
	}
	return nil
}

// checkRuled is Check for AccountRuled, SymbolRuled, SwitchSet and SymbolMade.
func (e *Event) checkRuled() error {
	err := error(nil)
	switch {
	case e.Kind == AccountRuled && e.AccountRules == nil, e.Kind == SymbolRuled && e.SymbolRules == nil:
		err = fmt.Errorf("no rules")
	case e.Kind == AccountRuled:
		err = e.AccountRules.Check()
	case e.Kind == SwitchSet && e.Due < 0:
		err = fmt.Errorf("due at %d", e.Due)
	case e.SymbolRules != nil:
		err = e.SymbolRules.Check()
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrEvent, e.Kind, err)
	}
	return nil
}

// checkCancels is Check for the cancels of an event. There must be at least one, unless a dead man's
// switch fired for an account without open orders, and they must be sorted without duplicates.
func (e *Event) checkCancels() error {
	if len(e.Cancels) == 0 && e.Cause != BySwitch {
		return fmt.Errorf("%w: %s of account %s without orders", ErrEvent, e.Kind, e.Account)
	}
	for i := range e.Cancels {
		c := &e.Cancels[i]
		if _, err := ParseSymbol(string(c.Symbol)); err != nil {
			return fmt.Errorf("%w: %s: order %d: %w", ErrEvent, e.Kind, c.Order, err)
		}
		one := e.Cancel(i)
		if err := one.checkNumbers(); err != nil {
			return err
		}
		if i > 0 && e.Cancels[i-1].Compare(c) >= 0 {
			return fmt.Errorf("%w: %s: order %d of %s is out of order", ErrEvent, e.Kind, c.Order, c.Symbol)
		}
	}
	return nil
}
