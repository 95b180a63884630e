package exchange

import "fmt"

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
