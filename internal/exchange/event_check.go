package exchange

import (
	"fmt"
	"math"
)

// Check returns an error, which wraps ErrEvent, where e has a value that no
// command can lead to. State.Apply may panic on such an event.
func (e *Event) Check() error {
	err := error(nil)
	if e.Kind != SymbolMade && e.Kind != SymbolHalted && e.Kind != SymbolResumed {
		_, err = ParseAccountID(string(e.Account))
	}
	if err == nil && e.Kind != AccountOpened && e.Kind != OrdersCanceled {
		_, err = ParseSymbol(string(e.Symbol))
	}
	if err == nil && e.Ref != "" {
		err = e.checkRef()
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrEvent, e.Kind, err)
	}
	switch e.Kind {
	case SymbolMade, SymbolResumed:
		return nil
	case AccountOpened:
		if e.Balance.Sign() < 0 || e.Balance.Cmp(balanceMax) >= 0 {
			return fmt.Errorf("%w: account %s with a balance of %s", ErrEvent, e.Account, e.Balance)
		}
	case SharesDeposited:
		if e.Deposited.Sign() <= 0 || e.Deposited.Cmp(depositMax) >= 0 {
			return fmt.Errorf("%w: %s of %s placed with account %s", ErrEvent, e.Deposited, e.Symbol, e.Account)
		}
	case OrderAccepted, OrderCanceled, OrderContinued:
		return e.checkOrder()
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

// checkRef returns an error where e has a ref that it cannot have.
func (e *Event) checkRef() error {
	if e.Kind != AccountOpened && e.Kind != SharesDeposited && e.Kind != OrderAccepted {
		return fmt.Errorf("it has the ref %s, and its kind has none", quote(string(e.Ref)))
	}
	_, err := ParseRef(string(e.Ref))
	return err
}

// checkOrder is Check for what orders and cancels have in common, and for fills.
func (e *Event) checkOrder() error {
	for _, f := range e.Fills {
		if _, err := ParseAccountID(string(f.Account)); err != nil {
			return fmt.Errorf("%w: order %d: fill with order %d: %w", ErrEvent, e.Order, f.Resting, err)
		}
	}
	return e.checkNumbers()
}

// checkNumbers is checkOrder except for the accounts of the fills.
func (e *Event) checkNumbers() error {
	if e.Order == 0 || e.Order > orderIDMax || !e.Terms.check() || !mayOrder(int64(e.Shares)) {
		return fmt.Errorf("%w: order %d: %s %s at %s", ErrEvent, e.Order, e.Side, e.Shares, e.Limit)
	}
	if e.Kind == OrderContinued && (e.Before <= 0 || e.Before >= math.MaxInt32 || len(e.Fills) == 0) {
		return fmt.Errorf("%w: order %d: a part of %d fills after %d", ErrEvent, e.Order, len(e.Fills), e.Before)
	}
	left := e.Shares
	for i := range e.Fills {
		f := &e.Fills[i]
		if f.Resting == 0 || f.Resting >= e.Order || f.Shares <= 0 || f.Shares > left || !mayOrder(int64(f.Price)) {
			return fmt.Errorf("%w: order %d: fill of %s at %s with order %d", ErrEvent, e.Order, f.Shares, f.Price, f.Resting)
		}
		left -= f.Shares
	}
	return nil
}

// mayOrder reports whether an order may have such a number of shares, or such a limit.
func mayOrder(units int64) bool { return 0 < units && units < orderUnitsMax }
