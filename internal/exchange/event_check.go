package exchange

import "fmt"

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
