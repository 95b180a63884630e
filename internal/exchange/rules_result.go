package exchange

// BlockResult is the result of blocking or unblocking an account.
type BlockResult struct {
	Reason   RejectReason // OK, or why the request was refused; then only Text may be set
	Text     string       // details of Reason: for NotReadYet the node
	Changed  bool         // false if the account was blocked already, or was not blocked
	Block    Halt         // the block in force, or the one that was ended; zero if there is none
	Canceled CancelAllResult
}

// AccountRulesResult is the result of setting the rules of an account.
type AccountRulesResult struct {
	Reason  RejectReason // OK, or why the request was refused
	Text    string       // details of Reason
	Changed bool         // false if the rules were the same before
	Rules   AccountRules // the rules in force
}

// SymbolRulesResult is the result of setting the rules of a symbol.
type SymbolRulesResult struct {
	Reason  RejectReason // OK, or why the request was refused
	Text    string       // details of Reason
	Changed bool         // false if the rules were the same before
	Rules   SymbolRules  // the rules in force
	// After OffTick, Misfit is a resting order whose limit is not a multiple of the new tick.
	Misfit      OrderID
	MisfitLimit Price
}
