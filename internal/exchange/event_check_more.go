package exchange

import (
	"fmt"
	"math"
)

// checkMore is checkNumbers for the fields of order instructions. left is what the fills leave of the order's shares.
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
		return fmt.Errorf("%w: order %d: %s held for further parts, %s", ErrEvent, e.Order, e.Hold, e.words())
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

// Check returns an error that names the value that an operator cannot set for a symbol.
func (r SymbolRules) Check() error {
	if r.Tick < 0 || r.Tick >= orderUnitsMax {
		return fmt.Errorf("tick %s is not from %s to below %s", r.Tick, Price(1), Price(orderUnitsMax))
	}
	if r.Lot < 0 || r.Lot >= orderUnitsMax {
		return fmt.Errorf("lot %s is not from %s to below %s", r.Lot, Shares(1), Shares(orderUnitsMax))
	}
	return nil
}

// Check returns an error that names the value that an operator cannot set for an account.
func (r *AccountRules) Check() error {
	if r.STP > CancelBoth {
		return fmt.Errorf("stp %s is invalid", r.STP)
	}
	if r.SharesMax < 0 || r.NotionalMax.Sign() < 0 || r.OpenMax < 0 {
		return fmt.Errorf(
			"a limit of %s shares, %s dollars, %d open orders is negative",
			r.SharesMax,
			r.NotionalMax,
			r.OpenMax,
		)
	}
	if r.Block != nil {
		_, err := ParseHaltReason(r.Block.Reason)
		return err
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
