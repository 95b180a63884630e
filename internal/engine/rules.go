package engine

import (
	"context"

	"outcry/internal/exchange"
)

// Block makes an account place and amend no orders from now on, until Unblock, and then cancels
// all that it has open. An account that is blocked stays so as it is, without another record. The
// result is durable. Its Reason is OK, UnknownAccount, NoRoomToCancel or NotReadYet;
// what became of the cancel is in Canceled: if there is no room for it, it is tried again until there
// is. reason has passed exchange.ParseHaltReason. The error is that of Halt.
func (e *Engine) Block(ctx context.Context, id exchange.AccountID, reason string) (exchange.BlockResult, error) {
	panic("not yet")
}

// Unblock ends a block. It is otherwise as Block; the result has the block that it ended.
func (e *Engine) Unblock(ctx context.Context, id exchange.AccountID) (exchange.BlockResult, error) {
	panic("not yet")
}

// SetAccountRules changes the rules of an account: change, which is called while nobody else changes them,
// gets those that hold. A nil change only asks for them. A block is for Block and Unblock. The
// result is durable. Its Reason is OK, UnknownAccount, NoRoomToCancel or NotReadYet. The error is that of Halt.
func (e *Engine) SetAccountRules(
	ctx context.Context, id exchange.AccountID, change func(*exchange.AccountRules),
) (exchange.AccountRulesResult, error) {
	panic("not yet")
}

// SetSymbolRules changes the rules of a symbol, as SetAccountRules does those of an account. Its Reason
// is OK, UnknownSymbol, NoRoomToCancel, NotReadYet, or OffTick if a resting limit does not fit the new tick.
func (e *Engine) SetSymbolRules(
	ctx context.Context, sym exchange.Symbol, change func(*exchange.SymbolRules),
) (exchange.SymbolRulesResult, error) {
	panic("not yet")
}
