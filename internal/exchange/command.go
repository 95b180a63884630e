package exchange

// CommandKind says what a Command asks.
type CommandKind uint8

// The commands. Each is one element of the protocol, except MakeSymbol, which
// every <symbol> asks once, before its accounts, and for ShowOrder, which the
// protocol does not have: it asks for an order without being an account.
const (
	OpenAccount   CommandKind = iota + 1 // Account, Balance, Ref
	MakeSymbol                           // Symbol; done already is fine
	DepositShares                        // Symbol, Account, Deposited, Ref
	PlaceOrder                           // Account, Symbol, Terms, Shares, Ref
	QueryOrder                           // Account, Order or Ref
	CancelOrder                          // Account, Order or Ref
	ShowOrder                            // Order
)

// String returns the name that metrics and logs use.
func (k CommandKind) String() string {
	switch k {
	case OpenAccount:
		return "account"
	case MakeSymbol:
		return "symbol"
	case DepositShares:
		return "place"
	case PlaceOrder:
		return "order"
	case QueryOrder:
		return "query"
	case CancelOrder:
		return "cancel"
	case ShowOrder:
		return "show"
	}
	return "unknown"
}

// Tells reports whether a command of this kind is answered with what has become of an order.
func (k CommandKind) Tells() bool { return k == QueryOrder || k == CancelOrder }

// Command is one thing that a client asks. Its values have passed the Parse
// functions of this package; the fields that a kind does not name are zero.
type Command struct {
	Kind      CommandKind
	Account   AccountID
	Symbol    Symbol
	Balance   Cash
	Deposited Position
	Terms     // of an order, with Shares
	Shares    Shares
	Order     OrderID
	Ref       Ref // "" is none
}

// Result is what one Command came to. Reason is OK when it was done; otherwise
// nothing changed.
type Result struct {
	Reason RejectReason
	// Order is the order's id after an accepted PlaceOrder, and after a QueryOrder or a
	// CancelOrder that names the order by its ref.
	Order OrderID
	// CashHave is what the account could spend, after InsufficientFunds.
	CashHave Cash
	// SharesHave is what the account could sell, after InsufficientShares.
	SharesHave Position
	// Most is the bound that is reached, after SymbolLimitExceeded, AccountLimitExceeded,
	// AccountOrdersExceeded, OpenOrdersExceeded and ReplyTooLong.
	Most int64
	// ValueLeast is what an order has to be worth, after OrderTooSmall.
	ValueLeast *Cash
	// Status is the answer to an accepted QueryOrder or CancelOrder.
	Status Status
	// Halt is since when and why, after Halted.
	Halt *Halt
	// Shown is the answer to an accepted ShowOrder, nil to all others.
	Shown *PublicOrder
	// Seen is, with InHistory, the last record that the history had when the order was
	// looked for: an order of a later one was not there then.
	Seen uint64
}

// Status is what has become of an order (docs/PROTOCOL.md, section "query").
type Status struct {
	Open       Shares      // still in the book; 0 when nothing is
	Canceled   Shares      // taken back by a cancel; 0 when it was not canceled
	CanceledAt int64       // nanoseconds since the Unix epoch, when Canceled is not 0
	Executions []Execution // oldest first
}

// Execution is one owner's view of one fill.
type Execution struct {
	Shares Shares
	Price  Price
	Time   int64 // nanoseconds since the Unix epoch
}

// ClosedOrder is an order that has nothing open any more, as history has it.
type ClosedOrder struct {
	Account AccountID
	Seq     uint64 // of the record that accepted it, 0 if it is older than history
	PublicOrder
}
