package exchange

// CommandKind tells what a Command asks.
type CommandKind uint8

// The commands. Each is one element of the protocol, but for MakeSymbol, which
// every <symbol> asks once, before its accounts, and for ShowOrder, which the
// protocol does not have: it asks for an order without being an account.
const (
	OpenAccount   CommandKind = iota + 1 // Account, Balance, Ref
	MakeSymbol                           // Symbol; done already is fine
	DepositShares                        // Symbol, Account, Deposited, Ref
	PlaceOrder                           // Account, Symbol, Side, Shares, Limit, Ref
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
	Side      Side
	OwnOnly   bool // a QueryOrder is refused as ForeignOrder where the order is not Account's
	Repeat    bool // what has a ref is refused as RateExceeded unless it was done before
	Account   AccountID
	Symbol    Symbol
	Balance   Cash
	Deposited Position
	Shares    Shares
	Limit     Price
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
	// AccountOrdersExceeded and OpenOrdersExceeded.
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

// ClosedOrder is an order that has nothing open any more, as history tells it.
type ClosedOrder struct {
	Account AccountID
	Seq     uint64 // of the record that accepted it, 0 if it is older than history
	PublicOrder
}

// RejectReason says why a command was refused. A refusal is the client's
// mistake and part of the normal result, not an error of the exchange.
type RejectReason uint8

// The reasons. wire turns them into text.
const (
	OK                    RejectReason = iota
	AccountExists                      // the id is taken
	BalanceTotalExceeded               // all balances ever made would reach CashTotalMax
	UnknownAccount                     // no such account
	SymbolLimitExceeded                // the exchange holds as many symbols as it may
	PositionTotalExceeded              // the symbol's shares would reach PositionTotalMax
	UnknownSymbol                      // the symbol was never made
	InsufficientFunds                  // a buy costs more than the account can spend
	InsufficientShares                 // a sell is of more than the account can sell
	UnknownOrder                       // no order has that id
	ForeignOrder                       // the order belongs to another account
	AlreadyExecuted                    // nothing is open any more: all was executed
	AlreadyCanceled                    // nothing is open any more: it was canceled
	NoRoom                             // the disk has no room for more journal
	NoRoomToCancel                     // nor has it for a cancel: the reserve is used up
	TooManyFills                       // the order would match more orders than one record of the journal takes
	DatabaseBehind                     // Postgres is too far behind, or away for too long
	HistoryUnavailable                 // the order is only in Postgres, which does not answer
	RefUsed                            // the account has used the ref for something else
	RefUnavailable                     // whether the ref was used is only in Postgres, which does not answer
	Halted                             // the symbol takes no orders
	RateExceeded                       // the account sends more than it may
	TooManyCancels                     // the account has more open than one record of the journal takes
	InHistory                          // pending: the order is only in Postgres, which has not been asked yet
	AccountLimitExceeded               // the exchange holds as many accounts as it may
	AccountOrdersExceeded              // the account has as many orders open as it may
	OpenOrdersExceeded                 // the exchange holds as many open orders as it may
	OrderTooSmall                      // amount × limit is less than an order has to be worth
	rejectReasons                      // how many there are
)

// String returns the name that metrics use.
func (r RejectReason) String() string {
	if r < rejectReasons {
		return rejectNames[r]
	}
	return "unknown"
}

var rejectNames = [rejectReasons]string{
	OK:                    "ok",
	AccountExists:         "account_exists",
	BalanceTotalExceeded:  "balance_total_exceeded",
	UnknownAccount:        "unknown_account",
	SymbolLimitExceeded:   "symbol_limit_exceeded",
	PositionTotalExceeded: "position_total_exceeded",
	UnknownSymbol:         "unknown_symbol",
	InsufficientFunds:     "insufficient_funds",
	InsufficientShares:    "insufficient_shares",
	UnknownOrder:          "unknown_order",
	ForeignOrder:          "foreign_order",
	AlreadyExecuted:       "already_executed",
	AlreadyCanceled:       "already_canceled",
	NoRoom:                "no_room",
	DatabaseBehind:        "database_behind",
	HistoryUnavailable:    "history_unavailable",
	NoRoomToCancel:        "no_room_to_cancel",
	TooManyFills:          "too_many_fills",
	RefUsed:               "ref_used",
	RefUnavailable:        "ref_unavailable",
	Halted:                "symbol_halted",
	RateExceeded:          "rate_exceeded",
	TooManyCancels:        "too_many_cancels",
	InHistory:             "in_history",
	AccountLimitExceeded:  "account_limit_exceeded",
	AccountOrdersExceeded: "account_orders_exceeded",
	OpenOrdersExceeded:    "open_orders_exceeded",
	OrderTooSmall:         "order_too_small",
}
