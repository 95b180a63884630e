package exchange

// BlockResult is what became of a block of an account, or of its end.
type BlockResult struct {
	Reason   RejectReason // OK, or why nothing was done; then the other fields are zero
	Text     string       // more of the reason, where it has values: for NotReadYet which node
	Changed  bool         // false if the account was blocked before, or was not
	Block    Halt         // the one that holds now, or that was ended; zero if there is none
	Canceled CancelAllResult
}

// AccountRulesResult is what became of new rules of an account.
type AccountRulesResult struct {
	Reason  RejectReason // OK, or why nothing was done
	Text    string       // more of the reason, where it has values
	Changed bool         // false if they are the ones that held before
	Rules   AccountRules // that hold now
}

// SymbolRulesResult is what became of new rules of a symbol.
type SymbolRulesResult struct {
	Reason  RejectReason // OK, or why nothing was done
	Text    string       // more of the reason, where it has values
	Changed bool         // false if they are the ones that held before
	Rules   SymbolRules  // that hold now
	// Misfit is, after OffTick, an order that rests at a limit which is not a multiple of the new tick.
	Misfit      OrderID
	MisfitLimit Price
}
